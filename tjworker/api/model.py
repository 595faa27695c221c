"""The internal job: every kind is parsed into it, and reconcile, frameworks and the autoscaler read nothing else.

No code after the parser asks for the kind of a job. Frozen; only `kinds.parse` and tests build it.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from tjworker.api.ignored import Ignored
from tjworker.api.status import HostPorts, JobStatus
from tjworker.api.torchrun import TorchSettings
from tjworker.base import GroupResource, JobKey, JobName, with_article

Workload = Literal["Pod", "ReplicaSet", "Job"]
RestartPolicy = Literal["Never", "Always", "OnFailure", "OnNodeFail", "ExitCode", "OnNodeFailWithExitCode"]
RestartScope = Literal["All", "Replica", "Pod"]
EndPolicy = Literal["Any", "Rank0", "All", "None"]
JobEndPolicy = Literal["Any", "All", "None"]
CleanPodPolicy = Literal["All", "Running", "None"]
FrameworkType = Literal["", "any", "jax", "mpi", "paddle", "pytorch", "tensorflow", "xgboost"]
GuestFramework = Literal["", "mars", "xdl"]
"""The frameworks that only guest kinds have."""
EdlPolicy = Literal["Auto", "Manual", "Never"]


@dataclass(frozen=True, slots=True)
class BatchSize:
    """The global batch sizes with which a role's training converges, and those that a replica can hold. In samples."""

    initial: int
    """The batch size for which the learning rate was chosen."""
    max: int
    per_replica_min: int
    per_replica_max: int


@dataclass(frozen=True, slots=True)
class Reference:
    """An object that a job names and that determines its pods, such as a runtime."""

    resource: GroupResource
    kind: str
    name: str
    path: str
    """The field that names it, as kubectl prints it."""
    forbidden: bool = False
    """True if the operator may not read the object."""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"

    @property
    def reason(self) -> str:
        """The reason in the condition of a job that waits for the object."""
        return f"{self.kind}{'Forbidden' if self.forbidden else 'NotFound'}"

    @property
    def absent(self) -> FieldError:
        """The error of a job that waits for the object."""
        return FieldError(self.path, f"{self} does not exist; create it, and the job starts")


@dataclass(frozen=True, slots=True)
class After:
    """A condition of another role that a role waits for before its pods are created."""

    role: str
    status: Literal["Ready", "Complete"]
    """Ready: each pod of that role is ready or has ended. Complete: each has succeeded."""


@dataclass(frozen=True, slots=True)
class Role:
    name: str
    workload: Workload
    replicas: int
    template: Mapping[str, Any]
    """The pod template, raw JSON. For the workload Pod it is the user's; for a ReplicaSet or Job it is complete, and
    its labels also belong on that object."""
    min_replicas: int | None = None
    max_replicas: int | None = None
    # Users expect `kubectl scale` to hold, and no autoscaler that they have not asked for (ADR 6).
    edl_policy: EdlPolicy = "Manual"
    """`Never`: the number of pods is fixed while the job exists."""
    restart_policy: RestartPolicy = "Never"
    restart_words: str = ""
    """The manifest's name of the policy for messages, if it differs from `restart_policy`."""
    fails_in_part: bool = False
    """True if a pod counts as failed when its main container has failed, even while other containers run, provided
    that the restart policy replaces it. False: when all of its containers have ended."""
    fails_when_evicted: bool = False
    """True if a pod that is evicted and not replaced fails the role, whatever `fail_policy` says."""
    restart_scope: RestartScope = "All"
    restart_limit: int | None = None
    """None: no limit; with the workload ReplicaSet, the operator's setting."""
    fail_policy: EndPolicy = "Any"
    complete_policy: EndPolicy = "All"
    spec_path: str = ""
    """The field that sets `replicas`, as kubectl prints it; for messages."""
    declared_replicas: int | None = None
    """spec.replicas while the autoscaler's target replaces it in `replicas`; else None."""
    overruled: int | None = None
    """The role's own number while the job's `spec.replicas` overrides it; else None."""
    makes_pods: bool = True
    """False: the template is unusable. Present pods stay, and no new ones are created."""
    batch_size: BatchSize | None = None
    """None: the batch size does not depend on the number of replicas."""
    helper: bool = False
    """True if its pods do not train but, for example, prepare data. Ranks, world size and gang do not count them."""
    after: tuple[After, ...] = ()

    @property
    def elastic(self) -> bool:
        # A role with equal bounds is of fixed size: no rendezvous, no autoscaler.
        return self.min_replicas is not None and self.max_replicas is not None and self.min_replicas < self.max_replicas

    @property
    def autoscaled(self) -> bool:
        """True if the autoscaler changes its number of replicas."""
        return self.elastic and self.edl_policy == "Auto"


@dataclass(frozen=True, slots=True)
class MPILaunch:
    """How an MPIJob of Kubeflow or KubeDL starts its processes."""

    slots: int
    """The number of processes per worker."""
    implementation: Literal["OpenMPI", "Intel", "MPICH"]
    agent: bool
    """True if the operator's own agent starts processes; False: ssh."""
    on_launcher: bool
    """True if the launcher's pod runs processes, too."""
    waits: bool
    """True if the launcher starts only when its workers are ready."""


@dataclass(frozen=True, slots=True)
class JobSecret:
    """A Secret that the operator creates once for the job and never reads."""

    name: str
    """Contains the job's UID: a present Secret of this name is this job's."""
    holds: Literal["ssh-key", "agent-key"]


@dataclass(frozen=True, slots=True)
class JobClaim:
    """A PersistentVolumeClaim that the operator creates before the pods that mount it. It uses a present claim of this
    name without an owner: a user has created it, or an earlier job of this name has left it."""

    name: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    spec: Mapping[str, Any]
    stays: bool
    """True if the claim stays when the job is deleted; False: it is deleted with the job."""


@dataclass(frozen=True, slots=True)
class LabelsOfGuest:
    """The labels by which users of a guest kind find its pods and services."""

    prefix: str
    """The prefix with which pods have the labels `job-name`, `replica-type`, `replica-index` and `job-role` a second
    time. Empty: they have them once, with the role in lower case in `replica-type`."""
    operator: str = ""
    """The value of the label `operator-name`."""
    job_role_is_type: bool = False
    """True if the label `job-role` has the pod's role; False: it only marks the master."""
    names: Mapping[str, str] = field(default_factory=dict)
    """The operator's label -> its name with the other operator. The pods have both."""
    index_annotation: str = ""
    """The annotation that holds the index of a pod; '' if there is none."""


@dataclass(frozen=True, slots=True)
class Enough:
    """The job is complete when `replicas` pods of these roles together have succeeded."""

    roles: tuple[str, ...]
    replicas: int


@dataclass(frozen=True, slots=True)
class Runs:
    """The rule for the condition Running, in kinds where it is True before every desired replica runs."""

    roles: tuple[str, ...]
    """Running is True if a replica of one of these roles runs."""
    after_all: bool = False
    """True: only after every desired replica has run. Then the condition stays, for example while the job is scaled."""


@dataclass(frozen=True, slots=True)
class GangPolicy:
    """The options of a job for a gang scheduler, besides the number of pods that start together (`min_available`)."""

    queue: str = ""
    priority_class: str = ""
    min_resources: Mapping[str, Any] = field(default_factory=dict)
    schedule_timeout_seconds: int | None = None
    path: str = "spec.runPolicy.schedulingPolicy"
    """The field of the manifest, for messages."""
    priority_class_field: str = "priorityClass"
    """The manifest's name of `priority_class`."""
    unread: bool = False
    """True if it is unusable: a present PodGroup stays as it is, and none is created."""


@dataclass(frozen=True, slots=True)
class TrainingJob:
    name: JobName
    api_version: str
    kind: str
    uid: str
    resource_version: int
    generation: int
    roles: tuple[Role, ...]
    """The roles, sorted by name."""
    status: JobStatus
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    created_at: int | None = None
    """metadata.creationTimestamp, in Unix seconds."""
    deleted_at: int | None = None
    """metadata.deletionTimestamp, in Unix seconds; None unless the job is being deleted."""
    framework: str = ""
    fault_tolerant: bool = False
    priority: str = ""
    priority_class: str = ""
    """`priority` if the cluster has a PriorityClass of that name: the worker looks it up."""
    scheduler_name: str = ""
    time_limit_seconds: int | None = None
    time_limit_field: str = "spec.timeLimit"
    """The field of the manifest, for messages."""
    active_deadline_seconds: int | None = None
    deadline_begins_anew: bool = False
    """True if activeDeadlineSeconds counts from the last resume; False: from the start, without suspensions."""
    ttl_seconds_after_finished: int | None = None
    ttl_keeps_job: bool = False
    """True if the TTL deletes only the pods and services, and the job with its status stays."""
    backoff_limit: int | None = None
    min_available: int | None = None
    """The number of pods that a gang scheduler starts together or not at all. None: all that the job requires."""
    gang: GangPolicy = GangPolicy()
    # From 128 on a signal has ended the program (128 + its number); below, the program has chosen the code.
    retryable_exit_codes: frozenset[int] = frozenset(range(128, 256))
    main_container: str | None = None
    """The name of the one container whose exit code counts; in a pod without it, the first container counts. None, as
    in the operator's own kinds: the containers that `naming.counted_names` finds by their prefix."""
    retries_unknown_exit: bool = False
    """True if ExitCode retries a pod that failed before its main container ended, such as in an init container."""
    clean_pod_policy: CleanPodPolicy = "All"
    backoff_ends: bool = False
    """True if a used-up backoffLimit ends the job, whatever the `fail_policy` of the role is."""
    limit_clean_policy: CleanPodPolicy | None = None
    """The policy at an end by activeDeadlineSeconds or backoffLimit; None: `clean_pod_policy`."""
    batch_roles: tuple[str, ...] = ()
    """The roles that the kind's own operator runs as a batch Job. backoffLimit counts only their failures. After an end
    none of their pods runs, and ended ones stay with their logs, whatever the cleanPodPolicy is."""
    fail_policy: JobEndPolicy = "Any"
    complete_policy: JobEndPolicy = "All"
    suspend: bool = False
    suspend_field: str = "spec.suspend"
    """The field of the manifest, for messages."""
    guest_labels: LabelsOfGuest | None = None
    """The labels of a guest kind; None for the operator's own kinds."""
    enough: Enough | None = None
    """A further rule for completion, in kinds that count pods of several roles together."""
    runs: Runs | None = None
    """None: Running is True while every desired replica runs."""
    rendezvous: tuple[str, ...] = ()
    """The roles whose pods are nodes of torchrun's rendezvous, in kinds that ask for one with any number of pods."""
    torch: TorchSettings = field(default_factory=TorchSettings)
    """The manifest's settings of torchrun, in kinds that have fields for them."""
    roles_path: str = "spec.replicaSpecs"
    """The field of the manifest with the roles, for messages."""
    ignored: tuple[Ignored, ...] = ()
    """Parts of the manifest that are set and have no effect: the condition Created names them."""
    subdomain: str = ""
    """The name of one headless service for all pods, `<pod>.<subdomain>`; "": each pod has its own service."""
    secret: JobSecret | None = None
    """The Secret that its pods mount."""
    claims: tuple[JobClaim, ...] = ()
    """The claims that its pods mount."""
    mpi: MPILaunch | None = None
    """The start of an MPIJob of Kubeflow or KubeDL."""
    host_ports: HostPorts | None = None
    """The ports in this pass, from the status, for pods that are created now."""
    scale_role: str | None = None
    """The role that the CRD's scale subresource moves; None if the job has no such role."""
    errors: tuple[FieldError, ...] = ()
    """The unusable parts of the spec and annotations of a job that has begun. The operator acts on the rest."""
    unread_annotations: frozenset[str] = frozenset()
    """The unusable annotations: what they have added to the job stays as it is."""

    @property
    def key(self) -> JobKey:
        return self.name.key

    @property
    def trainers(self) -> tuple[Role, ...]:
        """The roles that train: ranks, world size and gang count their pods."""
        return tuple(role for role in self.roles if not role.helper)

    @property
    def autoscaled(self) -> bool:
        """True if the autoscaler changes one of its roles."""
        return any(role.autoscaled for role in self.roles)

    def counts_for_backoff(self, role: str) -> bool:
        """True if backoffLimit counts the failures of this role."""
        # The backoffLimit of a v2beta1 MPIJob is that of its launcher's Job.
        return not self.batch_roles or role in self.batch_roles

    @property
    def is_guest(self) -> bool:
        """True for a kind of another operator: pods and status are as that operator's users expect them."""
        return self.guest_labels is not None

    @property
    def calls_itself(self) -> str:
        """The job's kind or framework, for messages about requirements of its framework."""
        return with_article(self.kind) if self.guest_labels else f"a job of frameworkType {self.framework}"

    def with_targets(self) -> TrainingJob:
        """The job with the autoscaler's targets instead of the spec's replicas. No other code decides this.

        A target counts while the autoscaler changes its role and the job is not suspended, within the present
        minReplicas and maxReplicas. It is void when the user writes another number into the spec (kubectl scale): the
        status records for which number it was set."""
        return replace(self, roles=tuple(self._follow(role) for role in self.roles))

    def _follow(self, role: Role) -> Role:
        target = self.status.targets.get(role.name)
        if target is None or self.suspend or not role.autoscaled:
            return role
        # `kubectl scale` and an edit of the manifest look the same here, and both are the user's word.
        if self.status.targets_beside.get(role.name) != role.replicas:
            return role
        # The bounds may have been edited since the target was set, and hold before the autoscaler's next run.
        least, most = role.min_replicas or 0, role.max_replicas or 0
        return replace(role, replicas=min(max(target, least), most), declared_replicas=role.replicas)

    def role(self, name: str) -> Role:
        return next(r for r in self.roles if r.name == name)

    def without_new_pods(self, names: Container[str] | None = None) -> TrainingJob:
        """The job with the named roles, or with all of them (None), closed: they scale down, but not up."""
        chosen = (role if names is not None and role.name not in names else self._closed(role) for role in self.roles)
        return replace(self, roles=tuple(chosen))

    def _closed(self, role: Role) -> Role:
        # Scaling down needs no template; scaling up needs one that is usable.
        last = self._with_last_number(role)
        return replace(last if last.replicas < role.replicas else role, makes_pods=False)

    def with_last_numbers(self) -> TrainingJob:
        """The job with the numbers of replicas that the status desired last. The status records a number before pods
        are created or deleted for it, so that this number was usable."""
        return replace(self, roles=tuple(self._with_last_number(role) for role in self.roles))

    def _with_last_number(self, role: Role) -> Role:
        last = self.status.replica_statuses.get(role.name)
        return role if last is None else replace(role, replicas=last.desired, declared_replicas=None, overruled=None)


@dataclass(frozen=True, slots=True)
class FieldError:
    """One error of a spec: `path` as kubectl prints it (`spec.replicaSpecs.trainer.replicas`); '' if the message names
    the field itself."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


@dataclass(frozen=True, slots=True)
class InvalidJob:
    """A job whose spec or annotations are unusable. It does not start; if it has begun, the operator acts on `rest`."""

    name: JobName
    api_version: str
    kind: str
    uid: str
    resource_version: int
    generation: int
    status: JobStatus
    errors: tuple[FieldError, ...]
    deleted_at: int | None = None
    rest: TrainingJob | None = None
    """The usable part of the job. None: not even its roles are known."""
    for_good: bool = False
    """True if no edit makes the job usable: it has to be created again."""
    missing: Reference | None = None
    """The object without which the job cannot be judged; it may not exist yet."""

    @classmethod
    def of(cls, job: TrainingJob | InvalidJob, errors: tuple[FieldError, ...]) -> InvalidJob:
        """The same job as one that is unusable for these errors."""
        return cls(
            name=job.name,
            api_version=job.api_version,
            kind=job.kind,
            uid=job.uid,
            resource_version=job.resource_version,
            generation=job.generation,
            status=job.status,
            errors=errors,
            deleted_at=job.deleted_at,
            rest=job.rest if isinstance(job, InvalidJob) else job,
        )

    @property
    def ttl_seconds_after_finished(self) -> int | None:
        return None if self.rest is None else self.rest.ttl_seconds_after_finished

    @property
    def ttl_keeps_job(self) -> bool:
        return self.rest is not None and self.rest.ttl_keeps_job
