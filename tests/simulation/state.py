"""The state of a world as the oracles compare it: path -> value, of every job and child there is.

What is chance has a word in its place, so that it must be there and may be any: a UID is that of the object that bears
it, an address is an address. Times stand apart, as seconds since their job was created.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.simulation.ledger import CHILDREN, JOBS, called
from tests.simulation.place import Seen
from tjworker.api.kinds.base import MEMORY
from tjworker.api.timefmt import from_rfc3339

Json = dict[str, Any]
_LEFT_OUT = frozenset({"resourceVersion"})
"""A number that every other write moves."""
_LENGTHS = frozenset({"suspendedSeconds"})
"""Whole seconds that something took: later and longer are the same."""
_OF_THE_WAY = frozenset({"Stalled"})
"""Conditions that come of disturbances alone: two passes of a job that died one after the other. Over, they say nothing
of its end; while one is True it is compared."""
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_IP = re.compile(r"\d+\.\d+\.\d+\.\d+")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_ANY_OF = re.compile(r"\b(node|trainer|worker)-\d+\b")
"""On which node it was, and which of two trainers or workers fails first, is chance."""


@dataclass
class State:
    values: dict[str, Any] = field(default_factory=dict)
    times: dict[str, float] = field(default_factory=dict)
    """Seconds since the job was created."""


def state_of(world: Seen, chance: Collection[str] = ()) -> State:
    """`chance`: types of conditions that tell, once they are over, of the way and not of the end."""
    found = State()
    objects = {
        bucket: {n: o for n, o in sorted(world.objects(bucket).items()) if n not in ("kubernetes", "bystander")}
        for bucket in (*sorted(JOBS), *CHILDREN)
    }
    bearers = {o["metadata"]["uid"]: called(o) for inside in objects.values() for o in inside.values()}
    created = [from_rfc3339(o["metadata"]["creationTimestamp"]) or 0.0 for b in JOBS for o in objects[b].values()]
    for bucket, inside in objects.items():
        for obj in inside.values():
            seen = _without(obj, {*chance, *_OF_THE_WAY}) if bucket in JOBS else obj
            _paths(f"{bucket}/{called(obj)}", seen, _Reading(found, bearers, min(created, default=0.0)))
    return found


@dataclass(frozen=True)
class _Reading:
    into: State
    bearers: Mapping[str, str]
    since: float


def _without(job: Json, chance: Collection[str]) -> Json:
    """The job without conditions of these types that are over."""
    status = job.get("status") or {}
    if MEMORY in status:
        return {**job, "status": {**_as_users_read_it(status), MEMORY: _told_of(status[MEMORY], chance)}}
    return {**job, "status": _told_of(status, chance)} if status else job


def _told_of(status: Json, chance: Collection[str]) -> Json:
    if not status.get("conditions"):
        return status
    return {
        **status,
        "conditions": [c for c in status["conditions"] if c["status"] == "True" or c["type"] not in chance],
    }


def _as_users_read_it(status: Json) -> Json:
    """Of a guest's conditions the last is the state, and of the others only what each says: they stand in the order of
    their times."""
    told = status.get("conditions") or [{"type": ""}]
    return {**status, "conditions": {one["type"]: one for one in told}, "state": told[-1]["type"]}


def phase_of(values: Mapping[str, Any], name: str = "digits") -> str:
    """Of the job; "" when it is gone."""
    return str(_in_status(values, name, "phase") or "")


def restarts_of(values: Mapping[str, Any]) -> int:
    """All of the job's; 0 when it is gone."""
    return int(_in_status(values, "digits", "restarts") or 0)


def _in_status(values: Mapping[str, Any], name: str, field: str) -> Any:
    """None when there is none."""
    where = re.compile(rf"jobs[^/]*/{name}\.status(\.operator)?\.{field}$")
    return next((value for path, value in values.items() if where.search(path)), None)


def _paths(path: str, value: Any, reading: _Reading) -> None:
    for at, inner in _inside(path, value):
        if isinstance(inner, dict | list):
            _paths(at, inner, reading)
        elif not _says_nothing(at, inner):
            reading.into.values[at] = _told(at, inner, reading)
    if isinstance(value, list):
        reading.into.values[f"{path}#"] = len(value)


def _inside(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, list):
        yield from ((f"{path}[{index}]", inner) for index, inner in enumerate(value))
    else:
        yield from ((f"{path}.{key}", inner) for key, inner in value.items() if key not in _LEFT_OUT)


def _says_nothing(path: str, value: Any) -> bool:
    """Attempts that stand there with nothing in them, or not at all; who has run, which is only noted while the job is
    not Running; and what a batch Job counts as failed: a pod that is asked to go is, when its controller sees that
    before the operator has taken the Job's finalizer off it."""
    if path.startswith("batch/jobs/") and path.endswith(".status.failed"):
        return True
    return ".status.attempts." in path and (not value or path.endswith(".ran"))


def _told(path: str, value: Any, reading: _Reading) -> Any:
    if path.rpartition(".")[2] in _LENGTHS:
        reading.into.times[path] = float(value)
        return "some seconds"
    if not isinstance(value, str):
        return value
    if _TIME.fullmatch(value):
        reading.into.times[path] = (from_rfc3339(value) or 0.0) - reading.since
        return "a time"
    if value.startswith("over; it was: "):  # an earlier failure, by the first of those that failed at once
        return "over"
    text = _UID.sub(lambda uid: f"the UID of {reading.bearers.get(uid[0], 'what is gone')}", value)
    return _IP.sub("an address", _ANY_OF.sub(r"\1-*", text))
