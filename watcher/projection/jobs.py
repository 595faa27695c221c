"""Jobs: spec and status whole while they run, what a TTL needs once they have finished. PURE.

Never kept: managedFields and kubectl's last-applied copy. A job that is nested too deep is kept as unreadable, with the
reason in place of its spec, so that a worker tells its owner. A suspended job, and one whose spec is too large, is kept
without its spec: Redis is shared by all namespaces, and no user may fill it with jobs. A worker that decides about such
a job reads it from the API server.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import orjson

from tjworker.api.kinds import KNOWN_KINDS
from tjworker.api.kinds.base import LEFT_OUT, UNREADABLE, mapping, number, readable, text
from tjworker.api.status import END_PHASES, REPORT_REFUSED, REPORTED, SUSPENDED
from tjworker.api.timefmt import from_rfc3339
from tjworker.base import MOST_KEPT_OF_A_JOB, GroupResource, JobKey
from tjworker.store.projection import Change
from watcher.projection.base import Json, Projected

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
TOO_DEEP = "is nested too deep to be kept: mend the spec so that no field has more than 200 levels"
_META = ("name", "namespace", "uid", "resourceVersion", "generation", "deletionTimestamp")


def job_key(resource: GroupResource, meta: Json) -> JobKey:
    return JobKey(f"{resource}/{meta['namespace']}/{meta['name']}")


def is_of_another(resource: GroupResource, obj: Json) -> bool:
    """Another controller has the job: it says so."""
    guest = KNOWN_KINDS[resource].guest
    return guest is not None and guest.is_for_another(obj)


def project_job(resource: GroupResource, obj: Json) -> Projected:
    """Of a guest's status only our own is kept, where it stands in it; or, where there is none, what it says."""
    meta, kind = obj["metadata"], KNOWN_KINDS[resource]
    status = kind.own_status(obj.get("status"))
    if status:
        obj = {**obj, "status": kind.placed(status)}
    try:
        return _project(resource, obj, meta, status)
    except orjson.JSONEncodeError:
        return _project(resource, {**obj, "spec": readable(obj.get("spec")) or {}, UNREADABLE: TOO_DEEP}, meta, status)


def _project(resource: GroupResource, obj: Json, meta: Json, status: Json) -> Projected:
    """`status` is our own, wherever it stands in the object."""
    phase, seen = text(status.get("phase")), _has_seen_the_spec(meta, status)
    finished = phase in END_PHASES and seen and not _may_begin(status)
    record = _finished_record(resource, obj, status) if finished else _job_record(obj, meta)
    data = orjson.dumps(record)
    decisive = b"" if finished else _decisive(resource, record, status)
    waits = not finished and seen and (phase == SUSPENDED or _may_begin(status))
    # The user's part lies within the record: of one that is small it need not be written again to be measured.
    if waits or (not finished and len(data) > MOST_KEPT_OF_A_JOB):
        size = _size_of_users_part(record)
        if waits or size > MOST_KEPT_OF_A_JOB:
            record = _record_without_spec(resource, record, status, size)
            data = orjson.dumps(record)
    change = Change(
        job_key(resource, meta),
        resource,
        meta["name"],
        int(meta["resourceVersion"]),
        data,
        finished=finished,
        is_job=True,
        job_uid=meta["uid"],
        generation=meta.get("generation") or 0,
    )
    return Projected(
        change,
        phase=phase,
        restarts=number(status.get("restarts")),
        decisive=decisive,
        expires_at=_expiry(resource, obj, status) if finished else None,
    )


def _decisive(resource: GroupResource, record: Json, status: Json) -> bytes:
    """A digest of the record without its version and without what the report server writes, every ten seconds for each
    job that trains: no pass decides on that, so it need not begin one."""
    kept = {name: value for name, value in record["metadata"].items() if name != "resourceVersion"}
    told = record["status"]
    if status:
        own = {name: value for name, value in status.items() if name not in REPORTED}
        if isinstance(conditions := own.get("conditions"), list):
            own["conditions"] = [one for one in conditions if mapping(one).get("type") != REPORT_REFUSED]
        told = KNOWN_KINDS[resource].placed(own)
    return blake2b(orjson.dumps({**record, "metadata": kept, "status": told}), digest_size=16).digest()


def _has_seen_the_spec(meta: Json, status: Json) -> bool:
    """An ended job whose spec was edited is owed one more pass, which says so in the status: `kubectl wait` asks for
    it."""
    return status.get("observedGeneration") in (None, 0, meta.get("generation"))


def _may_begin(status: Json) -> bool:
    """A job that was refused before it began starts once its spec or an annotation is mended: it counts as unfinished,
    and its changes queue it. (An edit of an annotation moves no generation.)"""
    return bool(status.get("refused"))


def _expiry(resource: GroupResource, obj: Json, status: Json) -> float | None:
    """When something of it is due: it goes itself, or its TensorBoard does."""
    ttl = _ttl_seconds(resource, obj)
    completed = from_rfc3339(text(status.get("completionTime")))
    own = None if ttl is None or completed is None else completed + ttl
    due = (own, from_rfc3339(text(status.get("tensorboardUntil"))))
    return min((at for at in due if at is not None), default=None)


def _ttl_seconds(resource: GroupResource, job: Json) -> int | None:
    """Of any job, also of one that is older than its CRD's schema."""
    return KNOWN_KINDS[resource].ttl_seconds(job)


def _job_record(obj: Json, meta: Json) -> dict[str, Any]:
    kept = {name: meta[name] for name in (*_META, "labels", "creationTimestamp") if name in meta}
    annotations = {name: value for name, value in (meta.get("annotations") or {}).items() if name != _LAST_APPLIED}
    if annotations:
        kept["annotations"] = annotations
    record = {
        "apiVersion": obj.get("apiVersion", ""),
        "kind": obj.get("kind", ""),
        "metadata": kept,
        "spec": obj.get("spec") or {},
        "status": mapping(obj.get("status")),
    }
    return {**record, UNREADABLE: obj[UNREADABLE]} if UNREADABLE in obj else record


def _size_of_users_part(record: Json) -> int:
    """In bytes: the spec, labels and annotations. What the operator writes itself, the status, has bounds of its own
    and grows with the pods of a job, which quotas bound."""
    kept = record["metadata"]
    return len(orjson.dumps((record["spec"], kept.get("labels"), kept.get("annotations"))))


def _record_without_spec(resource: GroupResource, record: Json, status: Json, size: int) -> dict[str, Any]:
    small = {**_small_record(resource, record, status), LEFT_OUT: size}
    return {**small, UNREADABLE: record[UNREADABLE]} if UNREADABLE in record else small


def _finished_record(resource: GroupResource, obj: Json, status: Json) -> dict[str, Any]:
    """Marked `finished`; with what a TTL needs and no more. Who needs the rest asks the API server."""
    kind, ttl = KNOWN_KINDS[resource], _ttl_seconds(resource, obj)
    kept = {} if ttl is None or kind.ttl_path else kind.with_run_policy({"ttlSecondsAfterFinished": ttl})
    return {"finished": True, **_small_record(resource, obj, status), **kept}


def _small_record(resource: GroupResource, obj: Json, status: Json) -> dict[str, Any]:
    """In the shape of a job, of less than a kilobyte."""
    told = {name: status[name] for name in ("phase", "completionTime", "observedGeneration") if name in status}
    return {
        "apiVersion": obj.get("apiVersion", ""),
        "kind": obj.get("kind", ""),
        "metadata": {name: obj["metadata"][name] for name in _META if name in obj["metadata"]},
        "spec": {},
        "status": KNOWN_KINDS[resource].placed(told),
    }
