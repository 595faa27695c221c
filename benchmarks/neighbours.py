"""`python -m benchmarks.neighbours`: how long small jobs wait while a job of thousands of pods is created.

On the real kube-apiserver, with the operator as users run it. First small jobs alone, one every so often; then the big
job is created and, from its first pod on, small ones in the same rhythm. Each is timed from its creation to Running by
a watch. The row says how many pods of the big job there were when the first small job came and when the last one ran:
were that all of them, the small ones would have had no neighbour.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import loads
from benchmarks.__main__ import CRDS
from benchmarks.apiserver import JOBS, PODS, ApiServer
from benchmarks.operator import Operator
from benchmarks.processes import Processes
from benchmarks.table import percentile_ms


@dataclass(frozen=True, slots=True)
class Waited:
    load: str
    seconds: Sequence[float]


def measure(pods: int, small: int, every_seconds: float, folder: Path) -> list[Waited]:
    processes = Processes(folder)
    try:
        api = ApiServer(folder, processes, CRDS)
        api.start()
        operator = Operator(folder, processes, api, workers=(1, 1))
        processes.start(
            "player", [sys.executable, "-m", "benchmarks.player", api.server.host, str(api.server.port), "player"]
        )
        operator.start()
        loads.run_jobs(api, 20, 1, until="Running")  # the first task of a process imports and connects
        alone = Waited("nothing else", _small(api, small, every_seconds))
        before = _pods(api)
        api.connection().post(JOBS, loads.job("big", pods))
        while (first := _pods(api) - before) < 1:
            time.sleep(0.05)
        waited = _small(api, small, every_seconds)
        last = _pods(api) - before - small
        return [alone, Waited(f"one job, {first:,} to {last:,} of its {pods:,} pods made meanwhile", waited)]
    finally:
        processes.stop()


def _small(api: ApiServer, count: int, every_seconds: float) -> list[float]:
    """Seconds from creation to Running of each. They are created in a fixed rhythm, whether those before run yet or
    not."""
    watch = loads.PhaseWatch(api)
    connection = api.connection()
    created: dict[str, float] = {}
    try:
        began = time.monotonic()
        for number, name in enumerate(loads.names(count)):
            time.sleep(max(0.0, began + number * every_seconds - time.monotonic()))
            created[name] = time.monotonic()
            connection.post(JOBS, loads.job(name, 1))
        return [watch.wait([name], "Running") - at for name, at in created.items()]
    finally:
        watch.close()


def _pods(api: ApiServer) -> int:
    """In the namespace. One page of one pod: the server counts the rest (but not where a selector is given)."""
    page = api.connection().get(f"{PODS}?limit=1")
    return len(page["items"]) + int(page["metadata"].get("remainingItemCount") or 0)


def render(found: Sequence[Waited]) -> Iterator[str]:
    yield "| creation -> Running of a job of one pod, with | jobs | p50, ms | p99, ms | longest, ms |"
    yield "|---|---|---|---|---|"
    for one in found:
        cells = (percentile_ms(one.seconds, 50), percentile_ms(one.seconds, 99), max(one.seconds) * 1000)
        yield f"| {one.load} | {len(one.seconds)} | {' | '.join(f'{ms:.0f}' for ms in cells)} |"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.neighbours", description="Small jobs and a big one.")
    parser.add_argument("--pods", type=int, default=5000, metavar="N", help="of the big job (default 5000)")
    parser.add_argument("--small", type=int, default=100, metavar="N", help="jobs of one pod (default 100)")
    parser.add_argument(
        "--every-seconds", type=float, default=0.2, metavar="S", help="between two of them (default 0.2)"
    )
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    print(f"load average before: {os.getloadavg()[0]:.1f}", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="tj-bench-") as folder:
        found = measure(options.pods, options.small, options.every_seconds, Path(folder))
    print("\n".join(render(found)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
