"""Projects jobs: the whole spec and status while they run; after that, only what a TTL needs. Pure.

Never kept: managedFields and kubectl's last-applied copy. A job that is nested too deep is kept as unreadable, with the
reason instead of the unreadable part, so that a worker reports it to the owner. A suspended job, and a job with too
large a spec, is kept without its spec: all namespaces share Redis, and no user may fill it with jobs. A worker that
decides about such a job reads it from the API server.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import orjson

from tjworker.api.kinds import KNOWN_KINDS
from tjworker.api.kinds.base import LEFT_OUT, UNREADABLE, number, readable, text
from tjworker.api.status import END_PHASES, REPORT_REFUSED, REPORTED, SUSPENDED
from tjworker.api.timefmt import from_rfc3339
from tjworker.base import MOST_KEPT_OF_A_JOB, GroupResource, JobKey, Json, mapping
from tjworker.store.projection import Change
from watcher.projection.base import Projected

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
TOO_DEEP = "is nested too deep to be kept: mend the spec so that no field has more than 200 levels"
_META = ("name", "namespace", "uid", "resourceVersion", "generation", "deletionTimestamp")


def job_key(resource: GroupResource, meta: Json) -> JobKey:
    return JobKey(f"{resource}/{meta['namespace']}/{meta['name']}")


def is_of_another(resource: GroupResource, obj: Json) -> bool:
    """True if the job itself names another controller."""
    guest = KNOWN_KINDS[resource].guest
    return guest is not None and guest.is_for_another(obj)


def project_job(resource: GroupResource, obj: Json) -> Projected:
    """The change of a job. Of a guest kind's status it keeps only this operator's part, at its place; the whole status
    if there is no such part."""
    meta, kind = obj["metadata"], KNOWN_KINDS[resource]
    status = kind.own_status(obj.get("status"))
    if status:
        obj = {**obj, "status": kind.placed(status)}
    try:
        return _project(resource, obj, meta, status)
    except orjson.JSONEncodeError:
        # orjson refuses objects that are nested too deep.
        return _project(resource, {**obj, "spec": readable(obj.get("spec")) or {}, UNREADABLE: TOO_DEEP}, meta, status)


def _project(resource: GroupResource, obj: Json, meta: Json, status: Json) -> Projected:
    """`status`: this operator's status of the job, which a guest kind keeps at a place of its own."""
    phase, seen = text(status.get("phase")), _has_seen_the_spec(meta, status)
    finished = phase in END_PHASES and seen and not _may_begin(status)
    record = _finished_record(resource, obj, status) if finished else _job_record(obj, meta)
    data = orjson.dumps(record)
    decisive = b"" if finished else _decisive(resource, record, status)
    waits = not finished and seen and (phase == SUSPENDED or _may_begin(status))
    # The user's part is within the record, so a small record need not be serialised again to be measured.
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
        named=None if finished else KNOWN_KINDS[resource].named(obj),
        phase=phase,
        restarts=number(status.get("restarts")),
        decisive=decisive,
        expires_at=_expiry(resource, obj, status) if finished else None,
    )


def _decisive(resource: GroupResource, record: Json, status: Json) -> bytes:
    """A digest of what a pass decides on."""
    metadata = {name: value for name, value in record["metadata"].items() if name != "resourceVersion"}
    shown_status = record["status"]
    if status:
        # The report server writes every ten seconds for each job that trains. No pass decides on what it writes.
        decided_on = {name: value for name, value in status.items() if name not in REPORTED}
        if isinstance(conditions := decided_on.get("conditions"), list):
            decided_on["conditions"] = [c for c in conditions if mapping(c).get("type") != REPORT_REFUSED]
        shown_status = KNOWN_KINDS[resource].placed(decided_on)
    return blake2b(orjson.dumps({**record, "metadata": metadata, "status": shown_status}), digest_size=16).digest()


def _has_seen_the_spec(meta: Json, status: Json) -> bool:
    """False if the spec was edited since the last status. Then an ended job needs one more pass, which writes the new
    observedGeneration: `kubectl wait` waits for it."""
    return status.get("observedGeneration") in (None, 0, meta.get("generation"))


def _may_begin(status: Json) -> bool:
    """True for a job that was refused before it began. It counts as unfinished, so that each change queues it: it
    starts once the user corrects the spec or an annotation, and an edit of an annotation does not raise the
    generation."""
    return bool(status.get("refused"))


def _expiry(resource: GroupResource, obj: Json, status: Json) -> float | None:
    """When the operator deletes the job or its TensorBoard, whichever comes first, in Unix seconds; None for never."""
    ttl = _ttl_seconds(resource, obj)
    completed = from_rfc3339(text(status.get("completionTime")))
    job_due = None if ttl is None or completed is None else completed + ttl
    due = (job_due, from_rfc3339(text(status.get("tensorboardUntil"))))
    return min((at for at in due if at is not None), default=None)


def _ttl_seconds(resource: GroupResource, job: Json) -> int | None:
    """The TTL, also of a job that an older schema of the CRD admitted."""
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
    """Bytes of the spec, labels and annotations. The status does not count: the operator bounds it itself, and it grows
    with the job's pods, which quotas bound."""
    kept = record["metadata"]
    return len(orjson.dumps((record["spec"], kept.get("labels"), kept.get("annotations"))))


def _record_without_spec(resource: GroupResource, record: Json, status: Json, size: int) -> dict[str, Any]:
    small = {**_small_record(resource, record, status), LEFT_OUT: size}
    return {**small, UNREADABLE: record[UNREADABLE]} if UNREADABLE in record else small


def _finished_record(resource: GroupResource, obj: Json, status: Json) -> dict[str, Any]:
    """The record of a finished job: marked `finished`, and only what a TTL needs."""
    kind, ttl = KNOWN_KINDS[resource], _ttl_seconds(resource, obj)
    kept = {} if ttl is None or kind.ttl_path else kind.with_run_policy({"ttlSecondsAfterFinished": ttl})
    return {"finished": True, **_small_record(resource, obj, status), **kept}


def _small_record(resource: GroupResource, obj: Json, status: Json) -> dict[str, Any]:
    """A record in the shape of a job, smaller than 1 KB."""
    small_status = {name: status[name] for name in ("phase", "completionTime", "observedGeneration") if name in status}
    return {
        "apiVersion": obj.get("apiVersion", ""),
        "kind": obj.get("kind", ""),
        "metadata": {name: obj["metadata"][name] for name in _META if name in obj["metadata"]},
        "spec": {},
        "status": KNOWN_KINDS[resource].placed(small_status),
    }
