"""The loads: what is asked of the cluster, and how long it took. Each waits until it is done and leaves nothing
behind."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from http.client import HTTPException
from typing import Any

import orjson

from benchmarks.apiserver import JOBS, NODE, PODS, SERVICES, ApiServer
from benchmarks.player import HANDS_OFF, RUN_SECONDS, running
from benchmarks.wire import Connection, Json

CONNECTIONS = 16
DEADLINE_SECONDS = 300.0
_BATCH = itertools.count()


def job(name: str, replicas: int, *, run_seconds: float | None = None, hands_off: bool = False) -> Json:
    """An AITrainingJob of one role; its pods come with their node, as no scheduler runs."""
    notes = {RUN_SECONDS: str(run_seconds)} if run_seconds is not None else {}
    if hands_off:
        notes[HANDS_OFF] = "yes"
    container = {
        "name": "aitj-train",
        "image": "example.org/train:1",
        "command": ["train"],
        "ports": [{"name": "aitj-port", "containerPort": 2222}],
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
    }
    template = {"metadata": {"annotations": notes}, "spec": {"nodeName": NODE, "containers": [container]}}
    return {
        "apiVersion": "elasticdeeplearning.ai/v1",
        "kind": "AITrainingJob",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"cleanPodPolicy": "All", "replicaSpecs": {"trainer": {"replicas": replicas, "template": template}}},
    }


@dataclass(frozen=True, slots=True)
class Kind:
    """The jobs of one operator."""

    path: str
    job: Callable[..., Json]
    """(name, replicas, run_seconds=...) -> its manifest."""
    phase: Callable[[Json], str]
    """The phase of a job in the API server: Running once every replica runs, Succeed once all is done."""


OURS = Kind(JOBS, job, lambda raw: str((raw.get("status") or {}).get("phase", "")))


class PhaseWatch:
    """When each job was first seen in each phase, on the clock of `time.monotonic`."""

    def __init__(self, api: ApiServer, kind: Kind = OURS) -> None:
        connection = api.connection()
        self._api = api
        self._kind = kind
        self._closed = False
        self._connection = api.connection()
        self._version = connection.get(f"{kind.path}?limit=1")["metadata"]["resourceVersion"]
        self._seen: dict[tuple[str, str], float] = {}
        self._statuses: dict[str, list[Json]] = {}
        self._news = threading.Condition()
        threading.Thread(target=self._run, name="phases", daemon=True).start()

    def _run(self) -> None:
        """The API server ends a watch when it pleases, as after a change of the CRD's own status."""
        while not self._closed:
            with suppress(OSError, HTTPException, ValueError, AttributeError):
                self._read()
            if not self._closed:
                self._connection = self._api.connection()

    def _read(self) -> None:
        for event in self._connection.watch(self._kind.path, self._version):
            now = time.monotonic()
            obj = event["object"]
            self._version = obj["metadata"]["resourceVersion"]
            name, status = obj["metadata"]["name"], obj.get("status") or {}
            with self._news:
                self._seen.setdefault((name, self._kind.phase(obj)), now)
                statuses = self._statuses.setdefault(name, [])
                if status and [status] != statuses[-1:]:
                    statuses.append(status)
                self._news.notify_all()

    def wait(self, names: Sequence[str], phase: str) -> float:
        """When the last of them was first seen in that phase."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        with self._news:
            while not all((name, phase) in self._seen for name in names):
                if not self._news.wait(max(0.0, deadline - time.monotonic())) and time.monotonic() >= deadline:
                    late = [name for name in names if (name, phase) not in self._seen]
                    raise SystemExit(
                        f"{len(late)} of {len(names)} jobs are not {phase} after {DEADLINE_SECONDS:.0f} s, "
                        f"for example {late[0]}"
                    )
            return max(self._seen[name, phase] for name in names)

    def statuses(self, name: str) -> list[Json]:
        """Each status that was written to this job, in order."""
        with self._news:
            return list(self._statuses.get(name, ()))

    def close(self) -> None:
        self._closed = True
        self._connection.close()


def in_parallel(api: ApiServer, work: Iterable[Callable[[Connection], Any]]) -> float:
    """Over 16 connections that are open before the first request. When that one went out (`time.monotonic`)."""
    connections = [api.connection() for _ in range(CONNECTIONS)]
    todo = iter(list(work))
    lock = threading.Lock()

    def run(connection: Connection) -> None:
        while True:
            with lock:
                one = next(todo, None)
            if one is None:
                return
            one(connection)

    with ThreadPoolExecutor(CONNECTIONS) as pool:
        list(pool.map(lambda c: c.get("/version"), connections))
        start = time.monotonic()
        list(pool.map(run, connections))
    for connection in connections:
        connection.close()
    return start


def names(count: int) -> list[str]:
    batch = next(_BATCH)
    return [f"bench-{batch}-{number}" for number in range(count)]


def submit(api: ApiServer, jobs: Sequence[Json], path: str = JOBS) -> float:
    """Create them; when the first request went out."""
    bodies = [orjson.dumps(one) for one in jobs]
    return in_parallel(api, [partial(Connection.post, path=path, body=body) for body in bodies])


def run_jobs(
    api: ApiServer, count: int, replicas: int, *, until: str, run_seconds: float | None = None, kind: Kind = OURS
) -> float:
    """Seconds from the first apply until the last of `count` jobs was in the phase `until`; at an end, until its pods
    and services are gone, too."""
    watch = PhaseWatch(api, kind)
    try:
        those = names(count)
        start = submit(api, [kind.job(name, replicas, run_seconds=run_seconds) for name in those], kind.path)
        seconds = watch.wait(those, until) - start
        if until != "Succeed" or not _left(api.connection()):
            return seconds
        return _until_nothing_is_left(api) - start
    finally:
        watch.close()


def _left(connection: Connection) -> bool:
    found = [o["metadata"]["name"] for path in (PODS, SERVICES) for o in connection.get(f"{path}?limit=2")["items"]]
    return found not in ([], ["kubernetes"])


def _until_nothing_is_left(api: ApiServer) -> float:
    connection, deadline = api.connection(), time.monotonic() + DEADLINE_SECONDS
    while _left(connection):
        if time.monotonic() > deadline:
            raise SystemExit(f"pods or services are left {DEADLINE_SECONDS:.0f} s after the last job's end")
        time.sleep(0.05)
    return time.monotonic()


def bare_creates(
    api: ApiServer, count: int, recorded_name: bytes, pods: Sequence[bytes], services: Sequence[bytes]
) -> float:
    """Seconds for the creates of so many jobs without any operator: their pods and services, as the operator makes
    them."""
    bodies = []
    for name in names(count):
        for pair in zip(pods, services, strict=True):
            for path, body in zip((PODS, SERVICES), pair, strict=True):
                bodies.append((path, body.replace(recorded_name, name.encode())))
    start = in_parallel(api, [partial(Connection.post, path=path, body=body) for path, body in bodies])
    return time.monotonic() - start


def kept(body: Json, path: str) -> Json:
    """What of a pod or service the operator gave, without what the API server added: to be created again."""
    given = ("name", "labels", "annotations", "ownerReferences")
    metadata = {key: body["metadata"][key] for key in given if key in body["metadata"]}
    spec = dict(body["spec"])
    if path == SERVICES:
        spec = {key: spec[key] for key in ("clusterIP", "ports", "selector", "publishNotReadyAddresses") if key in spec}
    return {"apiVersion": "v1", "kind": "Pod" if path == PODS else "Service", "metadata": metadata, "spec": spec}


def one_at_a_time(api: ApiServer, count: int, kind: Kind = OURS) -> list[float]:
    """Seconds from the creation of a job to Running, on an idle system."""
    watch = PhaseWatch(api, kind)
    connection = api.connection()
    took = []
    try:
        for name in names(count):
            start = time.monotonic()
            connection.post(kind.path, kind.job(name, 1))
            took.append(watch.wait([name], "Running") - start)
        return took
    finally:
        watch.close()


def status_latency(api: ApiServer, count: int) -> list[float]:
    """Seconds from a pod's change (before its request is sent) to the change of the job's status that it leads to."""
    watch = PhaseWatch(api)
    connection = api.connection()
    took = []
    try:
        for name in names(count):
            connection.post(JOBS, job(name, 1, hands_off=True))
            path = f"{PODS}/{name}-trainer-0"
            deadline = time.monotonic() + DEADLINE_SECONDS
            while (found := connection.send("GET", path))[0] != 200 and time.monotonic() < deadline:
                time.sleep(0.02)
            time.sleep(0.1)  # let the operator's own echoes pass: the system is to be idle
            status = {"status": running(found[1], "10.1.1.1")}
            start = time.monotonic()
            connection.merge_patch(f"{path}/status", status)
            took.append(watch.wait([name], "Running") - start)
        return took
    finally:
        watch.close()


def clean(api: ApiServer, path_of_jobs: str = JOBS) -> None:
    """Delete every job and what it left."""
    connection = api.connection()
    for path in (path_of_jobs, PODS, SERVICES):
        deadline = time.monotonic() + DEADLINE_SECONDS
        connection.send("DELETE", f"{path}?gracePeriodSeconds=0")
        while [o for o in connection.get(path)["items"] if o["metadata"]["name"] != "kubernetes"]:
            if time.monotonic() > deadline:
                raise SystemExit(f"{path} cannot be emptied")
            connection.send("DELETE", f"{path}?gracePeriodSeconds=0")
            time.sleep(0.1)
