"""Annotations on the job that end it: Preempted, Failed, NodeFail (seed 002). The value is the message. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from tjworker.api import labels
from tjworker.api.status import Ending

_ENDS: tuple[tuple[str, Literal["Preempted", "Failed", "NodeFail"]], ...] = (
    (labels.ANNOTATION_PREEMPTED, "Preempted"),
    (labels.ANNOTATION_FAILED, "Failed"),
    (labels.ANNOTATION_NODE_FAIL, "NodeFail"),
)


def decide_annotations(annotations: Mapping[str, str], now: str) -> Ending | None:
    for name, phase in _ENDS:
        if name in annotations:
            message = str(annotations[name])[:1024] or f"annotation {name} was set on the job"
            return Ending(phase=phase, reason=f"Annotation{phase}", message=message, time=now)
    return None
