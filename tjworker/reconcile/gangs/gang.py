"""The differences between gang schedulers: the PodGroup that each reads, and how a pod becomes a member of it. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from tjworker.api.model import TrainingJob
from tjworker.api.podgroups import QUEUE_ANNOTATION
from tjworker.base import GroupResource, JsonDict, mapping


@dataclass(frozen=True, slots=True)
class Gang:
    resource: GroupResource
    api_version: str
    scheduler_name: str
    """Its default name, for the pods' `schedulerName`; '' if it is the cluster's default scheduler."""
    needs: str
    """For messages, what the cluster must have."""
    spec: Callable[[TrainingJob, int], JsonDict]
    """(job, how many pods start together) -> the PodGroup's spec."""
    join: Callable[[JsonDict, JsonDict, str], None]
    """(metadata, spec, group): makes a pod or template a member of the group, in place."""
    acts_on: frozenset[str]
    """Fields of the job's scheduling policy, by the names of `asked`, that this scheduler knows."""
    resize: Callable[[int], JsonDict] | None = None
    """(number of pods) -> the change of a PodGroup's spec; None if the spec cannot be changed."""


@dataclass(frozen=True, slots=True)
class Membership:
    """The gang that the pods of a pass join."""

    gang: Gang
    group: str
    """Name of the PodGroup; '' for pods that are scheduled alone."""
    scheduler_name: str


def queue_of(job: TrainingJob) -> str:
    """The queue of the job's scheduling policy, else of Volcano's annotation."""
    return job.gang.queue or job.annotations.get(QUEUE_ANNOTATION, "")


def asked(job: TrainingJob) -> dict[str, Any]:
    """The settings of the job for a gang scheduler except the number of pods, by field name."""
    policy = job.gang
    fields: Mapping[str, object] = {
        "queue": queue_of(job),
        "priorityClass": policy.priority_class,
        "minResources": policy.min_resources,
        "scheduleTimeoutSeconds": policy.schedule_timeout_seconds,
    }
    return {name: value for name, value in fields.items() if value not in ("", None, {})}


def asked_of(gang: Gang, job: TrainingJob) -> str:
    """The part of `asked` that this scheduler uses, as JSON."""
    return json.dumps({name: value for name, value in asked(job).items() if name in gang.acts_on}, sort_keys=True)


def edited_spec(gang: Gang, job: TrainingJob, size: int, before: str) -> JsonDict:
    """The merge patch for a group's spec. `before`: its `asked_of` until now. null removes fields that are gone."""
    was, now, spec = _read(before), asked(job), gang.spec(job, size)
    for name in sorted(gang.acts_on & was.keys() - now.keys()):
        spec.setdefault(_SPEC_FIELDS.get(name, name), None)
    if spec.get("minResources"):
        spec["minResources"] = {**dict.fromkeys(mapping(was.get("minResources"))), **spec["minResources"]}
    return spec


_SPEC_FIELDS = {"priorityClass": "priorityClassName"}
"""Fields with another name in a PodGroup than in the job's policy."""


def _read(text: str) -> Mapping[str, Any]:
    """The object in an annotation; {} if it is none. A user may have changed it."""
    try:
        return mapping(orjson.loads(text))
    except orjson.JSONDecodeError:
        return {}
