"""What differs from one gang scheduler to another: the PodGroup it reads, and how a pod says that it belongs to one.
Pure data and functions."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from tjworker.api.model import TrainingJob
from tjworker.api.podgroups import QUEUE_ANNOTATION
from tjworker.base import GroupResource

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Gang:
    resource: GroupResource
    api_version: str
    scheduler_name: str
    """As it calls itself by default: the pods' `schedulerName`; '' where that is the cluster's default."""
    needs: str
    """What the cluster must have, for messages."""
    spec: Callable[[TrainingJob, int], Json]
    """(job, how many pods start together) -> the PodGroup's spec."""
    join: Callable[[Json, Json, str], None]
    """(metadata, spec, group): makes a pod or template a member."""
    acts_on: frozenset[str]
    """Fields of the job's scheduling policy, by the names of `asked`, that this scheduler knows."""
    resize: Callable[[int], Json] | None = None
    """The change of a PodGroup's spec to another number; None where the spec cannot be changed."""


@dataclass(frozen=True, slots=True)
class Membership:
    """Of the pods that a pass makes."""

    gang: Gang
    group: str
    """Name of the PodGroup; '' for pods that are scheduled by themselves."""
    scheduler_name: str


def queue_of(job: TrainingJob) -> str:
    """As its scheduling policy says, else the annotation that Volcano's users write."""
    return job.gang.queue or job.annotations.get(QUEUE_ANNOTATION, "")


def asked(job: TrainingJob) -> dict[str, Any]:
    """What a job asks of a gang scheduler beside the number, by the name of the field that says so."""
    policy = job.gang
    fields: Mapping[str, object] = {
        "queue": queue_of(job),
        "priorityClass": policy.priority_class,
        "minResources": policy.min_resources,
        "scheduleTimeoutSeconds": policy.schedule_timeout_seconds,
    }
    return {name: value for name, value in fields.items() if value not in ("", None, {})}


def asked_of(gang: Gang, job: TrainingJob) -> str:
    """That of it which this scheduler acts on, as JSON."""
    return json.dumps({name: value for name, value in asked(job).items() if name in gang.acts_on}, sort_keys=True)


def edited_spec(gang: Gang, job: TrainingJob, size: int, before: str) -> Json:
    """The merge patch of the spec of a group that was asked for `before`: null takes back what is asked for no more."""
    was, now, spec = _read(before), asked(job), gang.spec(job, size)
    for name in sorted(gang.acts_on & was.keys() - now.keys()):
        spec.setdefault(_SPEC_FIELDS.get(name, name), None)
    if spec.get("minResources"):
        spec["minResources"] = {**dict.fromkeys(_mapping(was.get("minResources"))), **spec["minResources"]}
    return spec


_SPEC_FIELDS = {"priorityClass": "priorityClassName"}
"""Of a PodGroup, where they have another name than in the job's policy."""


def _read(text: str) -> Mapping[str, Any]:
    """An annotation, in which anything may stand."""
    try:
        return _mapping(orjson.loads(text))
    except orjson.JSONDecodeError:
        return {}


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
