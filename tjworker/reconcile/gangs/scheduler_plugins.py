"""The scheduler-plugins' coscheduling: `scheduling.x-k8s.io/v1alpha1` PodGroup, which pods name in a label. Pure.

The fields are those of sigs.k8s.io/scheduler-plugins (apis/scheduling/v1alpha1): minMember, minResources,
scheduleTimeoutSeconds. It has neither queues nor a group's priority: the pods' own priority counts.
"""

from __future__ import annotations

from tjworker.api.model import TrainingJob
from tjworker.api.podgroups import GROUP_LABEL
from tjworker.api.resources import COSCHEDULING_POD_GROUPS
from tjworker.base import JsonDict
from tjworker.reconcile.gangs.gang import Gang


def _spec(job: TrainingJob, size: int) -> JsonDict:
    spec: JsonDict = {"minMember": size}
    if job.gang.min_resources:
        spec["minResources"] = dict(job.gang.min_resources)
    if job.gang.schedule_timeout_seconds is not None:
        spec["scheduleTimeoutSeconds"] = job.gang.schedule_timeout_seconds
    return spec


def _join(metadata: JsonDict, spec: JsonDict, group: str) -> None:
    metadata["labels"] = {GROUP_LABEL: group, **metadata["labels"]}


SCHEDULER_PLUGINS = Gang(
    resource=COSCHEDULING_POD_GROUPS,
    api_version="scheduling.x-k8s.io/v1alpha1",
    scheduler_name="scheduler-plugins-scheduler",
    needs="the scheduler-plugins (their CRD podgroups.scheduling.x-k8s.io)",
    spec=_spec,
    join=_join,
    acts_on=frozenset({"priorityClass", "minResources", "scheduleTimeoutSeconds"}),
    resize=lambda size: {"minMember": size},
)
