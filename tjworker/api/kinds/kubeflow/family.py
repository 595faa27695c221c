"""The base class of Kubeflow's job kinds: group, labels, run policy, and the form of their status. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from pydantic import Field

from tjworker.api import labels, naming
from tjworker.api.kinds.base import Parsed
from tjworker.api.kinds.guests.kind import GuestKind
from tjworker.api.kinds.guests.mpipods import LAUNCHER
from tjworker.api.kinds.guests.parse import parse
from tjworker.api.kinds.guests.status import (
    AGE,
    MESSAGE,
    RESUMED,
    STATE,
    GuestReplicaStatus,
    GuestStatus,
    Style,
    default_texts,
)
from tjworker.api.kinds.kubeflow.spec import OWN_CONTROLLERS, KubeflowSpec, RunPolicy
from tjworker.api.model import LabelsOfGuest, Role, TrainingJob
from tjworker.api.status import ReplicaStatus
from tjworker.base import Json, mapping


class KubeflowReplicaStatus(GuestReplicaStatus):
    """Pods of one role by state."""

    selector: str | None = Field(None, description="label selector of the role's pods")


class KubeflowStatus(GuestStatus):
    """State of the job, as training-operator reports it."""

    replica_statuses: dict[str, KubeflowReplicaStatus] = Field(default_factory=dict, description="pods of each role")


class KubeflowStyle(Style):
    """The form that training-operator 1.9 and the MPI operator 0.6 write."""

    def reason_prefix(self, kind: str) -> str:
        return kind

    def texts(self, job: Parsed) -> Mapping[str, str]:
        """The messages of `UpdateJobStatus` in each controller of training-operator 1.9, and of the MPI operator 0.6
        for an MPIJob of v2beta1. Some have the job's namespace."""
        short, long = (
            default_texts(job.kind, job.name.name),
            default_texts(job.kind, f"{job.name.namespace}/{job.name.name}"),
        )
        done = {"Succeeded": f"{job.kind} {job.name.namespace}/{job.name.name} successfully completed."}
        launch, roles = (job.mpi, {role.name for role in job.roles}) if isinstance(job, TrainingJob) else (None, set())
        if launch is not None and not launch.agent:
            return {**long, **done, "Suspended": "MPIJob suspended", RESUMED: "MPIJob resumed"}
        if job.kind == "XGBoostJob" or (job.kind in ("PyTorchJob", "PaddleJob") and "Master" in roles):
            return short
        return {**short, **done, "Running": long["Running"]}

    def more_of_role(self, job: TrainingJob, role: Role, counts: ReplicaStatus) -> dict[str, object]:
        # An HPA finds the pods whose metrics it reads by this selector, through the scale subresource.
        return {"selector": naming.selector(labels.of_guest(job, naming.role_labels(job, role.name)))}

    def is_uncounted_at_the_end(self, job: TrainingJob, role: Role) -> bool:
        """True for the workers of an MPIJob: mpi-operator's `updateMPIJobStatus` and training-operator's do not look
        them up after the launcher has ended."""
        return job.mpi is not None and role.name != LAUNCHER


K = TypeVar("K", bound=KubeflowSpec)


class KubeflowKind(GuestKind[K]):
    group = "kubeflow.org"
    versions: tuple[str, ...] = ("v1",)
    suspend_path = ("spec", "runPolicy", "suspend")
    status_model = KubeflowStatus
    style = KubeflowStyle()
    columns = (STATE, AGE, MESSAGE)
    # The paths of training-operator's CRDs: an HPA of a job keeps working.
    scale_paths = (".status.replicaStatuses.Worker.active", ".status.replicaStatuses.Worker.selector")
    # `ReconcileJobs` of common/job.go calls DeletePodsAndServices before the job has its condition Failed, and then
    # that function ignores cleanPodPolicy.
    limit_clean_policy = "All"
    # `ReconcilePods` of common/pod.go replaces a missing exit code by 0xbeef, which is at least 128.
    retries_unknown_exit = True
    # Kueue has an integration for each of the six kinds (ADR 36).
    known_to_kueue = True

    def parse(self, raw: Json) -> Parsed:
        return parse(self, raw)

    def run_fields(self, spec: K) -> RunPolicy:
        return spec.run_policy or RunPolicy()

    def labels(self) -> LabelsOfGuest:
        # The name of training-operator's controller of the kind.
        return LabelsOfGuest(labels.KUBEFLOW, f"{self.kind.lower()}-controller")

    def is_for_another(self, raw: Json) -> bool:
        manager = mapping(mapping(raw.get("spec")).get("runPolicy")).get("managedBy")
        return isinstance(manager, str) and manager not in OWN_CONTROLLERS
