"""The base class of KubeDL's job kinds: group, labels, run policy, and the form of their status. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import Field

from tjworker.api.kinds.base import Parsed
from tjworker.api.kinds.guests.kind import GuestKind, S
from tjworker.api.kinds.guests.parse import parse
from tjworker.api.kinds.guests.status import AGE, MESSAGE, STATE, GuestReplicaStatus, GuestStatus, Style, default_texts
from tjworker.api.kinds.kubedl.spec import KubeDLRunPolicy
from tjworker.api.labels import KUBEDL as PREFIX
from tjworker.api.model import LabelsOfGuest, Role, TrainingJob
from tjworker.api.status import ReplicaStatus
from tjworker.base import Json


class KubeDLReplicaStatus(GuestReplicaStatus):
    """Pods of one role by state."""

    evicted: int | None = Field(None, ge=0, description="failed pods that were evicted")


class KubeDLStatus(GuestStatus):
    """State of the job, as KubeDL reports it."""

    replica_statuses: dict[str, KubeDLReplicaStatus] = Field(default_factory=dict, description="pods of each role")


class KubeDLStyle(Style):
    def reason_prefix(self, kind: str) -> str:
        return "Job"

    def texts(self, job: Parsed) -> Mapping[str, str]:
        texts = default_texts(job.kind, job.name.name)
        # KubeDL's TFJob controller writes this message without the "is" of its other controllers.
        return texts | {"Succeeded": f"TFJob {job.name.name} successfully completed."} if job.kind == "TFJob" else texts

    def more_of_role(self, job: TrainingJob, role: Role, counts: ReplicaStatus) -> dict[str, object]:
        return {"evicted": counts.evicted}


def columns(run_policy_path: tuple[str, ...]) -> tuple[dict[str, Any], ...]:
    # For an MPIJob, KubeDL's own columns show fields of the spec that have no effect, hence the path.
    policy = ".".join(("", *run_policy_path))
    limits = {"Max-Lifetime": "activeDeadlineSeconds", "TTL-After-Finished": "ttlSecondsAfterFinished"}
    shown = ({"name": name, "type": "integer", "jsonPath": f"{policy}.{field}"} for name, field in limits.items())
    return (STATE, AGE, *shown, MESSAGE)


class KubeDLKind(GuestKind[S]):
    group = "training.kubedl.io"
    versions = ("v1alpha1",)
    status_model = KubeDLStatus
    style = KubeDLStyle()
    # `reconcileOnePod` of job_controller/pod.go: a pod fails over where it is Failed or its main container has ended.
    exit_code_of_running = True
    # KubeDL has no scale subresource, and its status no selector.
    scale_paths = (".status.operator.replicas", ".status.operator.selector")
    # By default KubeDL puts all pods of a role on the same node, unless annotations for affinity change that. Here no
    # affinity is added: a role that is larger than a node would never run.
    ignored_annotations = tuple(
        f"{PREFIX}/{name}"
        for name in ("enable-elastic-training", "pod-affinity-strategy", "pod-batch-size", "pod-topology-key")
    )

    def parse(self, raw: Json) -> Parsed:
        return parse(self, raw)

    def labels(self) -> LabelsOfGuest:
        # KubeDL's labels have no prefix. Every pod has them here anyway.
        return LabelsOfGuest("")


D = TypeVar("D", bound=KubeDLRunPolicy)


class RunPolicyInSpec(KubeDLKind[D]):
    """A kind with the fields of the run policy in the spec itself: all kinds but MPIJob."""

    run_policy_path = ("spec",)
    columns = columns(("spec",))

    def run_fields(self, spec: D) -> KubeDLRunPolicy:
        return spec
