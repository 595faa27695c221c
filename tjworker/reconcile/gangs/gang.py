"""What differs from one gang scheduler to another: the PodGroup it reads, and how a pod says that it belongs to one.
Pure data and functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

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


def asked(job: TrainingJob) -> Iterator[str]:
    """What a job asks of a gang scheduler beside the number, by the name of the field that says so."""
    policy = job.gang
    fields: Mapping[str, object] = {
        "queue": queue_of(job),
        "priorityClass": policy.priority_class,
        "minResources": policy.min_resources,
        "scheduleTimeoutSeconds": policy.schedule_timeout_seconds,
    }
    return (name for name, value in fields.items() if value not in ("", None, {}))
