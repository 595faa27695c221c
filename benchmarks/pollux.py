"""`python -m benchmarks.pollux DIR`: five workloads of Pollux' artifact (160 jobs in 8 hours on 16 nodes of 4 GPUs).

Mean completion times of rigid scheduling and of each policy, and the published ones.

DIR has the artifact's `workloads/` and `traces/` (petuum/adaptdl, branch osdi21-artifact, folder `simulator/`). Its
workloads 2, 5 and 7 (`--workload 2`) were not looked at while the constants of the policies were chosen.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean

from tjworker.api.progress import Progress, SpeedSample
from tjworker.autoscale import POLICIES
from tjworker.autoscale.state import JobState
from tjworker.simulate import Scenario, simulate
from tjworker.simulate.engine import JobRun, World
from tjworker.simulate.movers import Autoscaled
from tjworker.simulate.scenario import Amounts, SimulatedNode
from tjworker.simulate.traces import read_trace

WORKLOADS = (1, 3, 4, 6, 8)
PUBLISHED = {
    "Pollux": {1: 2089, 3: 2188, 4: 2721, 6: 2446, 8: 2952},
    "Tiresias, tuned jobs": {1: 2474, 3: 3876, 4: 3280, 6: 3470, 8: 5080},
    "Optimus with an oracle": {1: 4087, 3: 3944, 4: 5968, 6: 5302, 8: 6294},
}
"""Mean completion times in seconds, of the artifact's own simulator."""


def scenario(data: Path, workload: int) -> Scenario:
    nodes = [SimulatedNode(f"node-{i}", Amounts(64_000, 1 << 38, 4)) for i in range(16)]
    trace = read_trace(data / f"workloads/workload-{workload}.csv", nodes, data / "traces")
    return Scenario(nodes, trace.jobs, tick_seconds=60, start_seconds=0, stop_seconds=0, placement="pack")


def mean_completion(data: Path, workload: int, policy: str, *, reports_progress: bool = True) -> float:
    played = replace(scenario(data, workload), reports_progress=reports_progress)
    return mean(simulate(played, policy).completion_seconds())


class Oracle(Autoscaled):
    """A policy that knows how fast each job would train with any number of replicas, packed, at its present stage, and
    how much work is left: from its submission on, without a report."""

    def _state(self, run: JobRun, world: World, now: float) -> JobState:
        return replace(super()._state(run, world, now), progress=_perfect(run))


def _perfect(run: JobRun) -> Progress:
    rates = {n: run.job.speed.rate(packed(n), run.done).work_per_second for n in range(1, 65)}
    rows = [SpeedSample(n, -(-n // 4), rate, 1, 0.0) for n, rate in rates.items() if rate > 0]
    left = (run.job.work or 0.0) - run.done
    # In the time of the size that `goodput` will multiply it with.
    now = max((row for row in rows if row.replicas <= max(1, run.target)), key=lambda row: row.replicas, default=None)
    return Progress(None, left / now.rate if now else None, None, tuple(rows), run.job.rescale_seconds)


def packed(replicas: int) -> tuple[int, ...]:
    """On nodes of 4 GPUs, ascending."""
    full, rest = divmod(replicas, 4)
    return (*([rest] if rest else []), *[4] * full)


def oracle_completion(data: Path, workload: int) -> float:
    played = scenario(data, workload)
    # Without batch sizes a policy takes the reports as the speed; here they are the progress of the training.
    played = replace(played, jobs=tuple(replace(job, batch_size=None) for job in played.jobs))
    return mean(World(played, Oracle("goodput", played), "goodput").play(None).completion_seconds())


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pollux", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("data", type=Path, metavar="DIR")
    parser.add_argument("--policy", action="append", help="default: tiresias and every policy; may be repeated")
    parser.add_argument("--workload", type=int, action="append", help="default: the five; may be repeated")
    parser.add_argument("--no-progress", action="store_true", help="jobs do not report how far they have come")
    parser.add_argument("--oracle", action="store_true", help="also play goodput with perfect knowledge")
    options = parser.parse_args(arguments)
    workloads = options.workload or WORKLOADS
    print(f"| mean completion, s | {' | '.join(map(str, workloads))} | mean | CPU seconds |")
    print(f"|---|{'---|' * (len(workloads) + 2)}")
    for name, published in PUBLISHED.items():
        if published.keys() >= set(workloads):
            _row(f"{name} (published)", [published[w] for w in workloads], "")
    for policy in options.policy or ["tiresias", *POLICIES]:
        _measure(options.data, workloads, policy, reports_progress=not options.no_progress)
    if not options.policy and not options.no_progress:
        _measure(options.data, workloads, "goodput", reports_progress=False)
    if options.oracle or not (options.policy or options.no_progress):
        began = time.process_time()
        _row("`goodput` with perfect knowledge", [oracle_completion(options.data, w) for w in workloads], began)
    return 0


def _measure(data: Path, workloads: Sequence[int], policy: str, *, reports_progress: bool) -> None:
    began = time.process_time()
    means = [mean_completion(data, w, policy, reports_progress=reports_progress) for w in workloads]
    _row(f"`{policy}`{'' if reports_progress else ', no progress reported'}", means, began)


def _row(name: str, figures: Sequence[float], began: float | str) -> None:
    took = f"{time.process_time() - began:.1f}" if isinstance(began, float) else began
    print(f"| {name} | {' | '.join(f'{f:,.0f}' for f in figures)} | {mean(figures):,.0f} | {took} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
