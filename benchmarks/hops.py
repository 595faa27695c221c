"""`python -m benchmarks.hops`: where the time of one job goes on its way to Running on an idle system, step by step.

One job of one pod after another, on a real kube-apiserver, with the operator as users run it (`benchmarks.marks` in
each of its processes). What is shown is the median over the jobs, in ms since the request that creates the job was
sent, and the slowest job.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import chain
from pathlib import Path

from benchmarks import loads
from benchmarks.__main__ import CRDS
from benchmarks.apiserver import JOBS, ApiServer
from benchmarks.marks import FILE, player_steps, watcher_steps, worker_steps
from benchmarks.operator import Operator
from benchmarks.processes import Processes

Mark = tuple[float, str]
PAUSE_SECONDS = 0.3
SETTLE_SECONDS = 0.1
"""What comes after Running belongs to the job, too."""


def trace(
    folder: Path, count: int, pause_seconds: float, *, right_of_way: bool = False
) -> tuple[list[list[Mark]], list[float]]:
    """The marks of each job, in seconds since its creation, and when it was Running."""
    processes = Processes(folder)
    file = folder / "marks"
    os.environ[FILE] = str(file)
    try:
        api = ApiServer(folder, processes, CRDS)
        api.start()
        operator = Operator(folder, processes, api, workers=(1, 1), module="benchmarks.marks")
        player = [sys.executable, "-m", "benchmarks.marks", "player", api.server.host, str(api.server.port), "player"]
        processes.start("player", player)
        operator.start()
        loads.run_jobs(api, 20, 1, until="Running")
        loads.clean(api)
        operator.until_idle(jobs=0)
        with _right_of_way(processes) if right_of_way else nullcontext():
            return _one_at_a_time(api, file, count, pause_seconds)
    finally:
        processes.stop()


@contextmanager
def _right_of_way(processes: Processes) -> Iterator[None]:
    """Before all other work of the machine: for the seconds of the measure only, as nothing else runs then."""

    def schedule(policy: int, priority: int) -> None:
        for pid in [os.getpid(), *chain(*processes.pids().values())]:
            for thread in Path(f"/proc/{pid}/task").iterdir():
                os.sched_setscheduler(int(thread.name), policy, os.sched_param(priority))

    try:
        schedule(os.SCHED_RR, 1)
    except PermissionError:
        raise SystemExit("--right-of-way needs root, or CAP_SYS_NICE") from None
    try:
        yield
    finally:
        schedule(os.SCHED_OTHER, 0)


def _one_at_a_time(
    api: ApiServer, file: Path, count: int, pause_seconds: float
) -> tuple[list[list[Mark]], list[float]]:
    watch = loads.PhaseWatch(api)
    connection = api.connection()
    found, took = [], []
    try:
        for name in loads.names(count):
            time.sleep(pause_seconds)
            begins = file.stat().st_size
            start = time.monotonic()
            connection.post(JOBS, loads.job(name, 1))
            created = time.monotonic()
            running = watch.wait([name], "Running")
            time.sleep(SETTLE_SECONDS if pause_seconds else 0)
            marks = [(created - start, "-client: creates the job"), (running - start, "-client: sees Running")]
            for line in file.read_bytes()[begins:].decode().splitlines():
                at, _, what = line.partition(" ")
                marks.append((float(at) - start, what))
            found.append(sorted(marks))
            took.append(running - start)
        return found, took
    finally:
        watch.close()


def render(jobs: Sequence[Sequence[Mark]], took: Sequence[float]) -> Iterator[str]:
    late = sorted(took)[-1 - len(took) // 100]
    yield f"creation to Running: p50 {statistics.median(took) * 1000:.1f} ms, p99 {late * 1000:.1f}"
    yield f"each, in ms: {' '.join(f'{seconds * 1000:.0f}' for seconds in took)}"
    yield ""
    times: dict[tuple[str, int], list[float]] = defaultdict(list)
    for marks in jobs:
        seen: Counter[str] = Counter()
        for at, what in marks:
            seen[what] += 1
            times[what, seen[what]].append(at * 1000)
    rows = sorted((statistics.median(at), what, n) for (what, n), at in times.items() if len(at) > len(jobs) / 2)
    yield from _table((at, what) for at, what, _ in rows)
    yield ""
    yield "The slowest:"
    yield ""
    slowest = max(range(len(jobs)), key=took.__getitem__)
    yield from _table((at * 1000, what) for at, what in jobs[slowest])


def _table(marks: Iterable[tuple[float, str]]) -> Iterator[str]:
    yield "| ms | since | | step |"
    yield "|---|---|---|---|"
    before = 0.0
    for at, what in marks:
        yield f"| {at:.1f} | {at - before:.1f} | {'begins' if what[0] == '+' else 'ends'} | {what[1:]} |"
        before = at


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hops", description="A job's way to Running.")
    parser.add_argument("--jobs", type=int, default=50, metavar="N", help="(default 50)")
    parser.add_argument("--pause", type=float, default=PAUSE_SECONDS, metavar="SECONDS", help="between (default 0.3)")
    parser.add_argument(
        "--right-of-way", action="store_true", help="before all else on this machine while it measures; needs root"
    )
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="tj-bench-") as folder:
        jobs, took = trace(Path(folder), options.jobs, options.pause, right_of_way=options.right_of_way)
    print("\n".join(render(jobs, took)))
    seen = {what[1:] for marks in jobs for _, what in marks}
    steps = (what for _, _, what in (*watcher_steps(), *worker_steps(), *player_steps()))
    if never := [what for what in steps if not any(name.startswith(what) for name in seen)]:
        # A change of the product has moved a call; or too few jobs for what comes once a second.
        print(f"never seen, so its row is missing: {', '.join(never)}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
