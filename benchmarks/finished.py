"""`python -m benchmarks.finished`: the cost of 50,000 finished jobs for a new job, right after every process began.

On the real kube-apiserver. Finished jobs are made the cheap way: created with their status, before the kind gets its
status subresource. Then a new job is created and the operator is started on an **empty Redis**, so that the watcher has
to list all of them: the row has the seconds from the start of the processes until every list is in the projection, and
until the new job runs. Then jobs one at a time, and what the idle operator burns. Then Redis is emptied under the
running operator, and a job is made at once. Then the watcher alone is restarted, on the **Redis that it left**, with a
new job waiting: it resumes, and lists in the background while jobs come one at a time. Last every process is restarted
so, Redis on its files.
"""

from __future__ import annotations

import argparse
import copy
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import orjson
import yaml

from benchmarks import loads
from benchmarks.__main__ import CRDS
from benchmarks.apiserver import JOBS, ApiServer
from benchmarks.operator import LEADS, SYNCED, Operator
from benchmarks.processes import Processes
from benchmarks.table import percentile_ms
from benchmarks.wire import Connection, Json

IDLE_SECONDS = 10.0
SAMPLES = 30
CRD_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ENDED: Json = {
    "phase": "Succeed",
    "message": "all roles are complete (trainer 1/1)",
    "startTime": "2026-01-01T00:00:00Z",
    "completionTime": "2026-01-01T01:00:00Z",
    "observedGeneration": 1,
    "conditions": [
        {
            "type": "Succeeded",
            "status": "True",
            "reason": "Succeed",
            "message": "all roles are complete",
            "lastTransitionTime": "2026-01-01T01:00:00Z",
            "observedGeneration": 1,
        }
    ],
}


@dataclass(frozen=True, slots=True)
class Restart:
    """Times after a restart of the watcher, or of all processes, in seconds since the first process began."""

    leads_seconds: float
    first_seconds: float
    """Until a job runs that was made while no watcher was there."""
    one_at_a_time: Sequence[float]
    lists_seconds: float
    """Until every list is in the projection."""


@dataclass(frozen=True, slots=True)
class Emptied:
    """Seconds since Redis was emptied."""

    first_seconds: float
    """Until a job runs that was made right afterwards."""
    lists_seconds: float


@dataclass(frozen=True, slots=True)
class Found:
    finished: int
    start_seconds: float
    """Until every list is in the projection and the workers are ready."""
    first_seconds: float
    """Until a job runs that was there before they began."""
    one_at_a_time: Sequence[float]
    idle_cpu_ms_a_second: float
    watcher_mib: float
    redis_mib: float
    emptied: Emptied
    again: Restart
    """Restart of the watcher."""
    whole: Restart
    """Restart of every process."""


def measure(counts: Sequence[int], folder: Path) -> Iterator[Found]:
    processes = Processes(folder)
    try:
        crd = yaml.safe_load(CRDS.read_text())
        bare = folder / "crd-without-status.yaml"
        bare.write_text(yaml.safe_dump(without_status(crd)))
        api = ApiServer(folder, processes, bare)
        api.start()
        there = 0
        for count in sorted(counts):
            _set_crd(api, without_status(crd))
            print(f"making {count - there:,} finished jobs", file=sys.stderr, flush=True)
            _make(api, count - there)
            there = count
            _set_crd(api, crd)
            _list_all(api)
            yield _one(api, processes, folder, there)
    finally:
        processes.stop()


def without_status(crd: Json) -> Json:
    """The same kind, whose status any writer of the object writes."""
    changed = copy.deepcopy(crd)
    for version in changed["spec"]["versions"]:
        version.pop("subresources", None)
    return changed


def _set_crd(api: ApiServer, crd: Json) -> None:
    subresources = [version.get("subresources") for version in crd["spec"]["versions"]]
    connection, path = api.connection(), f"{CRD_PATH}/{crd['metadata']['name']}"
    live = connection.get(path)
    for version, wanted in zip(live["spec"]["versions"], subresources, strict=True):
        version.pop("subresources", None)
        if wanted:
            version["subresources"] = wanted
    status, answer = connection.send("PUT", path, live)
    if status >= 300:
        raise SystemExit(f"the CRD is refused: {answer.get('message')}")
    _wait_for_status(api, keeps=not any(subresources))


def _wait_for_status(api: ApiServer, *, keeps: bool) -> None:
    """Until a create with a status keeps it, or no longer does: the API server takes a changed kind up a moment
    later."""
    connection = api.connection()
    deadline = time.monotonic() + loads.DEADLINE_SECONDS
    for number in range(10_000):
        path = f"{JOBS}/probe-{time.monotonic_ns()}-{number}"
        name = path.rpartition("/")[2]
        status, _ = connection.send("POST", JOBS, {**loads.job(name, 1), "status": ENDED})
        if status == 201:
            answered, body = connection.send("GET", path)
            connection.send("DELETE", path)
            if answered == 200 and bool(body.get("status", {}).get("phase")) == keeps:
                return
        if time.monotonic() > deadline:
            raise SystemExit("the API server does not take up the changed kind")
        time.sleep(0.1)


def _make(api: ApiServer, count: int) -> None:
    def body(name: str) -> bytes:
        return orjson.dumps({**loads.job(name, 1), "status": ENDED})

    loads.in_parallel(api, [partial(Connection.post, path=JOBS, body=body(name)) for name in loads.names(count)])


def _list_all(api: ApiServer) -> None:
    """List the kind once. The first list of a changed kind is read from etcd, which takes the API server milliseconds
    per job. In an older cluster that has happened long ago."""
    connection, token = api.connection(), ""
    deadline = time.monotonic() + loads.DEADLINE_SECONDS
    while time.monotonic() < deadline:
        status, page = connection.send("GET", f"{JOBS}?limit=500&continue={token}")
        if status != 200:  # 429 while it reads
            time.sleep(0.5)
        elif not (token := page["metadata"].get("continue", "")):
            return
    raise SystemExit(f"the API server does not list {JOBS}")


def _one(api: ApiServer, processes: Processes, folder: Path, there: int) -> Found:
    processes.start(
        "player", [sys.executable, "-m", "benchmarks.player", api.server.host, str(api.server.port), "player"]
    )
    operator = Operator(folder, processes, api, workers=(1, 1))
    watch, name = loads.PhaseWatch(api), loads.names(1)[0]
    api.connection().post(JOBS, loads.job(name, 1))
    began = time.monotonic()
    operator.start()
    started = time.monotonic() - began
    first = watch.wait([name], "Running") - began
    watch.close()
    rest = loads.one_at_a_time(api, SAMPLES)
    operator.until_idle()
    ours = ("watcher", "worker", "worker children", "redis")
    before = processes.cpu_seconds()
    time.sleep(IDLE_SECONDS)
    burnt = sum(after - before.get(name, 0.0) for name, after in processes.cpu_seconds().items() if name in ours)
    rss = processes.rss_mib()
    emptied = _empty(api, operator)
    again = _restart(api, operator, operator.stop_watcher, operator.start_watcher)
    operator.until_idle()
    whole = _restart(api, operator, operator.stop, operator.start_on_what_is_there)
    operator.stop()
    processes.stop("player")
    idle, memory = burnt / IDLE_SECONDS * 1000, (sum(rss["watcher"]), sum(rss["redis"]))
    return Found(there, started, first, rest, idle, *memory, emptied, again, whole)


def _empty(api: ApiServer, operator: Operator) -> Emptied:
    operator.until_idle()
    watch, name = loads.PhaseWatch(api), loads.names(1)[0]
    began = time.monotonic()
    operator.empty_redis()
    api.connection().post(JOBS, loads.job(name, 1))
    first = watch.wait([name], "Running") - began
    watch.close()
    emptied = Emptied(first, operator.until_watcher_says(SYNCED) - began)
    operator.until_idle()
    return emptied


def _restart(api: ApiServer, operator: Operator, stop: Callable[[], None], start: Callable[[], None]) -> Restart:
    watch, name = loads.PhaseWatch(api), loads.names(1)[0]
    stop()
    api.connection().post(JOBS, loads.job(name, 1))
    began = time.monotonic()
    with ThreadPoolExecutor(2) as aside:
        ran = aside.submit(watch.wait, [name], "Running")
        start()
        leads = operator.until_watcher_says(LEADS) - began
        listed = aside.submit(operator.until_watcher_says, SYNCED)
        first = ran.result() - began
        rest = loads.one_at_a_time(api, SAMPLES)
    watch.close()
    return Restart(leads, first, rest, listed.result() - began)


def render(found: Sequence[Found]) -> Iterator[str]:
    yield (
        "| finished jobs | all processes ready after, s | a waiting job runs after, s | later ones, p50, ms | p99, ms |"
        " idle CPU, ms a second | watcher, MiB | Redis, MiB |"
    )
    yield "|---|---|---|---|---|---|---|---|"
    for one in found:
        yield (
            f"| {one.finished:,} | {one.start_seconds:.1f} | {one.first_seconds:.2f} | "
            f"{statistics.median(one.one_at_a_time) * 1000:.0f} | {percentile_ms(one.one_at_a_time, 99):.0f} | "
            f"{one.idle_cpu_ms_a_second:.1f} | {one.watcher_mib:.0f} | {one.redis_mib:.0f} |"
        )
    yield ""
    yield "| finished jobs | Redis emptied: a new job runs after, s | every list is in after, s |"
    yield "|---|---|---|"
    for one in found:
        yield f"| {one.finished:,} | {one.emptied.first_seconds:.1f} | {one.emptied.lists_seconds:.1f} |"
    yield ""
    yield (
        "| finished jobs | restarted | the watcher leads after, s | a waiting job runs after, s | later ones, p50, ms |"
        " p99, ms | every list is in after, s |"
    )
    yield "|---|---|---|---|---|---|---|"
    for one in found:
        for what, again in (("the watcher", one.again), ("every process", one.whole)):
            yield (
                f"| {one.finished:,} | {what} | {again.leads_seconds:.1f} | {again.first_seconds:.2f} | "
                f"{statistics.median(again.one_at_a_time) * 1000:.0f} | {percentile_ms(again.one_at_a_time, 99):.0f} | "
                f"{again.lists_seconds:.1f} |"
            )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.finished", description="What finished jobs cost.")
    parser.add_argument("--finished", type=int, nargs="+", default=[0, 50_000], metavar="N", help="(default 0 50000)")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    print(f"load average before: {os.getloadavg()[0]:.1f}", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="tj-bench-") as folder:
        found = list(measure(options.finished, Path(folder)))
    print("\n".join(render(found)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
