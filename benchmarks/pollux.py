"""`python -m benchmarks.pollux DIR`: five workloads of Pollux' artifact (160 jobs in 8 hours on 16 nodes of 4 GPUs).

Mean completion times of rigid scheduling and of each policy beside the published ones.

DIR has the artifact's `workloads/` and `traces/` (petuum/adaptdl, branch osdi21-artifact).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import mean

from tjworker.autoscale import POLICIES
from tjworker.simulate import Scenario, simulate
from tjworker.simulate.scenario import Amounts, Node
from tjworker.simulate.traces import read_trace

WORKLOADS = (1, 3, 4, 6, 8)
PUBLISHED = {
    "Pollux": {1: 2089, 3: 2188, 4: 2721, 6: 2446, 8: 2952},
    "Tiresias, tuned jobs": {1: 2474, 3: 3876, 4: 3280, 6: 3470, 8: 5080},
    "Optimus with an oracle": {1: 4087, 3: 3944, 4: 5968, 6: 5302, 8: 6294},
}
"""Mean completion times in seconds, of the artifact's own simulator."""


def scenario(data: Path, workload: int) -> Scenario:
    nodes = [Node(f"node-{i}", Amounts(64_000, 1 << 38, 4)) for i in range(16)]
    trace = read_trace(data / f"workloads/workload-{workload}.csv", nodes, data / "traces")
    return Scenario(nodes, trace.jobs, tick_seconds=60, start_seconds=0, stop_seconds=0, placement="pack")


def mean_completion(data: Path, workload: int, policy: str) -> float:
    return mean(simulate(scenario(data, workload), policy).completion_seconds())


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pollux", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("data", type=Path, metavar="DIR")
    parser.add_argument("--policy", action="append", help="default: tiresias and every policy; may be repeated")
    options = parser.parse_args(arguments)
    print(f"| mean completion, s | {' | '.join(map(str, WORKLOADS))} | mean | CPU seconds |")
    print(f"|---|{'---|' * (len(WORKLOADS) + 2)}")
    for name, published in PUBLISHED.items():
        _row(f"{name} (published)", [published[w] for w in WORKLOADS], "")
    for policy in options.policy or ["tiresias", *POLICIES]:
        began = time.process_time()
        _row(f"`{policy}`", [mean_completion(options.data, w, policy) for w in WORKLOADS], began)
    return 0


def _row(name: str, figures: Sequence[float], began: float | str) -> None:
    took = f"{time.process_time() - began:.1f}" if isinstance(began, float) else began
    print(f"| {name} | {' | '.join(f'{f:,.0f}' for f in figures)} | {mean(figures):,.0f} | {took} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
