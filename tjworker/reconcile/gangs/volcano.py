"""Volcano: `scheduling.volcano.sh/v1beta1` PodGroup, which pods name in an annotation. Pure.

The fields are those of volcano.sh/apis (pkg/apis/scheduling/v1beta1): minMember, queue, priorityClassName,
minResources. Without a queue, Volcano uses `default`.
"""

from __future__ import annotations

from tjworker.api.model import TrainingJob
from tjworker.api.podgroups import GROUP_ANNOTATION
from tjworker.api.resources import VOLCANO_POD_GROUPS
from tjworker.base import JsonDict
from tjworker.reconcile.gangs.gang import Gang, queue_of


def _spec(job: TrainingJob, size: int) -> JsonDict:
    optional = {
        "queue": queue_of(job),
        "priorityClassName": job.gang.priority_class or job.priority_class,
        "minResources": dict(job.gang.min_resources),
    }
    return {"minMember": size, **{name: value for name, value in optional.items() if value}}


def _join(metadata: JsonDict, spec: JsonDict, group: str) -> None:
    metadata["annotations"] = {GROUP_ANNOTATION: group, **metadata.get("annotations", {})}


VOLCANO = Gang(
    resource=VOLCANO_POD_GROUPS,
    api_version="scheduling.volcano.sh/v1beta1",
    scheduler_name="volcano",
    needs="Volcano (its CRD podgroups.scheduling.volcano.sh)",
    spec=_spec,
    join=_join,
    acts_on=frozenset({"queue", "priorityClass", "minResources"}),
    resize=lambda size: {"minMember": size},
)
