"""Reads the applications of Pollux' published artifact (OSDI 2021; petuum/adaptdl, branch osdi21-artifact) from its
folder `traces/`: how fast each trains on a placement, and how much a batch of any size advances its training.

The rules are those of the published simulation. Progress per second = gain / step time, with gain = (var + sqr) /
(var / scale + sqr) and scale = batch size / initial batch size. Each accumulation adds (step - sync) to the time of a
step. A job chooses the batch size with the most progress per second. Measurements are interpolated linearly. Reads
files, and has no other side effect.
"""

from __future__ import annotations

import csv
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tjworker.api.model import BatchSize
from tjworker.autoscale.step_time import interpolate
from tjworker.simulate.scenario import ScenarioError
from tjworker.simulate.speed import Layout, Rate

EPOCHS = {"bert": 2, "cifar10": 100, "ncf": 10, "imagenet": 90, "deepspeech2": 80, "yolov3": 50}
LARGEST_LOCAL = {"yolov3": 8}
"""The largest local batch size of applications for which it is not the largest measured one."""
FIXED_BATCH = {"ncf": 32768}
"""The batch size of applications that do not adapt it."""
BATCH_SIZES = 48
"""The number of batch sizes that are tried from the smallest to the largest, in geometric steps."""


@dataclass(frozen=True, slots=True)
class Epoch:
    """One epoch of the validation run with one batch size."""

    progress: float
    grad_sqr: float
    grad_var: float


Curve = Sequence[tuple[float, float]]


class Application:
    """One folder of the artifact. Raises ScenarioError, which names the file, if it cannot be read."""

    def __init__(self, folder: Path) -> None:
        self.name = folder.name
        if not folder.is_dir():
            raise ScenarioError(f"application {folder.name!r}: there is no folder {folder}")
        self._steps: dict[str, tuple[Curve, Curve]] = _curves(folder / "placements.csv", ("placement",))
        """Placement -> two curves by local batch size: seconds of a step, and of its synchronisation."""
        wide: dict[str, tuple[Curve, Curve]] = _curves(folder / "scalability.csv", ("num_nodes", "num_replicas"))
        self._wide = _by_size(self._steps, wide)
        """Number of nodes -> number of replicas -> the same curves, mean over the placements."""
        # The name is validation-BATCHSIZE.csv; the prefix has eleven characters.
        validated = [path for path in sorted(folder.glob("validation-*.csv")) if path.stem[11:].isdecimal()]
        runs = {int(path.stem[11:]): rows for path in validated if (rows := _validation(path))}
        if not runs or not self._steps:
            missing = "validation-*.csv" if not runs else "placements.csv"
            raise ScenarioError(f"application {self.name}: {folder} has no {missing} with a row")
        self._runs = runs
        self._batches = sorted(runs)
        self.smallest, self.largest = self._batches[0], self._batches[-1]
        sizes = [local for steps, _ in self._steps.values() for local, _ in steps]
        self.least_local, self.most_local = min(sizes), min(max(sizes), LARGEST_LOCAL.get(self.name, max(sizes)))
        epochs = min(EPOCHS.get(self.name, 1 << 30), *(len(run) for run in runs.values()))
        self._marks = [min(run[epoch].progress for run in runs.values()) for epoch in range(epochs)]
        """Progress at the end of each epoch."""
        self.work = self._marks[-1]
        self._known_steps: dict[tuple[Layout, int], tuple[float, float]] = {}
        self._known_rates: dict[tuple[Layout, int, int | None], Rate] = {}

    @property
    def batch_size(self) -> BatchSize | None:
        """The range in which the application adapts its batch size; None if it does not."""
        if self.name in FIXED_BATCH:
            return None
        return BatchSize(self.smallest, self.largest, int(self.least_local), int(self.most_local))

    # -- speed -----------------------------------------------------------------------------------------
    def rate(self, layout: Layout, done: float, batch: int | None) -> Rate:
        """The speed on a layout after `done` progress. `batch`: None for the best size at this point."""
        key = (layout, self._epoch(done), batch)
        if key not in self._known_rates:
            fixed = batch if batch is not None else FIXED_BATCH.get(self.name)
            batches = [fixed] if fixed is not None else self._choices(sum(layout))
            rates = [rate for size in batches if (rate := self._try(layout, done, size)) is not None]
            self._known_rates[key] = max(rates, key=lambda rate: rate.work_per_second, default=Rate(0.0, 0.0))
        return self._known_rates[key]

    def _choices(self, replicas: int) -> list[int]:
        low = max(self.smallest, round(replicas * self.least_local))
        if low >= self.largest:
            return [low] if low == self.largest else []
        factor = (self.largest / low) ** (1 / (BATCH_SIZES - 1))
        return sorted({min(self.largest, round(low * factor**i)) for i in range(BATCH_SIZES)})

    def _try(self, layout: Layout, done: float, batch: int) -> Rate | None:
        replicas = sum(layout)
        local = batch / replicas
        if local < self.least_local:
            # This batch size is too small for that many replicas.
            return None
        accumulations = max(0, -int(-local // self.most_local) - 1)
        step, sync = self._step(layout, round(local / (accumulations + 1) * 16))
        seconds = step + accumulations * (step - sync)
        sqr, var = self._gradient(batch, done)
        scale = batch / self.smallest
        gain = (var + sqr) / (var / scale + sqr)
        return Rate(gain / seconds, batch / seconds, batch, sqr, var, self._marks[self._epoch(done)])

    def _step(self, layout: Layout, sixteenths: int) -> tuple[float, float]:
        """(seconds of a step, seconds of its synchronisation) with a local batch size in sixteenths of a sample."""
        # Sixteenths are precise enough, and so few that the cache stays small.
        key = (layout, sixteenths)
        if key not in self._known_steps:
            local = min(max(sixteenths / 16, self.least_local), self.most_local)
            # The artifact names a placement by the smallest rotation of its layout.
            name = min("".join(map(str, layout[i:] + layout[:i])) for i in range(len(layout)))
            curves = self._steps.get(name)
            if curves is not None:
                seconds = (interpolate(curves[0], local), interpolate(curves[1], local))
            else:
                # Beyond the measured numbers of nodes a step takes as long as on the most.
                nodes, replicas = min(len(layout), max(self._wide)), sum(layout)
                seconds = (self._spread(0, nodes, replicas, local), self._spread(1, nodes, replicas, local))
            self._known_steps[key] = seconds
        return self._known_steps[key]

    def _spread(self, which: int, nodes: int, replicas: int, local: float) -> float:
        """Seconds on a layout that was not measured, interpolated between the measured numbers of nodes and of
        replicas. `which`: 0 for a step, 1 for its synchronisation."""
        points = []
        for measured, by_replicas in sorted(self._wide.items()):
            curve = [(n, interpolate(curves[which], local)) for n, curves in sorted(by_replicas.items())]
            points.append((measured, interpolate(curve, replicas)))
        return interpolate(points, nodes)

    # -- progress --------------------------------------------------------------------------------------
    def _epoch(self, done: float) -> int:
        return min(bisect_right(self._marks, done * (1 + 1e-12)), len(self._marks) - 1)

    def _gradient(self, batch: int, done: float) -> tuple[float, float]:
        """(squared norm, variance) of the gradient, interpolated between the validated batch sizes."""
        high = min(bisect_right(self._batches, batch), len(self._batches) - 1)
        low = max(0, high - 1)
        a, b = self._batches[low], self._batches[high]
        epoch = self._epoch(done)
        first, second = self._runs[a][epoch], self._runs[b][epoch]
        part = min(1.0, max(0.0, (batch - a) / (b - a))) if b > a else 0.0
        return (
            first.grad_sqr + part * (second.grad_sqr - first.grad_sqr),
            first.grad_var + part * (second.grad_var - first.grad_var),
        )


@dataclass(frozen=True, slots=True)
class PolluxSpeed:
    application: Application
    batch: int | None = None
    """None: the application adapts its batch size."""

    def rate(self, layout: Layout, done: float) -> Rate:
        return self.application.rate(layout, done, self.batch)


# -- files ---------------------------------------------------------------------------------------------
def _curves(path: Path, keys: Sequence[str]) -> dict[str, tuple[Curve, Curve]]:
    found: dict[str, dict[float, tuple[float, float]]] = defaultdict(dict)
    for row in _rows(path):
        key = " ".join(str(int(_number(path, row, name))) for name in keys)
        found[key][_number(path, row, "local_bsz")] = (_number(path, row, "step_time"), _number(path, row, "sync_time"))
    return {
        key: (
            tuple((local, seconds[0]) for local, seconds in sorted(by_local.items())),
            tuple((local, seconds[1]) for local, seconds in sorted(by_local.items())),
        )
        for key, by_local in found.items()
    }


# Placements with equal numbers of nodes and replicas are averaged.
def _by_size(
    placements: Mapping[str, tuple[Curve, Curve]], wide: Mapping[str, tuple[Curve, Curve]]
) -> dict[int, dict[int, tuple[Curve, Curve]]]:
    groups: dict[tuple[int, int], list[tuple[Curve, Curve]]] = defaultdict(list)
    for name, curves in placements.items():
        groups[len(name), sum(map(int, name))].append(curves)
    for name, curves in wide.items():
        nodes, replicas = map(int, name.split())
        groups[nodes, replicas].append(curves)
    found: dict[int, dict[int, tuple[Curve, Curve]]] = defaultdict(dict)
    for (nodes, replicas), members in groups.items():
        found[nodes][replicas] = (_mean([m[0] for m in members]), _mean([m[1] for m in members]))
    return dict(found)


def _mean(curves: Sequence[Curve]) -> Curve:
    locals_ = [local for local, _ in curves[0]]
    return tuple((local, sum(interpolate(curve, local) for curve in curves) / len(curves)) for local in locals_)


def _validation(path: Path) -> list[Epoch]:
    columns = ("progress", "grad_sqr", "grad_var")
    return [Epoch(*(_number(path, row, column) for column in columns)) for row in _rows(path)]


def _rows(path: Path) -> list[dict[str, str]]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))
    except OSError as error:
        raise ScenarioError(f"{path}: {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise ScenarioError(f"{path}: is no CSV in UTF-8: {error}") from None


def _number(path: Path, row: Mapping[str, str], column: str) -> float:
    """Raises ScenarioError, which names the file and the column, if the value is no number."""
    try:
        return float(row[column])
    except (KeyError, TypeError, ValueError):
        raise ScenarioError(f"{path}: column {column} is {row.get(column)!r}, and not a number") from None
