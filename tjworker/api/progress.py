"""How far a job has come and how fast it goes, as its program reports it. Pure; `at` is an argument.

A report is the body that Kubeflow Trainer's callbacks send: `{"trainerStatus": {...}}` (pkg/statusserver and
TrainerStatus in pkg/apis/trainer/v1alpha1/trainjob_types.go of kubeflow/trainer). `parse_report` reads it,
`fold_report` adds it to what is known of the job, `read_progress` and `with_progress` are its way from and to the job's
status. A refused report is data (`Refusal`) and changes nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from tjworker.api.status import JobStatus, Metric, SpeedRow, TrainerStatus
from tjworker.api.timefmt import from_rfc3339, to_rfc3339
from tjworker.base import printable

MAX_BODY_BYTES = 64 << 10
"""The limit of a report, as in Trainer's own server."""
MAX_METRICS = 256
"""The most metrics in one report, as in Trainer's schema."""
MAX_METRICS_KEPT = 64
"""The most metrics in the status, which every worker and every watch reads."""
MAX_METRIC_CHARS = 64
"""The longest name or value of a metric, as in Trainer's schema."""
MAX_SAMPLES = 16
"""Rows of the speed table."""
MAX_COUNT = 100
"""Reports that the mean of a row rests on. Each later one weighs 1 %, so that a row follows a program that changes."""
MAX_NOISE_COUNT = 5
"""The same for the gradient, whose noise grows by orders of magnitude while a job trains."""
MAX_INT32 = 2**31 - 1
MAX_REPLICAS = 10_000
MAX_RATE = 1e12
"""Samples per second."""
MAX_GRADIENT = 1e30


@dataclass(frozen=True, slots=True)
class SpeedSample:
    """How fast the whole job went with so many replicas on so many nodes: one row of the table."""

    replicas: int
    nodes: int
    rate: float
    """Samples per second of the whole job, the mean of the reports."""
    count: int
    """Reports that the mean rests on, at most MAX_COUNT."""
    last_seen: float
    """Unix seconds."""
    batch_size: int | None = None
    """Samples per step of the whole job."""
    grad_sqr: float | None = None
    """Squared norm of the mean gradient."""
    grad_var: float | None = None
    """Variance of the gradient. grad_var / grad_sqr is the gradient noise scale."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What is known of a job by its reports."""

    percentage: float | None = None
    """0 to 100."""
    remaining_seconds: float | None = None
    """The program's estimate at `reported_at`."""
    reported_at: float | None = None
    """Unix seconds: when the newest report was received."""
    samples: tuple[SpeedSample, ...] = ()
    """At most MAX_SAMPLES, by replicas, nodes and batch size."""
    rescale_seconds: float | None = None
    """From a move to the first report of a speed after it; None until a move has been measured."""
    rescale_measured_at: float | None = None
    """Unix seconds: the time of the move that `rescale_seconds` was measured at."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a report changes nothing."""

    reason: str
    """One word for programs: TooLarge, InvalidReport or MovedBackwards."""
    message: str
    """For people: the field, the value and the rule."""


@dataclass(frozen=True, slots=True)
class Report:
    """One report that makes sense."""

    percentage: int | None = None
    remaining_seconds: int | None = None
    metrics: tuple[tuple[str, str], ...] = ()
    """(name, value), at most MAX_METRICS; any text, as the program sent it."""
    rate: float | None = None
    """Samples per second of the whole job."""
    replicas: int | None = None
    """How many replicas took part; None: those that run."""
    batch_size: int | None = None
    grad_sqr: float | None = None
    grad_var: float | None = None

    @property
    def is_empty(self) -> bool:
        """It says nothing. Trainer's server answers 200 and stores nothing."""
        return self == Report()


@dataclass(frozen=True, slots=True)
class Placement:
    """How a job ran when it reported."""

    replicas: int
    nodes: int
    settled: bool = True
    """Every desired replica runs. While a move is under way no speed can be attributed to a number of replicas."""
    moved_at: float | None = None
    """Unix seconds: the newest change of the number of replicas."""


class _WrongReportError(Exception):
    """Never leaves this module: it becomes a Refusal."""


def parse_report(body: bytes) -> Report | Refusal:
    """Never raises for the content of `body`."""
    # Before the body is parsed, since the server reads it from any pod.
    if len(body) > MAX_BODY_BYTES:
        return Refusal("TooLarge", f"the report has {len(body)} bytes; at most {MAX_BODY_BYTES} are read")
    try:
        raw = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        return Refusal("InvalidReport", f"the report is not JSON: {printable(str(error))[:200]}")
    try:
        return _report(raw)
    except _WrongReportError as error:
        return Refusal("InvalidReport", str(error))


def _report(raw: object) -> Report:
    status = _object(_object(raw, "the report").get("trainerStatus") or {}, "trainerStatus")
    metrics = _metrics(status.get("metrics") or [])
    named = dict(metrics)

    def metric(name: str, least: float, most: float) -> float | None:
        path = f"trainerStatus.metrics[{name}]"
        return _number(named[name], path, least, most) if name in named else None

    batch_size, replicas = metric("batch_size", 1, MAX_INT32), metric("replicas", 1, MAX_REPLICAS)
    grad_sqr, grad_var = metric("grad_sqr", 0, MAX_GRADIENT), metric("grad_var", 0, MAX_GRADIENT)
    noise_scale = metric("gradient_noise_scale", 0, MAX_GRADIENT)
    # A program may know the quotient alone.
    if noise_scale is not None and grad_sqr is None and grad_var is None:
        grad_sqr, grad_var = 1.0, noise_scale  # only their ratio counts
    return Report(
        percentage=_whole(status, "progressPercentage", 100),
        remaining_seconds=_whole(status, "estimatedRemainingSeconds", MAX_INT32),
        metrics=metrics,
        rate=metric("samples_per_second", 0, MAX_RATE),
        replicas=None if replicas is None else int(replicas),
        batch_size=None if batch_size is None else int(batch_size),
        grad_sqr=grad_sqr,
        grad_var=grad_var,
    )


def _object(value: object, path: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise _WrongReportError(f"{path} is {_short(value)}; it must be an object")
    return value


def _whole(status: Mapping[str, Any], name: str, most: int) -> int | None:
    """Trainer's field is an int32; fractions, which a short program sends, are cut."""
    value = status.get(name)
    return None if value is None else int(_number(value, f"trainerStatus.{name}", 0, most))


def _number(value: object, path: str, least: float, most: float) -> float:
    """The number, given as a JSON number or as text: Trainer has metrics as text."""
    try:
        # `float(True)` is 1.0.
        number = math.nan if isinstance(value, bool) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not least <= number <= most:  # false for NaN, too
        raise _WrongReportError(f"{path} is {_short(value)}; it must be a number from {least:g} to {most:g}")
    return number


def _metrics(raw: object) -> tuple[tuple[str, str], ...]:
    path = "trainerStatus.metrics"
    if not isinstance(raw, list):
        raise _WrongReportError(f"{path} is {_short(raw)}; it must be a list of objects with name and value")
    # Refused, and not cut: the program would never know which of its metrics are missing.
    if len(raw) > MAX_METRICS:
        raise _WrongReportError(f"{path} has {len(raw)} metrics; it must have at most {MAX_METRICS}")
    found = []
    for place, entry in enumerate(raw):
        at = f"{path}[{place}]"
        metric = _object(entry, at)
        value = metric.get("value")
        if isinstance(value, int | float) and not isinstance(value, bool):
            value = str(value)  # a short program sends numbers
        found.append((_text(metric.get("name"), f"{at}.name"), _text(value, f"{at}.value")))
    return tuple(found)


def _text(value: object, path: str) -> str:
    if not isinstance(value, str) or not 1 <= len(value) <= MAX_METRIC_CHARS:
        raise _WrongReportError(f"{path} is {_short(value)}; it must be text of 1 to {MAX_METRIC_CHARS} characters")
    return value


def _short(value: object) -> str:
    text = printable(repr(value) if isinstance(value, str | int | float) or value is None else type(value).__name__)
    return text if len(text) <= 80 else f"{text[:77]}..."


def fold_report(progress: Progress, report: Report, at: float, placement: Placement) -> Progress | Refusal:
    """What is known of the job after this report, received `at` (unix seconds).

    A report without a percentage or an estimate leaves the known one. Progress never moves backwards within an attempt
    of the job: a report from a replica that was cut off from the others is older than what is known."""
    if report.percentage is not None and progress.percentage is not None and report.percentage < progress.percentage:
        return Refusal(
            "MovedBackwards",
            f"trainerStatus.progressPercentage is {report.percentage}, after {progress.percentage:g}; it must not fall"
            " until the job is restarted",
        )
    known = replace(
        progress,
        percentage=progress.percentage if report.percentage is None else report.percentage,
        remaining_seconds=progress.remaining_seconds if report.remaining_seconds is None else report.remaining_seconds,
        reported_at=at,
    )
    return _with_speed(known, report, at, placement)


def _with_speed(progress: Progress, report: Report, at: float, placement: Placement) -> Progress:
    if not report.rate or not placement.settled or placement.replicas < 1:
        return progress
    moved_at = placement.moved_at
    if moved_at is not None and moved_at <= at:
        if progress.rescale_measured_at is None or progress.rescale_measured_at < moved_at:
            # The rate of this first report averages over the pause, so it is no sample of the new size.
            return replace(progress, rescale_seconds=at - moved_at, rescale_measured_at=moved_at)
        if at - moved_at < (progress.rescale_seconds or 0.0):
            return progress
    return replace(progress, samples=with_sample(progress.samples, report, at, placement))


def with_sample(
    samples: Sequence[SpeedSample], report: Report, at: float, placement: Placement
) -> tuple[SpeedSample, ...]:
    """The table with one more report of a speed, received `at` (unix seconds)."""
    # The program's count goes first: a pod may run that has not joined the training yet.
    size = (report.replicas or placement.replicas, placement.nodes, report.batch_size)
    rows = {(s.replicas, s.nodes, s.batch_size): s for s in samples}
    old = rows.pop(size, None)
    before = min(old.count, MAX_COUNT - 1) if old else 0
    before_noise = min(before, MAX_NOISE_COUNT - 1)
    rate = report.rate or 0.0

    def mean(was: float | None, now: float | None) -> float | None:
        if was is None or now is None:
            return was if now is None else now
        return was + (now - was) / (before_noise + 1)

    new = SpeedSample(
        replicas=size[0],
        nodes=size[1],
        # A running mean: the status keeps one number per size, not the reports.
        rate=old.rate + (rate - old.rate) / (before + 1) if old else rate,
        count=before + 1,
        last_seen=at,
        batch_size=size[2],
        grad_sqr=mean(old.grad_sqr if old else None, report.grad_sqr),
        grad_var=mean(old.grad_var if old else None, report.grad_var),
    )
    return bounded_samples((*rows.values(), new))


def bounded_samples(samples: Sequence[SpeedSample]) -> tuple[SpeedSample, ...]:
    """At most MAX_SAMPLES of them, by replicas, nodes and batch size. Of the placement with most rows, the row that was
    seen least recently goes first: a job that changes its batch size often would otherwise forget its speed at every
    number of replicas but the present one."""
    kept = sorted(samples, key=lambda s: s.last_seen)
    while len(kept) > MAX_SAMPLES:
        rows = Counter((s.replicas, s.nodes) for s in kept)
        most = max(rows.values())
        kept.remove(next(s for s in kept if rows[s.replicas, s.nodes] == most))
    return tuple(sorted(kept, key=lambda s: (s.replicas, s.nodes, s.batch_size or 0)))


def read_progress(status: JobStatus) -> Progress:
    """What the status of any kind's job says; a guest's own status is its field `operator`."""
    reported = status.trainer_status or TrainerStatus()
    return Progress(
        percentage=reported.progress_percentage,
        remaining_seconds=reported.estimated_remaining_seconds,
        reported_at=from_rfc3339(reported.last_updated_time),
        samples=tuple(
            SpeedSample(
                row.replicas,
                row.nodes,
                row.rate,
                row.count,
                from_rfc3339(row.last_seen) or 0.0,
                row.batch_size,
                row.grad_sqr,
                row.grad_var,
            )
            for row in status.speed
        ),
        rescale_seconds=status.rescale_seconds,
        rescale_measured_at=from_rfc3339(status.rescale_measured_at),
    )


def with_progress(status: JobStatus, progress: Progress, metrics: Sequence[tuple[str, str]] | None = None) -> JobStatus:
    """`metrics`: of the newest report; None or empty: those of the status stay. `lastUpdatedTime` is the time of
    receipt, as the clock of a pod proves nothing."""
    before = status.trainer_status
    kept = tuple(Metric(name=name, value=value) for name, value in (metrics or ())[:MAX_METRICS_KEPT])
    percentage, remaining = progress.percentage, progress.remaining_seconds
    reported = TrainerStatus(
        progress_percentage=None if percentage is None else int(percentage),
        estimated_remaining_seconds=None if remaining is None else int(remaining),
        metrics=kept or (before.metrics if before else ()),
        last_updated_time=_time(progress.reported_at),
    )
    rows = tuple(
        SpeedRow(
            replicas=s.replicas,
            nodes=s.nodes,
            batch_size=s.batch_size,
            rate=s.rate,
            count=s.count,
            last_seen=to_rfc3339(s.last_seen),
            grad_sqr=s.grad_sqr,
            grad_var=s.grad_var,
        )
        for s in progress.samples
    )
    update = {
        "trainer_status": None if reported == TrainerStatus() else reported,
        "speed": rows,
        "rescale_seconds": progress.rescale_seconds,
        "rescale_measured_at": _time(progress.rescale_measured_at),
    }
    return status.model_copy(update=update)


def without_percentage(status: JobStatus) -> JobStatus:
    """The status for a new attempt, which may begin with an older checkpoint: the reported percentage and the remaining
    time hold no longer. Speeds stay."""
    reported = status.trainer_status
    if reported is None:
        return status
    forgotten = reported.model_copy(update={"progress_percentage": None, "estimated_remaining_seconds": None})
    return status.model_copy(update={"trainer_status": forgotten})


def _time(unix_seconds: float | None) -> str | None:
    return None if unix_seconds is None else to_rfc3339(unix_seconds)
