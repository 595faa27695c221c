"""What the watcher projects and reconcile reads: the few facts of each object that a decision needs.

Pure data, shared by `watcher.projection` (writes) and `tjworker.reconcile` (reads). Never here: managedFields, values
of environment variables, Secrets. Each record encodes to compact JSON and decodes to an equal record. Times are whole
Unix seconds, as metav1.Time has no fractions; None if there is no such time, or it cannot be read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tjworker.api.needs import ChildNow
from tjworker.api.resources import ALL_POD_GROUPS, BATCH_JOBS, NODES, PODS, REPLICASETS, SERVICES
from tjworker.base import GroupResource

ContainerState = Literal["waiting", "running", "terminated"]
ENDED_PHASES = frozenset({"Succeeded", "Failed"})
"""Phases of a pod that will never run again."""
CONTAINER_STATUS_UNKNOWN = "ContainerStatusUnknown"
"""Reason that the kubelet gives for a container that its runtime no longer knows."""
EVICTED = "Evicted"
"""Reason of a pod that its kubelet evicted."""
TAINTED = "DeletionByTaintManager"
"""Reason of the condition DisruptionTarget of a pod that does not tolerate a taint NoExecute of its node."""
BY_KUBELET = "TerminationByKubelet"
"""Reason of the condition DisruptionTarget of a pod that its kubelet ends: to evict it, to shut the node down, or to
make room for a critical pod. A pod whose program ended first has no such condition (docs/internals/kubelet.md)."""


@dataclass(frozen=True, slots=True)
class ContainerRecord:
    """One entry of a pod's containerStatuses (`init` for initContainerStatuses)."""

    name: str
    state: ContainerState = "waiting"
    reason: str = ""
    message: str = ""
    exit_code: int | None = None
    signal: int = 0
    restarts: int = 0
    ready: bool = False
    started_at: int | None = None
    finished_at: int | None = None
    init: bool = False
    unhealthy_devices: tuple[str, ...] = ()
    """Ids out of allocatedResourcesStatus whose health is Unhealthy."""


@dataclass(frozen=True, slots=True)
class PodRecord:
    name: str
    uid: str
    rv: int
    owner_uid: str = ""
    """UID of the controlling owner reference; '' when there is none."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Only the operator's own labels (`api.labels`)."""
    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    node: str = ""
    created_at: int | None = None
    deleted_at: int | None = None
    """metadata.deletionTimestamp; None unless the object is being deleted."""
    deletion_asked_at: int | None = None
    """When the deletion was requested first: `deleted_at` minus the grace period, which Kubernetes adds."""
    deletion_grace_seconds: int = 0
    """The grace period granted now. 0 if the kubelet has confirmed the deletion, or a client forces it."""
    was_told_to_go: bool = False
    """True if the pod had not ended when its deletion was requested. Then the API server granted it a grace period,
    which an ended pod does not get (`podStrategy.CheckGracefulDelete`)."""
    uncounted: bool = False
    """True while the finalizer of its batch Job holds it: the Job's status does not count its end yet."""
    started_at: int | None = None
    ready: bool = False
    scheduled: bool = False
    scheduled_at: int | None = None
    """lastTransitionTime of the condition PodScheduled, once it is True: the API server's clock."""
    unschedulable: str = ""
    """The scheduler's message while PodScheduled is False, else ''."""
    disruption: str = ""
    """Reason of a true DisruptionTarget condition: EvictionByEvictionAPI, PreemptionByScheduler,
    DeletionByTaintManager, DeletionByPodGC, TerminationByKubelet; else ''."""
    disruption_message: str = ""
    containers: tuple[ContainerRecord, ...] = ()
    gpus: Mapping[str, int] = field(default_factory=dict)
    """Extended resources the pod holds, by name (limits)."""
    pod_group: str = ""
    """Name of its PodGroup, of any gang scheduler."""
    requests: Mapping[str, int] = field(default_factory=dict)
    """Its resources on the node, as the scheduler counts them: cpu in thousandths, memory in bytes, extended resources
    in pieces. Includes what a LimitRange, a sidecar or a webhook added. Empty in an older watcher's record."""
    priority: int = 0
    """spec.priority, which admission sets from its PriorityClass."""
    lost: str = ""
    """Why the pod is lost with its node. `reconcile.nodes` sets it; the watcher leaves it empty."""
    node_ill: str = ""
    """Why the node of a pod that is deleted for a taint is ill, perhaps briefly. Set by `reconcile.nodes`."""
    gpu_fault: str = ""
    """Why one of its GPUs counts as faulty. Set by `reconcile.nodes`."""

    @property
    def placed_at(self) -> int | None:
        """When the pod got its node, perhaps hours after its creation. A pod that names its node itself lacks the
        scheduler's condition; then it is `startTime`, by the kubelet's clock, which may be behind."""
        if self.scheduled_at is not None:
            return self.scheduled_at
        return max((at for at in (self.started_at, self.created_at) if at is not None), default=None)

    @property
    def never_started(self) -> bool:
        """True if none of its containers has run. A pod that lists no containers never started."""
        return all(c.state == "waiting" for c in self.containers)


@dataclass(frozen=True, slots=True)
class ServiceRecord:
    name: str
    uid: str
    rv: int
    owner_uid: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    ports: tuple[int, ...] = ()
    deleted_at: int | None = None


@dataclass(frozen=True, slots=True)
class WorkloadRecord:
    """A ReplicaSet or a batch Job that manages the pods of a role."""

    name: str
    uid: str
    rv: int
    owner_uid: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    desired: int = 0
    """ReplicaSet spec.replicas; Job spec.parallelism."""
    ready: int = 0
    active: int = 0
    succeeded: int = 0
    failed: int = 0
    generation: int = 0
    observed_generation: int = 0
    condition: str = ""
    """Type of the true terminal condition of a Job (Complete, Failed), '' while there is none."""
    completed_at: int | None = None
    """When a Job became Complete; None while it is not."""
    reason: str = ""
    """Reason of that condition; for a ReplicaSet, `FailedCreate` while the API server refuses its pods."""
    message: str = ""
    deleted_at: int | None = None


@dataclass(frozen=True, slots=True)
class PodGroupRecord:
    name: str
    uid: str
    rv: int
    owner_uid: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    size: int = 0
    """How many pods start together or not at all."""
    scheduler_message: str = ""
    """Why its pods do not start yet."""
    asked: str = ""
    """The job's scheduling policy without the number, as JSON; '' if the operator's annotation is missing."""
    deleted_at: int | None = None


@dataclass(frozen=True, slots=True)
class NodeRecord:
    name: str
    uid: str
    rv: int
    ready: Literal["True", "False", "Unknown"] = "Unknown"
    ready_since: int | None = None
    """lastTransitionTime of the Ready condition."""
    reason: str = ""
    unschedulable: bool = False
    unreachable_since: int | None = None
    """timeAdded of the taint node.kubernetes.io/unreachable; None without it."""
    conditions: Mapping[str, str] = field(default_factory=dict)
    """Other conditions that are True: type -> message."""
    condition_since: Mapping[str, int] = field(default_factory=dict)
    """Times since which those conditions are True: type -> time."""
    allocatable: Mapping[str, str] = field(default_factory=dict)
    """cpu, memory, pods and extended resources, as quantities."""
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[tuple[str, str, str], ...] = ()
    """Key, value and effect of the taints that keep new pods away (NoSchedule, NoExecute)."""


@dataclass(frozen=True, slots=True)
class Observed:
    """The cluster as the projection shows it, for one job. Tuples are sorted by name."""

    pods: tuple[PodRecord, ...] = ()
    services: tuple[ServiceRecord, ...] = ()
    replicasets: tuple[WorkloadRecord, ...] = ()
    jobs: tuple[WorkloadRecord, ...] = ()
    pod_groups: Mapping[GroupResource, tuple[PodGroupRecord, ...]] = field(default_factory=dict)
    """By gang scheduler. There may be records of a scheduler that the setting no longer chooses."""
    nodes: Mapping[str, NodeRecord] = field(default_factory=dict)
    """Nodes that hold a pod of this job, by name; a node that is gone has no entry."""
    every_node: Mapping[str, NodeRecord] | None = None
    """All nodes of the cluster, if this pass needed them (`EveryNode`)."""
    nodes_now: Mapping[str, NodeRecord | None] = field(default_factory=dict)
    """The API server's answers in this pass for nodes (`NodeNow`); None: the node does not exist."""
    confirmed: frozenset[ChildNow] = frozenset()
    """Children above that the API server confirmed in this pass, existing or not."""
    seen: Mapping[GroupResource, int] = field(default_factory=dict)
    """Newest resourceVersion that the watch has shown, by resource."""
    untouched: bool = False
    """The operator has written nothing for this job, as far as the store remembers."""
    left_out_bytes: int = 0
    """Size of the job's spec, labels and annotations, where they exceed what the projection keeps; else 0."""
    died_passes: int = 0
    """Passes over this job in a row that died with their process, before this one; 0 for less than two."""


Record = PodRecord | ServiceRecord | WorkloadRecord | PodGroupRecord | NodeRecord
RECORD_TYPES: Mapping[GroupResource, type[Any]] = {
    PODS: PodRecord,
    SERVICES: ServiceRecord,
    REPLICASETS: WorkloadRecord,
    BATCH_JOBS: WorkloadRecord,
    **dict.fromkeys(ALL_POD_GROUPS, PodGroupRecord),
    NODES: NodeRecord,
}
"""Which record a resource is projected to. A resource that is not here is not projected."""
