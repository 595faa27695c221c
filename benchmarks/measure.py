"""One run: rounds of the bare client and of the operator by turns, so that what else the machine does meets both."""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import loads
from benchmarks.apiserver import ApiServer
from benchmarks.audit import Requests
from benchmarks.ceiling import Recorded, record, same_writes
from benchmarks.operator import PEER_CRD, Operator, Peer
from benchmarks.peer.jobs import PYTORCHJOBS
from benchmarks.processes import Processes, own_cpu_seconds

Say = Callable[[str], None]
OPERATOR_USERS = frozenset({"watcher", "worker"})
PEER_USERS = frozenset({"peer"})


@dataclass(frozen=True, slots=True)
class Sizes:
    jobs: int = 1000
    rounds: int = 3
    samples: int = 50
    workers: tuple[int, ...] = (1, 1)
    peer: Path | None = None
    """The program of the tuned training-operator, which then takes the place of the bare client."""


@dataclass(frozen=True, slots=True)
class Load:
    name: str
    jobs: int
    replicas: int
    until: str = "Running"
    run_seconds: float | None = None


@dataclass(slots=True)
class Measured:
    """One load in every round."""

    load: Load
    seconds: list[float] = field(default_factory=list)
    bare_seconds: list[float] = field(default_factory=list)
    bare_cpu_seconds: list[float] = field(default_factory=list)
    ceiling_seconds: list[float] = field(default_factory=list)
    ceiling_cpu_seconds: list[float] = field(default_factory=list)
    requests: list[Requests] = field(default_factory=list)
    cpu_seconds: list[dict[str, float]] = field(default_factory=list)
    tasks: list[int] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return self.load.jobs / statistics.median(self.seconds)

    @property
    def share(self) -> float:
        """The ratio to the bare client in the same round."""
        return statistics.median(b / s for b, s in zip(self.bare_seconds, self.seconds, strict=True))

    @property
    def cpu_share(self) -> float:
        """What the share would be if nothing but the CPU of this machine were the limit: CPU of the bare client's run
        by that of the operator's, API server included. Other work on the machine hardly moves it."""
        return statistics.median(self.bare_cpu_seconds) / statistics.median(
            sum(cpu.values()) for cpu in self.cpu_seconds
        )

    @property
    def ceiling_share(self) -> float:
        """What the share would be of an operator that costs nothing: of the same writes, made by a client alone."""
        return statistics.median(self.bare_seconds) / statistics.median(self.ceiling_seconds)

    @property
    def ceiling_cpu_share(self) -> float:
        """`cpu_share` of an operator that costs nothing."""
        return statistics.median(self.bare_cpu_seconds) / statistics.median(self.ceiling_cpu_seconds)


@dataclass(slots=True)
class Result:
    sizes: Sizes
    started: float
    loads: list[Measured] = field(default_factory=list)
    peer: list[Measured] = field(default_factory=list)
    """The same loads, of the peer."""
    creation_to_running: list[float] = field(default_factory=list)
    pod_to_status: list[float] = field(default_factory=list)
    peer_creation_to_running: list[float] = field(default_factory=list)
    rss_mib: dict[str, list[float]] = field(default_factory=dict)
    load_average: list[float] = field(default_factory=list)


def measure(sizes: Sizes, folder: Path, crds: Path, *, say: Say) -> Result:
    processes = Processes(folder)
    try:
        return _measure(sizes, folder, crds, processes, say)
    finally:
        processes.stop()


def _measure(sizes: Sizes, folder: Path, crds: Path, processes: Processes, say: Say) -> Result:
    api = ApiServer(folder, processes, crds)
    say("starting etcd and kube-apiserver")
    api.start()
    operator = Operator(folder, processes, api, workers=sizes.workers)
    result = Result(sizes, time.time())
    result.loads = make_loads(sizes)
    if sizes.peer is not None:
        _beside_peer(result, sizes.peer, api, operator, processes, say)
        return result
    lives = _lives(result.loads, api, operator, processes)
    for number in range(sizes.rounds):
        say(f"round {number + 1} of {sizes.rounds}")
        result.load_average.append(os.getloadavg()[0])
        before = [_bare(one, api, processes, life) for one, life in zip(result.loads, lives, strict=True)]
        for one, life in zip(result.loads, lives, strict=True):
            _ceiling(one, api, processes, life)
        start_operator(api, operator, processes)
        for one in result.loads:
            measure_load(one, api, operator, processes)
            say(f"  {one.load.name}: {one.load.jobs / one.seconds[-1]:.1f} jobs/s")
        if number == sizes.rounds - 1:
            _latencies(result, sizes, api, operator)
        result.rss_mib = processes.rss_mib()
        stop_operator(operator, processes)
        for one, first, life in zip(result.loads, before, lives, strict=True):
            one.bare_seconds.append((first + _bare(one, api, processes, life)) / 2)
            say(
                f"  {one.load.name}: share {one.bare_seconds[-1] / one.seconds[-1]:.2f} of "
                f"{one.load.jobs / one.bare_seconds[-1]:.0f} jobs/s; the same writes alone: "
                f"{one.bare_seconds[-1] / one.ceiling_seconds[-1]:.2f}"
            )
    return result


def make_loads(sizes: Sizes) -> list[Measured]:
    return [
        Measured(Load(f"{sizes.jobs:,} x 1 to Running", sizes.jobs, 1)),
        Measured(Load(f"{sizes.jobs // 4:,} x 4 to Running", max(1, sizes.jobs // 4), 4)),
        Measured(Load(f"{sizes.jobs * 3 // 10:,} x 4, whole life", max(1, sizes.jobs * 3 // 10), 4, "Succeed", 1.0)),
    ]


def _beside_peer(
    result: Result, program: Path, api: ApiServer, operator: Operator, processes: Processes, say: Say
) -> None:
    """Each load by both, one after the other, in each round; who is first changes from round to round."""
    result.peer = make_loads(result.sizes)
    peer = Peer(program, processes, api)
    api.serve(program.with_name(PEER_CRD), PYTORCHJOBS.path)

    def ours(number: int) -> None:
        start_operator(api, operator, processes)
        for one in result.loads:
            measure_load(one, api, operator, processes)
        if number == result.sizes.rounds - 1:
            _latencies(result, result.sizes, api, operator)
        result.rss_mib |= processes.rss_mib()
        stop_operator(operator, processes)

    def theirs(number: int) -> None:
        start_player(api, processes)
        peer.start()
        loads.run_jobs(api, 20, 1, until="Running", kind=PYTORCHJOBS)
        loads.clean(api, PYTORCHJOBS.path)
        for one in result.peer:
            _one_of_peer(one, api, processes)
        if number == result.sizes.rounds - 1 and result.sizes.samples:
            result.peer_creation_to_running = loads.one_at_a_time(api, result.sizes.samples, PYTORCHJOBS)
            loads.clean(api, PYTORCHJOBS.path)
        result.rss_mib |= processes.rss_mib()
        peer.stop()
        processes.stop("player")

    for number in range(result.sizes.rounds):
        say(f"round {number + 1} of {result.sizes.rounds}")
        result.load_average.append(os.getloadavg()[0])
        for run in (ours, theirs) if number % 2 else (theirs, ours):
            run(number)
        for one, other in zip(result.loads, result.peer, strict=True):
            say(
                f"  {one.load.name}: {one.load.jobs / one.seconds[-1]:.1f} jobs/s, the peer "
                f"{other.load.jobs / other.seconds[-1]:.1f}: {other.seconds[-1] / one.seconds[-1]:.2f}"
            )


def start_player(api: ApiServer, processes: Processes) -> None:
    player = [sys.executable, "-m", "benchmarks.player", api.server.host, str(api.server.port), "player"]
    processes.start("player", player)


def start_operator(api: ApiServer, operator: Operator, processes: Processes) -> None:
    start_player(api, processes)
    operator.start()
    # The first task of a process imports and connects: that is no part of a rate.
    loads.run_jobs(api, 20, 1, until="Running")
    _clean(api, operator)


def stop_operator(operator: Operator, processes: Processes) -> None:
    operator.stop()
    processes.stop("player")


def _lives(measured: Sequence[Measured], api: ApiServer, operator: Operator, processes: Processes) -> list[Recorded]:
    """One life of each load, as the operator leads it."""
    start_operator(api, operator, processes)
    watch = loads.PhaseWatch(api)
    try:
        return [
            record(api, watch, one.load.replicas, until=one.load.until, run_seconds=one.load.run_seconds)
            for one in measured
        ]
    finally:
        watch.close()
        _clean(api, operator)
        stop_operator(operator, processes)


def _bare(one: Measured, api: ApiServer, processes: Processes, life: Recorded) -> float:
    load = one.load
    seconds, cpu = _third(
        load, api, processes, lambda jobs: loads.bare_creates(api, jobs, life.name, life.pods, life.services)
    )
    one.bare_cpu_seconds.append(cpu)
    return seconds


def _ceiling(one: Measured, api: ApiServer, processes: Processes, life: Recorded) -> None:
    seconds, cpu = _third(one.load, api, processes, lambda jobs: same_writes(api, jobs, life))
    one.ceiling_seconds.append(seconds)
    one.ceiling_cpu_seconds.append(cpu)


def _third(load: Load, api: ApiServer, processes: Processes, run: Callable[[int], float]) -> tuple[float, float]:
    """(seconds, CPU seconds) of the whole load: a third of it is enough to know its rate."""
    jobs = max(1, load.jobs // 3)
    cpu = _all_cpu(processes)
    seconds = run(jobs)
    used = _all_cpu(processes) - cpu
    loads.clean(api)
    return seconds * load.jobs / jobs, used * load.jobs / jobs


def _all_cpu(processes: Processes) -> float:
    return sum(processes.cpu_seconds().values()) + own_cpu_seconds()


def measure_load(one: Measured, api: ApiServer, operator: Operator, processes: Processes) -> None:
    tasks, position = operator.tasks(), api.audit.position()
    _run(one, api, processes, loads.OURS)
    operator.until_idle()
    one.tasks.append(operator.tasks() - tasks)
    one.requests.append(requests_since(api, position, OPERATOR_USERS))
    _clean(api, operator)


def _one_of_peer(one: Measured, api: ApiServer, processes: Processes) -> None:
    position = api.audit.position()
    _run(one, api, processes, PYTORCHJOBS)
    one.requests.append(requests_since(api, position, PEER_USERS))
    loads.clean(api, PYTORCHJOBS.path)


def _run(one: Measured, api: ApiServer, processes: Processes, kind: loads.Kind) -> None:
    """The load, its time and its CPU."""
    load, cpu, own = one.load, processes.cpu_seconds(), own_cpu_seconds()
    one.seconds.append(
        loads.run_jobs(api, load.jobs, load.replicas, until=load.until, run_seconds=load.run_seconds, kind=kind)
    )
    after = processes.cpu_seconds()
    one.cpu_seconds.append(
        {**{name: after[name] - cpu.get(name, 0.0) for name in after}, "client": own_cpu_seconds() - own}
    )


def requests_since(api: ApiServer, position: int, users: frozenset[str]) -> Requests:
    counted = api.audit.quiet_since(position, lambda user, verb, resource: user in users and verb != "watch")
    return Counter(
        {key: n for key, n in counted.items() if key[0] in users and key[1] != "watch" and key[2] != "leases"}
    )


def _clean(api: ApiServer, operator: Operator) -> None:
    loads.clean(api)
    operator.until_idle(jobs=0)


def _latencies(result: Result, sizes: Sizes, api: ApiServer, operator: Operator) -> None:
    if sizes.samples:
        result.creation_to_running = loads.one_at_a_time(api, sizes.samples)
        _clean(api, operator)
        result.pod_to_status = loads.status_latency(api, sizes.samples)
        _clean(api, operator)
