"""What can be done to Redis, one record at a time: each key of `keys.py`, replaced, changed, deleted, put back from
earlier, copied from elsewhere.

An attack changes the tables of the memory store, which are those of Redis (tests/integration/store holds the two to one
contract).
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from tests.support.memory_redis import Facts, Lock, Tables
from tjworker.api.resources import PODS
from tjworker.base import GroupResource, JobKey
from tjworker.store.packing import pack, unpack
from tjworker.store.projection import Change
from tjworker.store.seal import SEAL_BYTES

HIGH = 10**12
Attack = Callable[[Tables], None]
TABLES: Mapping[str, tuple[str, ...]] = {
    "writer": ("token", "seq", "synced", "cluster", "form"),
    "job": ("jobs", "children"),
    "known": ("jobs", "children"),
    "unfinished": ("jobs",),
    "progress": ("progress",),
    "seen": ("seen",),
    "gone": ("gone",),
    "nodes": ("nodes",),
    "node_requests": ("node_requests",),
    "dirty": ("dirty",),
    "line": ("line",),
    "in_line": ("in_line",),
    "missing": ("missing",),
    "turn": ("turn",),
    "running": ("running",),
    "delayed": ("delayed",),
    "failures": ("failures",),
    "deaths": ("deaths",),
    "lock": ("locks",),
    "fence": ("fence",),
    "min_observed": ("min_observed",),
    "echo": ("echo",),
    "news": ("news",),
    "rests": ("rests",),
    "once": ("once",),
    "history": (),  # nothing that the operator does reads it
    "history_jobs": (),
    "workers": (),
    "broker": (),  # messages: each pass is asked for by one
    "periodic": (),  # likewise: each runs one of beat's tasks
}
"""Key of `keys.py` -> its tables here."""


@dataclass(frozen=True)
class Arms:
    """What the attacker has collected."""

    sealed: bool
    key: JobKey
    """The job that he is after."""
    earlier: Sequence[Tables]
    elsewhere: Mapping[str, Tables]
    """Of another installation, by what it is."""
    bystander: Mapping[str, Any] = field(default_factory=dict)
    """A pod that belongs to nobody here: name, uid, rv."""


def attacks(tables: Tables, arms: Arms) -> Iterator[tuple[str, Attack]]:
    """(what it is, in words; what it does)."""
    yield from _of_records(tables, arms)
    yield from _of_plain(tables, arms)
    yield from _of_many(tables, arms)


# -- records ---------------------------------------------------------------------------------------
Cell = tuple[str, tuple[Any, ...]]
"""Table, and where in it."""


def _cells(tables: Tables) -> Iterator[Cell]:
    yield from (("jobs", (key,)) for key in sorted(tables.jobs))
    yield from (("children", (key, entry)) for key in sorted(tables.children) for entry in sorted(tables.children[key]))
    yield from (("nodes", (name,)) for name in sorted(tables.nodes))
    yield from (("node_requests", (name,)) for name in sorted(tables.node_requests))


def _get(tables: Tables, cell: Cell) -> Any:
    found: Any = getattr(tables, cell[0])
    for part in cell[1]:
        found = found.get(part) if found is not None else None
    return found


def _set(cell: Cell, value: Any) -> Attack:
    def attack(tables: Tables) -> None:
        table: Any = getattr(tables, cell[0])
        for part in cell[1][:-1]:
            table = table.setdefault(part, {})
        if value is None:
            table.pop(cell[1][-1], None)
        else:
            table[cell[1][-1]] = copy.deepcopy(value)

    return attack


def _of_records(tables: Tables, arms: Arms) -> Iterator[tuple[str, Attack]]:
    cells = list(_cells(tables))
    for cell in cells:
        mine, what = _get(tables, cell), f"{cell[0]} {_words(cell)}"
        yield f"{what} deleted", _set(cell, None)
        for name, record in _forged(cell, _record(mine), arms):
            yield f"{what} {name}", _set(cell, _with(mine, record))
        if isinstance(mine, Change):
            yield f"{what} with a version that is never reached", _set(cell, dataclasses.replace(mine, rv=HIGH))
            yield f"{what} said to be finished", _set(cell, dataclasses.replace(mine, finished=not mine.finished))
            for name, generation in {"another": HIGH, "the next": mine.generation + 1}.items():
                yield f"{what} said to have {name} spec", _set(cell, dataclasses.replace(mine, generation=generation))
            for name in ("another", *sorted({job.job_uid for job in tables.jobs.values()} - {mine.job_uid})):
                yield f"{what} said to be {name}'s", _set(cell, dataclasses.replace(mine, job_uid=name))
        for number, old in enumerate(arms.earlier):
            if (before := _get(old, cell)) not in (None, mine):
                yield f"{what} put back from moment {number}", _set(cell, before)
        for where, other in arms.elsewhere.items():
            if (theirs := _get(other, cell)) is not None:
                yield f"{what} of {where}", _set(cell, theirs)
        for other_cell in cells:
            if other_cell[0] == cell[0] and other_cell != cell:
                theirs = _get(tables, other_cell)
                yield f"{what} from {_words(other_cell)}", _set(cell, _with(mine, _record(theirs)))
    yield from _returned(tables, arms)


def _returned(tables: Tables, arms: Arms) -> Iterator[tuple[str, Attack]]:
    """Records of what there is no more, or what is another's, under this job."""
    there = set(_cells(tables))
    for number, old in enumerate(arms.earlier):
        for cell in _cells(old):
            if cell not in there:
                yield f"{cell[0]} {_words(cell)} back from moment {number}", _set(cell, _get(old, cell))
    for key in sorted(tables.children):
        for entry, child in sorted(tables.children[key].items()):
            if key != arms.key:
                yield f"child {entry[1]} of {key} given to {arms.key}", _set(("children", (arms.key, entry)), child)
    if arms.bystander:
        record = _stranger(tables, arms)
        change = Change(arms.key, PODS, arms.bystander["name"], arms.bystander["rv"], record)
        yield "a stranger's pod adopted", _set(("children", (arms.key, (PODS, arms.bystander["name"]))), change)


def _record(value: Any) -> bytes:
    return (value.record if isinstance(value, Change) else value) or b""


def _with(value: Any, record: bytes) -> Any:
    return dataclasses.replace(value, record=record) if isinstance(value, Change) else record


def _forged(cell: Cell, sealed: bytes, arms: Arms) -> Iterator[tuple[str, bytes]]:
    """Records that the attacker writes himself: without a seal, and with that of the true one."""
    for name, record in _lies(cell, _read(sealed, arms), arms):
        yield f"says: {name}", record
        if arms.sealed:
            yield f"says, with the true seal: {name}", sealed[:SEAL_BYTES] + pack(record)
    yield "is no record", b"\xff\x00"
    if arms.sealed:
        yield "is no packed record, with the true seal", sealed[:SEAL_BYTES] + b"\xff\x00"


def read_sealed(sealed: bytes) -> bytes:
    """What it says, to anybody: seals hide nothing."""
    return unpack(sealed[SEAL_BYTES:])


def _read(record: bytes, arms: Arms) -> bytes:
    return read_sealed(record) if arms.sealed and record else record


def _lies(cell: Cell, plain: bytes, arms: Arms) -> Iterator[tuple[str, bytes]]:
    if not plain.startswith(b"{"):
        return
    raw = orjson.loads(plain)

    def lie(change: Callable[[dict[str, Any]], None]) -> bytes:
        told = copy.deepcopy(raw)
        change(told)
        return orjson.dumps(told)

    if cell[0] == "jobs":
        yield "one replica more, privileged, on the host", lie(_host)
        yield "suspended", lie(lambda job: job["spec"].update(suspend=True))
        yield "over its time", lie(_overdue)
        yield "told to fail", lie(lambda job: job["metadata"].setdefault("annotations", {}).update(Failed="true"))
        yield "no replicas", lie(_no_replicas)
    elif cell[0] == "children" and cell[1][1][0] == PODS:
        ended = [{"name": "aitj-main", "state": "terminated", "exit_code": 1}]
        for phase in ("Failed", "Succeeded"):
            yield f"it has {phase}", lie(lambda pod, phase=phase: pod.update(phase=phase, containers=ended))  # type: ignore[misc]
        yield "it is of an old attempt", lie(lambda pod: pod["labels"].update({"restart-attempt": "-1"}))
        yield "its index is too high", lie(lambda pod: pod.update(labels={**pod["labels"], "replica-index": "99"}))
        if arms.bystander:
            yield "it is a stranger's", lie(lambda pod: pod.update(uid=arms.bystander["uid"]))
    elif cell[0] == "nodes":
        yield "not ready, for ever", lie(lambda node: node.update(ready="False", ready_since=946684800))


def _host(job: dict[str, Any]) -> None:
    for role in (job["spec"].get("replicaSpecs") or {}).values():
        role["replicas"] = int(role.get("replicas", 1)) + 1
        role["template"]["spec"].update(hostPID=True, volumes=[{"name": "h", "hostPath": {"path": "/"}}])


def _no_replicas(job: dict[str, Any]) -> None:
    for role in (job["spec"].get("replicaSpecs") or {}).values():
        role["replicas"] = 0


def _overdue(job: dict[str, Any]) -> None:
    job["spec"]["activeDeadlineSeconds"] = 1
    job["status"]["startTime"] = "2000-01-01T00:00:00Z"


def _stranger(tables: Tables, arms: Arms) -> bytes:
    """As the watcher would write it if it belonged to the job, of a role that the job does not have."""
    record = _record(tables.jobs[arms.key])
    uid = orjson.loads(_read(record, arms))["metadata"]["uid"]
    told = {"job-name": arms.key.rsplit("/", 1)[1], "replica-name": "none", "elasticdeeplearning.ai/job-uid": uid}
    return orjson.dumps({**arms.bystander, "owner_uid": uid, "labels": told, "phase": "Running", "ready": True})


# -- everything else -------------------------------------------------------------------------------


def _of_plain(tables: Tables, arms: Arms) -> Iterator[tuple[str, Attack]]:
    records = {"jobs", "children", "nodes", "node_requests"}
    for name in sorted({t for of_key in TABLES.values() for t in of_key} - records):
        value = getattr(tables, name)
        if not isinstance(value, dict):
            yield from _scalar(name, value, arms)
            continue
        entries = (
            sorted(set(value) | {arms.key}, key=str) if name not in ("progress", "once", "in_line") else list(value)
        )
        for entry in entries:
            for words, new in _others(name, value.get(entry)):
                yield f"{name} {entry} {words}", _set((name, (entry,)), new)
            for number, old in enumerate(arms.earlier):
                if (before := getattr(old, name).get(entry)) not in (None, value.get(entry)):
                    yield f"{name} {entry} put back from moment {number}", _set((name, (entry,)), before)


def _scalar(name: str, value: Any, arms: Arms) -> Iterator[tuple[str, Attack]]:
    kinds: dict[type, Sequence[Any]] = {bool: (not value,), str: ("", "x"), int: (0, HIGH), type(None): (0, HIGH)}
    for new in (*kinds[type(value)], *(getattr(old, name) for old in arms.earlier)):
        if new != value:
            yield f"{name} {value!r} made {new!r}", lambda tables, new=new: setattr(tables, name, new)  # type: ignore[misc]
    if name == "token":
        yield "token gone", lambda tables: setattr(tables, name, None)


def _others(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    yield "gone", None
    if name in ("gone", "min_observed", "echo"):
        for number in (0, HIGH):
            entries = {f"{PODS}": number, "job": number, **dict.fromkeys((value or Facts()).entries, number)}
            yield f"made {number}", Facts(entries, ends=float(HIGH))
    elif name == "seen":
        yield from ((f"made {number}", {GroupResource(PODS): number}) for number in (0, HIGH))
    elif name == "locks":
        yield "held by nobody there is", Lock(HIGH, "nobody", ends=1.0)
    elif name == "news":
        yield "made up", {"pods:1"}
    elif name == "rests":
        yield "made up", ("7", float(HIGH))
    else:
        yield from ((f"made {number}", number) for number in (0, 3, HIGH))


def _of_many(tables: Tables, arms: Arms) -> Iterator[tuple[str, Attack]]:
    """Several at once: what belongs together goes together."""
    key = arms.key
    blind = ("min_observed", "echo", "seen")

    def without_children(wanted: Callable[[str], bool]) -> Attack:
        def attack(now: Tables) -> None:
            now.children[key] = {e: c for e, c in now.children.get(key, {}).items() if not wanted(e[0])}
            for name in blind:
                getattr(now, name).pop(key, None)

        return attack

    yield "a job said to rest at its version", _resting(tables, arms)
    yield "all children of a job deleted", without_children(lambda _: True)
    yield "all pods of a job deleted", without_children(lambda resource: resource == PODS)
    yield "all but the pods of a job deleted", without_children(lambda resource: resource != PODS)
    yield "all of Redis but the records deleted", lambda now: _only(now, ("jobs", "children", "token", "seq", "synced"))
    for number, old in enumerate(arms.earlier):
        yield f"all of Redis put back to moment {number}", lambda now, old=old: _put_back(now, old, _ALL)  # type: ignore[misc]
        yield f"all children put back to moment {number}, and every trace of it gone", _children_of(old, blind)
    for where, other in arms.elsewhere.items():
        yield f"all of Redis put in from {where}", lambda now, other=other: _put_back(now, other, _ALL)  # type: ignore[misc]


def _resting(tables: Tables, arms: Arms) -> Attack:
    """As a worker notes it of a suspended job."""
    mine = tables.jobs[arms.key]

    def attack(now: Tables) -> None:
        now.rests[arms.key] = str(mine.rv), float(HIGH)

    return attack


_ALL = tuple(f.name for f in dataclasses.fields(Tables))


def _children_of(old: Tables, without: Iterable[str]) -> Attack:
    def attack(now: Tables) -> None:
        _put_back(now, old, ("children",))
        _put_back(now, Tables(), without)

    return attack


def _only(now: Tables, kept: Iterable[str]) -> None:
    fresh = Tables()
    _put_back(now, fresh, [name for name in _ALL if name not in kept])


def _put_back(now: Tables, old: Tables, names: Iterable[str]) -> None:
    for name in names:
        setattr(now, name, copy.deepcopy(getattr(old, name)))


def _words(cell: Cell) -> str:
    return "/".join(str(part[1] if isinstance(part, tuple) else part) for part in cell[1])
