"""Annotations that end the job: Preempted, Failed, NodeFail, as in trainingjob-operator. The value is the message.
Pure."""

from __future__ import annotations

from tjworker.api import labels
from tjworker.api.status import EndPhase
from tjworker.reconcile.one_pass import Pass
from tjworker.reconcile.policies.late_failures import count_late_failures

_ENDS: tuple[tuple[str, EndPhase], ...] = (
    (labels.ANNOTATION_PREEMPTED, "Preempted"),
    (labels.ANNOTATION_FAILED, "Failed"),
    (labels.ANNOTATION_NODE_FAIL, "NodeFail"),
)


def end_by_annotation(p: Pass) -> Pass:
    for name, phase in _ENDS:
        if name in p.job.annotations:
            message = str(p.job.annotations[name])[:1024] or f"annotation {name} was set on the job"
            return count_late_failures(p).end_with(phase, f"Annotation{phase}", message)
    return p
