"""What KubeDL's job kinds share: group, labels, run policy, and the shape of their status. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from tjworker.api.kinds.base import Parsed
from tjworker.api.kinds.guests.shape import Family
from tjworker.api.kinds.guests.status import AGE, MESSAGE, STATE, GuestReplicaStatus, GuestStatus, Style, called
from tjworker.api.labels import KUBEDL as PREFIX
from tjworker.api.model import LabelsOfGuest, Role, TrainingJob
from tjworker.api.status import ReplicaStatus


class KubeDLReplicaStatus(GuestReplicaStatus):
    """How the pods of one role stand."""

    evicted: int | None = Field(None, ge=0, description="failed pods that were evicted")


class KubeDLStatus(GuestStatus):
    """State of the job, as KubeDL reports it."""

    replica_statuses: dict[str, KubeDLReplicaStatus] = Field(default_factory=dict, description="pods of each role")


def _evicted(job: TrainingJob, role: Role, counts: ReplicaStatus) -> dict[str, object]:
    return {"evicted": counts.evicted}


def _texts(job: Parsed) -> Mapping[str, str]:
    texts = called(job.kind, job.name.name)
    return texts | {"Succeeded": f"TFJob {job.name.name} successfully completed."} if job.kind == "TFJob" else texts


def columns(run_policy_path: tuple[str, ...]) -> tuple[dict[str, Any], ...]:
    policy = ".".join(("", *run_policy_path))
    limits = {"Max-Lifetime": "activeDeadlineSeconds", "TTL-After-Finished": "ttlSecondsAfterFinished"}
    shown = ({"name": name, "type": "integer", "jsonPath": f"{policy}.{field}"} for name, field in limits.items())
    return (STATE, AGE, *shown, MESSAGE)


KUBEDL = Family(
    name="KubeDL",
    group="training.kubedl.io",
    version="v1alpha1",
    run_policy_path=("spec",),
    run_policy=lambda spec: spec,
    labels=lambda kind: LabelsOfGuest(""),
    status_model=KubeDLStatus,
    style=Style(reasons=lambda kind: "Job", texts=_texts, more_of_role=_evicted),
    columns=columns(("spec",)),
    # `reconcileOnePod` of job_controller/pod.go: a pod fails over where it is Failed or its main container has ended.
    exit_code_of_running=True,
    # KubeDL has no scale subresource, and its status no selector.
    scale_paths=(".status.operator.replicas", ".status.operator.selector"),
    ignored_annotations=tuple(
        f"{PREFIX}/{name}"
        for name in ("enable-elastic-training", "pod-affinity-strategy", "pod-batch-size", "pod-topology-key")
    ),
)
