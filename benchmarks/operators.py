"""`python -m benchmarks.operators`: one operator over a cluster, and two that divide it by namespaces.

On the real kube-apiserver. The load is the same, half of its jobs in each of two namespaces, and so is the number of
worker processes. With two operators one excludes the namespace that the other one names (TJ_NAMESPACES_EXCLUDED,
TJ_NAMESPACES), and each has its own watcher, Redis and half of the workers. The wall of one operator is its watcher:
one thread does most of its work, whatever the machine has.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

import orjson

from benchmarks import loads
from benchmarks.__main__ import CRDS
from benchmarks.apiserver import JOBS, ApiServer
from benchmarks.operator import Operator
from benchmarks.processes import Processes
from benchmarks.wire import Connection

TEAMS = ("team-a", "team-b")
EVERY_JOB = "/apis/elasticdeeplearning.ai/v1/aitrainingjobs"
WORKERS = 2
WARM_UP_JOBS = 20
IDLE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Row:
    operators: int
    counts_outside: bool
    """The autoscaler is on, so that each watcher also counts the pods of the other one's namespaces."""
    seconds: float
    """From the first create until all jobs run."""
    watcher_cpu_seconds: Sequence[float]
    """CPU seconds of each watcher, without those of an idle one."""
    watcher_mib: Sequence[float]
    other_cpu_seconds: float
    """CPU seconds of workers and Redis."""


def measure(operators: int, counts_outside: bool, jobs: int, pods: int, folder: Path) -> Row:
    folder.mkdir()
    processes = Processes(folder)
    try:
        api = ApiServer(folder, processes, CRDS)
        api.start()
        for team in TEAMS:
            api.connection().post("/api/v1/namespaces", {"metadata": {"name": team}})
        processes.start(
            "player", [sys.executable, "-m", "benchmarks.player", api.server.host, str(api.server.port), "player"]
        )
        scopes = [{}] if operators == 1 else [{"TJ_NAMESPACES_EXCLUDED": TEAMS[0]}, {"TJ_NAMESPACES": TEAMS[0]}]
        policy = {} if counts_outside else {"TJ_AUTOSCALE_POLICY": "off"}
        names = [f"{number}-" for number in range(operators)]
        for name, scope, home in zip(names, scopes, TEAMS[:operators], strict=True):
            # A namespace for each Lease: processes outside of a cluster have none of their own.
            settings = scope | policy | {"TJ_LEADER_NAMESPACE": home}
            workers = (1,) * (WORKERS // operators)
            Operator(folder, processes, api, workers=workers, name=name, settings=settings).start()
        _run(api, WARM_UP_JOBS, 1)  # the first task of a process imports and connects
        idle = _spent(processes, lambda: time.sleep(IDLE_SECONDS))
        seconds = 0.0

        def load() -> None:
            nonlocal seconds
            seconds = _run(api, jobs, pods)

        spent = _spent(processes, load)
        cpu = {name: spent[name] - idle.get(name, 0.0) / IDLE_SECONDS * seconds for name in spent}
        memory = processes.rss_mib()
        return Row(
            operators,
            counts_outside,
            seconds,
            [cpu[f"{name}watcher"] for name in names],
            [max(memory[f"{name}watcher"]) for name in names],
            sum(cpu.get(f"{name}{part}", 0.0) for name in names for part in ("redis", "worker", "worker children")),
        )
    finally:
        processes.stop()


def _spent(processes: Processes, work: Callable[[], object]) -> dict[str, float]:
    """CPU seconds of each process while `work` is under way."""
    before = processes.cpu_seconds()
    work()
    return {name: spent - before.get(name, 0.0) for name, spent in processes.cpu_seconds().items()}


def _run(api: ApiServer, count: int, pods: int) -> float:
    """Seconds from the first create until all of these jobs run, every other one in the second namespace."""
    watch = loads.PhaseWatch(api, loads.Kind(EVERY_JOB, loads.job, loads.OURS.phase))
    try:
        those = loads.names(count)
        bodies = [_body(name, pods, TEAMS[number % 2]) for number, name in enumerate(those)]
        paths = [JOBS.replace("/default/", f"/{TEAMS[number % 2]}/") for number in range(count)]
        begun = loads.in_parallel(
            api, [partial(Connection.post, path=path, body=body) for path, body in zip(paths, bodies, strict=True)]
        )
        return watch.wait(those, "Running") - begun
    finally:
        watch.close()


def _body(name: str, pods: int, namespace: str) -> bytes:
    job = loads.job(name, pods)
    return orjson.dumps({**job, "metadata": {**job["metadata"], "namespace": namespace}})


def render(rows: Sequence[Row], jobs: int) -> Iterator[str]:
    yield (
        "| operators | autoscaler | all run after, s | jobs/s | CPU of the busiest watcher, ms a job of all"
        " | of all watchers | of workers and Redis | memory of each watcher, MiB |"
    )
    yield "|---|---|---|---|---|---|---|---|"
    for key in dict.fromkeys((row.operators, row.counts_outside) for row in rows):
        own = [row for row in rows if (row.operators, row.counts_outside) == key]

        def ms(seconds: Sequence[float]) -> str:
            return f"{median(seconds) / jobs * 1000:.1f}"

        seconds = median(row.seconds for row in own)
        memory = ", ".join(f"{mib:.0f}" for mib in own[-1].watcher_mib)
        busiest, every = [max(r.watcher_cpu_seconds) for r in own], [sum(r.watcher_cpu_seconds) for r in own]
        yield (
            f"| {key[0]} | {'on' if key[1] else 'off'} | {seconds:.1f} | {jobs / seconds:.0f} | {ms(busiest)}"
            f" | {ms(every)} | {ms([r.other_cpu_seconds for r in own])} | {memory} |"
        )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.operators", description="One operator, and two.")
    parser.add_argument("--jobs", type=int, default=1000, metavar="N", help="in both namespaces (default 1000)")
    parser.add_argument("--pods", type=int, default=4, metavar="N", help="of each job (default 4)")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="how often; medians are shown (default 3)")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    rows = []
    with tempfile.TemporaryDirectory(prefix="tj-bench-") as folder:
        for round_ in range(options.rounds):
            for operators, counts_outside in ((1, True), (2, True), (1, False), (2, False)):
                where = Path(folder) / f"{round_}-{operators}-{counts_outside}"
                rows.append(measure(operators, counts_outside, options.jobs, options.pods, where))
                load = f"load average {os.getloadavg()[0]:.1f}"
                print(f"{time.strftime('%H:%M:%S')} {rows[-1]} {load}", file=sys.stderr, flush=True)
    print("\n".join(render(rows, options.jobs)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
