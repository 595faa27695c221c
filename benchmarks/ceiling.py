"""The ceiling: the writes of a load's jobs, those of the operator and those of the player, by the bare client alone.

No operator runs, no watch is open. What an operator that makes these writes could reach if it cost nothing itself, so
the rest of its way to the bare client is the API server's. The writes are recorded from one life of a job: its statuses
as the operator wrote them, its pods, services and Events as it made them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import orjson

from benchmarks.apiserver import JOBS, PODS, SERVICES, ApiServer
from benchmarks.loads import PhaseWatch, in_parallel, job, kept, names, submit
from benchmarks.player import ended, running
from benchmarks.wire import Connection, Json

EVENTS = "/api/v1/namespaces/default/events"


@dataclass(frozen=True, slots=True)
class Recorded:
    """The life of one job. Objects are JSON with the placeholder `name` for the name of the job."""

    name: bytes
    job: bytes
    statuses: tuple[bytes, ...]
    """The first, that of Running and that of the end: as many as a busy system writes. An idle one may write more."""
    pods: tuple[bytes, ...]
    services: tuple[bytes, ...]
    events: tuple[bytes, ...]
    ends: bool
    """Its pods end, and are deleted with their services."""


def record(api: ApiServer, watch: PhaseWatch, replicas: int, *, until: str, run_seconds: float | None) -> Recorded:
    """Run one job to the phase `until`, with operator and player, and note what was written for it."""
    name = names(1)[0]
    body = job(name, replicas, run_seconds=run_seconds)
    submit(api, [body])
    watch.wait([name], "Running")
    client = api.connection()
    children: dict[str, tuple[bytes, ...]] = {
        path: tuple(orjson.dumps(kept(client.get(f"{path}/{name}-trainer-{index}"), path)) for index in range(replicas))
        for path in (PODS, SERVICES)
    }
    watch.wait([name], until)
    events = client.get(f"{EVENTS}?fieldSelector=involvedObject.name%3D{name}")["items"]
    for one in events:
        one["metadata"] = {key: one["metadata"][key] for key in ("name", "namespace")}
    return Recorded(
        name=name.encode(),
        job=orjson.dumps(body),
        statuses=tuple(orjson.dumps(status) for status in milestones(watch.statuses(name), until)),
        pods=children[PODS],
        services=children[SERVICES],
        events=tuple(orjson.dumps(one) for one in events),
        ends=run_seconds is not None,
    )


def milestones(statuses: Sequence[Json], until: str) -> list[Json]:
    """The first of all, the first Running one and, where that is another, the first of the phase `until`."""
    found = [statuses[0]]
    for phase in dict.fromkeys(("Running", until)):
        found.append(next(status for status in statuses if status["phase"] == phase))
    return found


def same_writes(api: ApiServer, count: int, recorded: Recorded) -> float:
    """Seconds for the writes of so many jobs, each job's one after another as it lives, over 16 connections."""
    start = in_parallel(api, [partial(_live, recorded=recorded, name=name) for name in names(count)])
    return time.monotonic() - start


def _live(connection: Connection, recorded: Recorded, name: str) -> None:
    def of(body: bytes) -> Any:
        return orjson.loads(body.replace(recorded.name, name.encode()))

    made = _sent(connection, "POST", JOBS, of(recorded.job))
    version, uid = made["metadata"]["resourceVersion"], made["metadata"]["uid"]
    pods = [of(body) for body in recorded.pods]
    services = [of(body) for body in recorded.services]
    # The first status comes before the pods, Running after pods that run, the end after pods that have ended.
    for step, status in enumerate(recorded.statuses):
        for number, pod in enumerate(pods if step else ()):
            _play(
                connection, pod, running(pod, f"10.1.{number}.1") if step == 1 else ended(pod, "2026-01-01T00:00:00Z")
            )
        body = {
            "apiVersion": made["apiVersion"],
            "kind": made["kind"],
            "status": of(status),
            "metadata": {"name": name, "namespace": "default", "uid": uid, "resourceVersion": version},
        }
        version = _sent(connection, "PUT", f"{JOBS}/{name}/status", body)["metadata"]["resourceVersion"]
        if step == 0:
            for path, bodies in ((PODS, pods), (SERVICES, services)):
                for one in bodies:
                    connection.post(path, one)
            for event in recorded.events:
                connection.post(EVENTS, of(event))
    if recorded.ends:
        for path, bodies in ((PODS, pods), (SERVICES, services)):
            for one in bodies:
                _sent(connection, "DELETE", f"{path}/{one['metadata']['name']}", {})


def _play(connection: Connection, pod: Json, status: Json) -> None:
    name = pod["metadata"]["name"]
    code = connection.merge_patch(f"{PODS}/{name}/status", {"status": status})
    if code >= 300:
        raise RuntimeError(f"patch of the status of pod {name}: {code}")


def _sent(connection: Connection, method: str, path: str, body: Json) -> Json:
    code, answer = connection.send(method, path, body)
    if code >= 300:
        raise RuntimeError(f"{method} {path}: {code} {answer.get('message')}")
    return answer
