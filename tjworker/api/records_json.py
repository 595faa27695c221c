"""Records of `api.observed` to compact JSON and back: what the watcher writes to Redis is what reconcile reads.

Pure. `decode(resource, encode(record)) == record` for every record. A field at its default is left out: a quiet pod
takes half the room, and a record that an older watcher wrote decodes with today's defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

import orjson

from tjworker.api.observed import (
    RECORD_TYPES,
    ContainerRecord,
    NodeRecord,
    Observed,
    PodGroupRecord,
    PodRecord,
    Record,
    ServiceRecord,
    WorkloadRecord,
)
from tjworker.api.resources import ALL_POD_GROUPS, BATCH_JOBS, PODS, REPLICASETS, SERVICES
from tjworker.base import GroupResource, Terminal


def _defaults(record_type: type[Any]) -> tuple[tuple[str, Any], ...]:
    rows = []
    for entry in fields(record_type):
        default = entry.default_factory() if entry.default_factory is not MISSING else entry.default
        rows.append((entry.name, default))
    return tuple(rows)


_FIELDS: Mapping[type[Any], tuple[tuple[str, Any], ...]] = {
    record_type: _defaults(record_type)
    for record_type in (PodRecord, ContainerRecord, ServiceRecord, WorkloadRecord, PodGroupRecord, NodeRecord)
}
_NAMES = {record_type: frozenset(name for name, _ in rows) for record_type, rows in _FIELDS.items()}


def _plain(record: Any) -> dict[str, Any]:
    out = {}
    for name, default in _FIELDS[type(record)]:
        value = getattr(record, name)
        if value != default:
            out[name] = value
    return out


def encode(record: Record) -> bytes:
    """Compact JSON, the same bytes for equal records made by the same code."""
    out = _plain(record)
    if "containers" in out:
        out["containers"] = [_plain(container) for container in out["containers"]]
    return orjson.dumps(out)


def decode(resource: GroupResource, data: bytes) -> Record:
    """The record that `encode` was given; without the fields that a newer version has written and this one does not
    know. `resource` is a key of RECORD_TYPES. Raises Terminal when the bytes are nothing that `encode` made: a bug, or
    foreign data in our Redis."""
    try:
        raw = orjson.loads(data)
        if "containers" in raw:
            raw["containers"] = tuple(_container(entry) for entry in raw["containers"])
        # JSON has no tuples, and a record with a list equals no record of an object that has not changed.
        if "ports" in raw:
            raw["ports"] = tuple(raw["ports"])
        if "taints" in raw:
            raw["taints"] = tuple(tuple(taint) for taint in raw["taints"])
        record: Record = RECORD_TYPES[resource](**_known(RECORD_TYPES[resource], raw))
    except (AttributeError, orjson.JSONDecodeError, TypeError, KeyError) as error:
        raise Terminal(f"projection of {resource} cannot be read: {error} in {data[:80]!r}") from error
    return record


def _container(raw: dict[str, Any]) -> ContainerRecord:
    if "unhealthy_devices" in raw:
        raw["unhealthy_devices"] = tuple(raw["unhealthy_devices"])
    return ContainerRecord(**_known(ContainerRecord, raw))


def _known(record_type: type[Any], raw: dict[str, Any]) -> dict[str, Any]:
    names = _NAMES[record_type]
    # During an upgrade a newer watcher may write fields that this worker does not know.
    return raw if names.issuperset(raw) else {name: value for name, value in raw.items() if name in names}


def decode_view(
    job: bytes | None,
    children: Mapping[GroupResource, Mapping[str, bytes]],
    *,
    seen: Mapping[GroupResource, int] | None = None,
) -> tuple[dict[str, Any] | None, Observed]:
    """The raw job (None when there is none) and what is observed of it, out of the parts of a store's View."""
    groups: dict[GroupResource, tuple[Any, ...]] = {
        resource: tuple(decode(resource, records[name]) for name in sorted(records))
        for resource, records in children.items()
        if resource in RECORD_TYPES
    }
    observed = Observed(
        pods=groups.get(PODS, ()),
        services=groups.get(SERVICES, ()),
        replicasets=groups.get(REPLICASETS, ()),
        jobs=groups.get(BATCH_JOBS, ()),
        pod_groups={resource: groups[resource] for resource in ALL_POD_GROUPS if resource in groups},
        seen=dict(seen or {}),
    )
    return (orjson.loads(job) if job is not None else None), observed
