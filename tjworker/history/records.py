"""The records of the history: what is kept of a job and of its pods. Pure: raw objects in, records out.

Never kept: values of environment variables, volumes, managedFields, annotations of other owners. A record outlives its
job by days, and each user who may read jobs in the namespace may read it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import orjson

from tjworker.api import labels
from tjworker.api.kinds.base import MEMORY, number, readable, seen_status, text
from tjworker.api.pod_records import deletion_asked_at
from tjworker.api.status import END_PHASES
from tjworker.api.timefmt import from_rfc3339, to_rfc3339, unix_seconds
from tjworker.base import GroupResource, Json, mapping

MOST_JOB_BYTES = 256 << 10
"""Limit of the kept part of a job. A larger job is kept without its spec. The status alone needs only a fraction
(`test_status_size.py`)."""
MOST_WORDS_CHARS = 1_024
MOST_COMMAND_CHARS = 4_096
MOST_ANNOTATION_CHARS = 1_024
_OUR_DOMAINS = ("elasticdeeplearning.ai/", "kubedl.io/", "kubeflow.org/", "paddlepaddle.org/")
_META = ("name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp")
_CONTAINER = ("name", "image", "command", "args", "resources", "ports")
_SECRETIVE = frozenset({"env", "envs", "envFrom", "imagePullSecrets", "volumes"})
"""Fields of kinds whose roles are not pod specs."""
GONE_AT = "historyGoneAt"
"""A field in the metadata of a kept pod: when its deletion was seen. Kubernetes has no such field."""
DELETION_AT = "historyDeletionAt"
"""Likewise: when its deletion was requested."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The row of a job in a list. Times are RFC 3339, '' if there is none."""

    resource: str
    namespace: str
    name: str
    uid: str
    kind: str = ""
    phase: str = ""
    created_at: str = ""
    ended_at: str = ""
    deleted_at: str = ""
    restarts: int = 0
    message: str = ""

    @property
    def at(self) -> str:
        """When the job was deleted, else when it ended; '' for a job that lives."""
        return self.deleted_at or self.ended_at

    def to_json(self) -> bytes:
        return orjson.dumps(asdict(self))


@dataclass(frozen=True, slots=True)
class Moment:
    """The beginning of a phase: when the watcher saw it."""

    at: str
    phase: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """Changes of one job, which a store adds to what it has. Writing an entry twice does no harm."""

    namespace: str
    uid: str
    summary: Summary | None
    """None if only pods have changed."""
    keep_until: float
    """Unix seconds. Without a summary, it applies only to a job that the store does not have yet."""
    job: Json | None = None
    """The kept part of the object; None if it has not changed."""
    pods: Mapping[str, Json] = field(default_factory=dict)
    """UID -> the kept part of a pod that has ended or was deleted."""
    moments: Sequence[Moment] = ()


@dataclass(frozen=True, slots=True)
class Story:
    """All that the history knows of one job."""

    summary: Summary
    job: Json
    """The kept part of the object, in the shape of the object; {} if the watcher never saw it."""
    pods: tuple[Json, ...] = ()
    """In the order of their creation."""
    moments: tuple[Moment, ...] = ()


def summary_of(resource: GroupResource, raw: Json, *, deleted_at: str = "") -> Summary:
    meta, status = mapping(raw.get("metadata")), seen_status(raw)
    phase = text(status.get("phase"))
    restarts = status.get("restarts")
    return Summary(
        resource=str(resource),
        namespace=text(meta.get("namespace")),
        name=text(meta.get("name")),
        uid=text(meta.get("uid")),
        kind=text(raw.get("kind")),
        phase=phase,
        created_at=text(meta.get("creationTimestamp")),
        ended_at=text(status.get("completionTime")) if phase in END_PHASES else "",
        deleted_at=deleted_at,
        # A client that may write the status can put any JSON value there.
        restarts=restarts if isinstance(restarts, int) else 0,
        message=text(status.get("message"))[:MOST_WORDS_CHARS],
    )


def read_summary(data: bytes) -> Summary | None:
    """The inverse of `Summary.to_json`; None for anything else, as other software may have written the store."""
    fields_ = read_object(data)
    known: dict[str, Any] = {name: fields_[name] for name in _SUMMARY_TYPES if name in fields_}
    if not all(isinstance(value, _SUMMARY_TYPES[name]) for name, value in known.items()):
        return None
    return Summary(**known) if {"resource", "namespace", "name", "uid"} <= known.keys() else None


_SUMMARY_TYPES: Mapping[str, type] = {f.name: int if f.name == "restarts" else str for f in fields(Summary)}


def read_object(data: bytes) -> Json:
    """A kept job or pod; {} for data that is not a JSON object."""
    try:
        found = orjson.loads(data)
    except orjson.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def kept_job(raw: Json) -> dict[str, Any]:
    """The kept part of a job, in the shape of the object. The parser of its kind can read it, unless the spec was left
    out."""
    meta = mapping(raw.get("metadata"))
    kept: dict[str, Any] = {name: meta[name] for name in (*_META, "labels") if name in meta}
    # The annotation of git-sync holds values of environment variables.
    annotations = {
        name: value
        for name, value in mapping(meta.get("annotations")).items()
        if name.startswith(_OUR_DOMAINS)
        and name != labels.ANNOTATION_GIT_SYNC
        and isinstance(value, str)
        and len(value) <= MOST_ANNOTATION_CHARS
    }
    if annotations:
        kept["annotations"] = annotations
    job = {
        "apiVersion": text(raw.get("apiVersion")),
        "kind": text(raw.get("kind")),
        "metadata": kept,
        "spec": _without_secrets(readable(raw.get("spec")) or {}),
        "status": _with_public_runtime(mapping(readable(raw.get("status")))),
    }
    # The status says how the job has ended; the spec is what may be large.
    return job if len(orjson.dumps(job)) <= MOST_JOB_BYTES else {**job, "spec": {}}


def _without_secrets(spec: Any) -> Any:
    if isinstance(spec, Mapping):
        # A pod spec: keep only its containers and what they run.
        if isinstance(spec.get("containers"), list):
            return {
                name: [_container(container) for container in spec[name] if isinstance(container, Mapping)]
                for name in ("containers", "initContainers")
                if isinstance(spec.get(name), list)
            }
        return {name: _without_secrets(value) for name, value in spec.items() if name not in _SECRETIVE}
    return [_without_secrets(value) for value in spec] if isinstance(spec, list) else spec


def _with_public_runtime(status: Json) -> Json:
    """The status of a TrainJob holds its runtime, which has environment variables and volumes as a spec has."""
    own = mapping(status.get(MEMORY))
    snapshot = own.get("snapshot")
    return {**status, MEMORY: {**own, "snapshot": _without_variables(snapshot)}} if snapshot else status


def _without_variables(value: Any) -> Any:
    # All else stays, mounts as well: the parser checks a runtime as a whole.
    if isinstance(value, Mapping):
        return {name: _without_variables(part) for name, part in value.items() if name not in _SECRETIVE}
    return [_without_variables(part) for part in value] if isinstance(value, list) else value


def _container(container: Json) -> dict[str, Any]:
    kept = {name: container[name] for name in _CONTAINER if name in container}
    for words in ("command", "args"):
        if len(orjson.dumps(kept.get(words))) > MOST_COMMAND_CHARS:
            kept[words] = ["(too long to be kept)"]
    return kept


def kept_pod(raw: Json, *, gone_at: str = "", deletion_at: str = "") -> dict[str, Any]:
    """The part of a pod that a chart of its life needs, in the shape of the object. `gone_at`: when its deletion was
    seen; `deletion_at`: when its deletion was requested, where the object does not say so. Both RFC 3339."""
    meta, status = mapping(raw.get("metadata")), mapping(raw.get("status"))
    marks = {name: value for name, value in mapping(meta.get("labels")).items() if name in labels.OURS}
    kept = {name: meta[name] for name in ("name", "namespace", "uid", "creationTimestamp") if name in meta}
    # The chart needs only when the pod got its node; the kubelet's other conditions change with each probe.
    conditions = [
        {name: condition[name] for name in ("type", "status", "lastTransitionTime") if name in condition}
        for condition in status.get("conditions") or ()
        if isinstance(condition, Mapping) and condition.get("type") == "PodScheduled"
    ]
    times = {
        name: time for name, time in ((GONE_AT, gone_at), (DELETION_AT, deletion_at or deletion_time(raw))) if time
    }
    return {
        "metadata": {**kept, "labels": marks, **times},
        "spec": {"nodeName": text(mapping(raw.get("spec")).get("nodeName"))},
        "status": {
            "phase": text(status.get("phase")),
            "reason": text(status.get("reason")),
            "message": text(status.get("message"))[:MOST_WORDS_CHARS],
            "conditions": conditions,
            "containerStatuses": [
                _container_status(one) for one in status.get("containerStatuses") or () if isinstance(one, Mapping)
            ],
        },
    }


def deletion_time(pod: Json) -> str:
    """When the deletion of a pod, kept or not, was requested, RFC 3339; '' if it was not."""
    meta = mapping(pod.get("metadata"))
    if kept := text(meta.get(DELETION_AT)):
        return kept
    deleted_at = unix_seconds(text(meta.get("deletionTimestamp")))
    grace_seconds = number(meta.get("deletionGracePeriodSeconds"))
    return "" if deleted_at is None else to_rfc3339(deletion_asked_at(deleted_at, grace_seconds))


_KILLED = frozenset({128 + 9, 128 + 15})
"""Exit codes of SIGKILL and SIGTERM."""


def ended_by_signal(terminated: Json) -> bool:
    """True if a container was killed, and not for its memory. `terminated`: that part of its state."""
    return terminated.get("exitCode") in _KILLED and terminated.get("reason") != "OOMKilled"


def was_killed(pod: Json) -> bool:
    """The pod ended because it was deleted: its programs ran until the deletion was requested. Times have whole
    seconds, and a pod that has failed is deleted at once: in that second the exit code decides."""
    requested = from_rfc3339(deletion_time(pod))
    statuses = mapping(pod.get("status")).get("containerStatuses") or ()
    ended = [mapping(mapping(mapping(one).get("state")).get("terminated")) for one in statuses]
    times = [(from_rfc3339(text(one.get("finishedAt"))), one) for one in ended if one]
    last = max((at for at, _ in times if at is not None), default=None)
    if requested is None or last is None or last < requested:
        return False
    return last > requested or all(ended_by_signal(one) for at, one in times if at == last)


def _container_status(status: Json) -> dict[str, Any]:
    state = {
        name: {field_: value for field_, value in mapping(details).items() if field_ in _STATE}
        for name, details in mapping(status.get("state")).items()
    }
    return {"name": text(status.get("name")), "restartCount": status.get("restartCount") or 0, "state": state}


_STATE = ("startedAt", "finishedAt", "exitCode", "reason", "signal")


def by_creation(pods: Sequence[Json]) -> tuple[Json, ...]:
    """The pods in the order of their creation, then of their names."""

    def key(pod: Json) -> tuple[str, str]:
        meta = mapping(pod.get("metadata"))
        # RFC 3339 in UTC sorts as text.
        return text(meta.get("creationTimestamp")), text(meta.get("name"))

    return tuple(sorted(pods, key=key))
