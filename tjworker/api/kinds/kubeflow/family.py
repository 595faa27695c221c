"""What Kubeflow's job kinds share: group, labels, run policy, and the shape of their status. Pure."""

from __future__ import annotations

from pydantic import Field

from tjworker.api import labels, naming
from tjworker.api.kinds.base import Json, mapping
from tjworker.api.kinds.guests.shape import Family
from tjworker.api.kinds.guests.status import AGE, MESSAGE, STATE, GuestReplicaStatus, GuestStatus, Style
from tjworker.api.kinds.kubeflow.spec import OWN_CONTROLLERS, KubeflowSpec, RunPolicy
from tjworker.api.model import LabelsOfGuest, Role, TrainingJob
from tjworker.api.status import ReplicaStatus


class KubeflowReplicaStatus(GuestReplicaStatus):
    """How the pods of one role stand."""

    selector: str | None = Field(None, description="label selector of the role's pods")


class KubeflowStatus(GuestStatus):
    """How the job stands, as training-operator tells it."""

    replica_statuses: dict[str, KubeflowReplicaStatus] = Field(default_factory=dict, description="pods of each role")


def _run_policy(spec: KubeflowSpec) -> RunPolicy:
    return spec.run_policy or RunPolicy()


def _selector(job: TrainingJob, role: Role, counts: ReplicaStatus) -> dict[str, object]:
    return {"selector": naming.selector(labels.of_guest(job, naming.role_labels(job, role.name)))}


def _is_for_another(raw: Json) -> bool:
    manager = mapping(mapping(raw.get("spec")).get("runPolicy")).get("managedBy")
    return isinstance(manager, str) and manager not in OWN_CONTROLLERS


KUBEFLOW = Family(
    name="Kubeflow",
    group="kubeflow.org",
    version="v1",
    run_policy_path=("spec", "runPolicy"),
    run_policy=_run_policy,
    # training-operator's controller of a kind calls itself so.
    labels=lambda kind: LabelsOfGuest(labels.KUBEFLOW, f"{kind.lower()}-controller"),
    status_model=KubeflowStatus,
    style=Style(
        reasons=lambda kind: kind,
        calls=lambda job: f"{job.kind} {job.name.namespace}/{job.name.name}",
        more_of_role=_selector,
    ),
    columns=(STATE, AGE, MESSAGE),
    scale_paths=(".status.replicaStatuses.Worker.active", ".status.replicaStatuses.Worker.selector"),
    is_for_another=_is_for_another,
    # `ReconcileJobs` of common/job.go calls DeletePodsAndServices before the job has its condition Failed, and then
    # that function ignores cleanPodPolicy.
    limit_clean_policy="All",
    # `ReconcilePods` of common/pod.go: 0xbeef, at least 128, stands in for an exit code that is not there.
    retries_unknown_exit=True,
    known_to_kueue=True,
)
