"""PodGroups of the three gang schedulers: the group of a pod, and the record of a group. Pure.

Kubernetes' own (`scheduling.k8s.io`): `spec.schedulingGroup` of the pod; of the group `spec.schedulingPolicy.gang`.
Volcano: an annotation, `spec.minMember`. The scheduler-plugins' coscheduling: a label, `spec.minMember`.
"""

from __future__ import annotations

from collections.abc import Mapping

from tjworker.api.labels import of_object
from tjworker.api.observed import PodGroupRecord
from tjworker.api.timefmt import deletion_seconds
from tjworker.base import Json

GROUP_ANNOTATION = "scheduling.k8s.io/group-name"
"""Volcano's, and kube-batch's before it."""
GROUP_LABEL = "scheduling.x-k8s.io/pod-group"
QUEUE_ANNOTATION = "scheduling.volcano.sh/queue-name"
ASKED_ANNOTATION = "elasticdeeplearning.ai/scheduling-policy"
"""On a group that the operator created: the job's scheduling policy at that time. It distinguishes a later edit of the
job from values that the scheduler's webhooks and defaults set."""
MESSAGE_CHARS = 512
_WAITS = frozenset({("PodGroupScheduled", "False"), ("Unschedulable", "True")})
"""Conditions whose message says why a group waits: Kubernetes' own if it is False, Volcano's if it is True."""


def pod_group_of(meta: Json, spec: Json) -> str:
    """The name of the PodGroup that a pod, or a template, belongs to; '' for none."""
    own = spec.get("schedulingGroup")
    labels, annotations = meta.get("labels"), meta.get("annotations")
    found = (
        own.get("podGroupName") if isinstance(own, Mapping) else None,
        annotations.get(GROUP_ANNOTATION) if isinstance(annotations, Mapping) else None,
        labels.get(GROUP_LABEL) if isinstance(labels, Mapping) else None,
    )
    # Kubernetes' own field goes first: the others may have come with a copied template.
    return next((name for name in found if isinstance(name, str) and name), "")


def pod_group_record(obj: Json, meta: Json, owner_uid: str) -> PodGroupRecord:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    gang = (spec.get("schedulingPolicy") or {}).get("gang") or {}
    return PodGroupRecord(
        name=meta["name"],
        uid=meta["uid"],
        rv=int(meta["resourceVersion"]),
        owner_uid=owner_uid,
        labels=of_object(meta),
        # Each scheduler has one of these fields.
        size=gang.get("minCount") or spec.get("minMember") or 0,
        scheduler_message=_why_it_waits(status),
        asked=(meta.get("annotations") or {}).get(ASKED_ANNOTATION) or "",
        deleted_at=deletion_seconds(meta),
    )


def _why_it_waits(status: Json) -> str:
    newest = ""
    # The last condition counts: Volcano leaves older ones in the list.
    for condition in status.get("conditions") or ():
        state = condition.get("type"), condition.get("status")
        if state in _WAITS:
            newest = (condition.get("message") or condition.get("reason") or "")[:MESSAGE_CHARS]
        elif state == ("Scheduled", "True"):
            newest = ""  # Volcano keeps the older condition in the list
    return newest
