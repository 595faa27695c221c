"""The internal job: what every kind is parsed into, and all that reconcile, frameworks and the autoscaler know.

Nothing behind the parser asks which kind a job came from. Frozen; built by `kinds.parse`, never by hand outside tests.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

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
"""Those that only kinds of other operators have."""
EdlPolicy = Literal["Auto", "Manual", "Never"]


@dataclass(frozen=True, slots=True)
class BatchSize:
    """Between which global batch sizes a role's training converges, and what one replica can hold. In samples."""

    initial: int
    """The one that its learning rate was chosen for."""
    max: int
    per_replica_min: int
    per_replica_max: int


@dataclass(frozen=True, slots=True)
class Reference:
    """An object that a job names, and without which its pods cannot be known."""

    resource: GroupResource
    kind: str
    name: str
    path: str
    """The field that names it, as kubectl prints it."""
    forbidden: bool = False
    """The operator may not read it."""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"

    @property
    def reason(self) -> str:
        """Of the condition of a job that waits for it."""
        return f"{self.kind}{'Forbidden' if self.forbidden else 'NotFound'}"

    @property
    def absent(self) -> FieldError:
        """What a job says that waits for it."""
        return FieldError(self.path, f"{self} does not exist; create it, and the job starts")


@dataclass(frozen=True, slots=True)
class After:
    """What a role waits for before its pods are made."""

    role: str
    status: Literal["Ready", "Complete"]
    """Ready: each pod of that role is ready or has ended. Complete: each has succeeded."""


@dataclass(frozen=True, slots=True)
class Role:
    name: str
    workload: Workload
    replicas: int
    template: Mapping[str, Any]
    """The pod template, raw JSON: of workload Pod as the user wrote it, else complete, as a ReplicaSet or a Job takes
    it. Its labels belong on the owner too."""
    min_replicas: int | None = None
    max_replicas: int | None = None
    edl_policy: EdlPolicy = "Manual"
    """`Never`: the number of pods is fixed while the job exists."""
    restart_policy: RestartPolicy = "Never"
    restart_words: str = ""
    """The policy as messages name it, where that is not `restart_policy`: in the words of the manifest."""
    fails_in_part: bool = False
    """A pod counts as failed as soon as its main container has, even while other containers of it run, if the
    restart policy replaces it then. (Else when all of its containers have ended.)"""
    fails_when_evicted: bool = False
    """A pod that is evicted and not replaced fails the role, whatever `fail_policy` says."""
    restart_scope: RestartScope = "All"
    restart_limit: int | None = None
    """None: no limit; of workload ReplicaSet, the operator's setting."""
    fail_policy: EndPolicy = "Any"
    complete_policy: EndPolicy = "All"
    spec_path: str = ""
    """The field that sets `replicas`, as kubectl prints it; for messages."""
    declared_replicas: int | None = None
    """spec.replicas while the autoscaler's target replaces it in `replicas`; else None."""
    overruled: int | None = None
    """The role's own number where the job's `spec.replicas` stands in for it; else None."""
    makes_pods: bool = True
    """False: what its pods are made of cannot be used. Those that are there stay, and no more are made."""
    batch_size: BatchSize | None = None
    """None: it trains with one batch size, whatever the number of replicas."""
    helper: bool = False
    """Its pods do not train: they prepare data, for example. No rank, world size or gang counts them."""
    after: tuple[After, ...] = ()

    @property
    def elastic(self) -> bool:
        return self.min_replicas is not None and self.max_replicas is not None and self.min_replicas < self.max_replicas

    @property
    def autoscaled(self) -> bool:
        """The autoscaler changes its number of replicas."""
        return self.elastic and self.edl_policy == "Auto"


@dataclass(frozen=True, slots=True)
class MPILaunch:
    """How an MPIJob starts its processes, Kubeflow's or KubeDL's."""

    slots: int
    """Processes a worker."""
    implementation: Literal["OpenMPI", "Intel", "MPICH"]
    agent: bool
    """By the operator's own agent, not by ssh."""
    on_launcher: bool
    """The launcher's pod has processes, too."""
    waits: bool
    """The launcher starts when its workers are ready."""


@dataclass(frozen=True, slots=True)
class JobSecret:
    """A Secret that the operator makes for the job, once, and never reads."""

    name: str
    """Has the job's UID in it: whatever has this name already is this job's."""
    holds: Literal["ssh-key", "agent-key"]


@dataclass(frozen=True, slots=True)
class JobClaim:
    """A PersistentVolumeClaim that the operator makes before the pods that mount it. One of its name that belongs to
    no other object takes its place: a user has made it, or an earlier job of this name has left it."""

    name: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    spec: Mapping[str, Any]
    stays: bool
    """When the job is deleted. Else it goes with the job."""


@dataclass(frozen=True, slots=True)
class LabelsOfGuest:
    """How the users of another operator's kind find its pods and services."""

    prefix: str
    """Of the labels `job-name`, `replica-type`, `replica-index` and `job-role`, which then stand there twice. Empty:
    they are ours, with the role in lower case in `replica-type`."""
    operator: str = ""
    """Value of the label `operator-name`."""
    job_role_is_type: bool = False
    """The label `job-role` says the pod's role, not that it is the master."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Label of ours -> the name that the other operator gives it. The pods carry both."""
    index_annotation: str = ""
    """The annotation that holds the index of a pod; '' for none."""


@dataclass(frozen=True, slots=True)
class Enough:
    """A job is done as soon as so many replicas of these roles together have succeeded."""

    roles: tuple[str, ...]
    replicas: int


@dataclass(frozen=True, slots=True)
class Runs:
    """When the condition Running is True, of a kind for which it is so before every desired replica runs."""

    roles: tuple[str, ...]
    """A replica of one of these runs."""
    after_all: bool = False
    """Not before every desired replica has run; then it stays so, as when the job is scaled."""


@dataclass(frozen=True, slots=True)
class GangPolicy:
    """What a job asks of a gang scheduler, beside the number of pods that start together (`min_available`)."""

    queue: str = ""
    priority_class: str = ""
    min_resources: Mapping[str, Any] = field(default_factory=dict)
    schedule_timeout_seconds: int | None = None
    path: str = "spec.runPolicy.schedulingPolicy"
    """Where the manifest has it, for messages."""
    priority_class_field: str = "priorityClass"
    """As it calls that."""
    unread: bool = False
    """It cannot be used: the PodGroup that is there stays as it was made, and none is made."""


@dataclass(frozen=True, slots=True)
class Ignored:
    """A part of a job's manifest that is set and has no effect."""

    path: str
    """A field as kubectl prints it; of metadata the key of a label or an annotation."""
    because: str = ""
    """As messages say it in parentheses; '' where there is no more to say than that nothing acts on it."""
    part: Literal["field", "label", "annotation"] = "field"

    def __str__(self) -> str:
        named = self.path if self.part == "field" else f"{self.part} {self.path}"
        return f"{named} ({self.because})" if self.because else named


@dataclass(frozen=True, slots=True)
class TrainingJob:
    name: JobName
    api_version: str
    kind: str
    uid: str
    resource_version: int
    generation: int
    roles: tuple[Role, ...]
    """In the order of the manifest's role names, sorted."""
    status: JobStatus
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    created_at: str = ""
    deleted_at: str = ""
    framework: str = ""
    fault_tolerant: bool = False
    priority: str = ""
    priority_class: str = ""
    """`priority` if the cluster has a PriorityClass of that name. Not in the spec: the worker looks it up."""
    scheduler_name: str = ""
    time_limit_seconds: int | None = None
    time_limit_field: str = "spec.timeLimit"
    """Where the manifest sets it, for messages."""
    active_deadline_seconds: int | None = None
    deadline_begins_anew: bool = False
    """activeDeadlineSeconds counts from the last resume. (Else from the start, without the suspensions.)"""
    ttl_seconds_after_finished: int | None = None
    ttl_keeps_job: bool = False
    """The TTL deletes the pods and services, and the job with its status stays."""
    backoff_limit: int | None = None
    min_available: int | None = None
    """Pods that a gang scheduler starts together or not at all; None: all that the job cannot do without."""
    gang: GangPolicy = GangPolicy()
    retryable_exit_codes: frozenset[int] = frozenset(range(128, 256))
    main_container: str | None = None
    """Name of the one container whose exit code counts; where a pod has none of that name, its first counts. None: as
    in kinds of our own, those that `naming.counted_names` finds by their prefix."""
    retries_unknown_exit: bool = False
    """With ExitCode, a pod that failed before its main container ended, such as in an init container, is retryable."""
    clean_pod_policy: CleanPodPolicy = "All"
    backoff_ends: bool = False
    """A used-up backoffLimit ends the job, whatever the `fail_policy` of the role that has used it up."""
    limit_clean_policy: CleanPodPolicy | None = None
    """The policy at an end by activeDeadlineSeconds or backoffLimit; None: `clean_pod_policy`."""
    batch_roles: tuple[str, ...] = ()
    """Roles that the kind's own operator runs as a batch Job. backoffLimit counts their failures alone. After any end
    none of their pods runs, and those that have ended stay with their logs, whatever the cleanPodPolicy."""
    fail_policy: JobEndPolicy = "Any"
    complete_policy: JobEndPolicy = "All"
    suspend: bool = False
    suspend_field: str = "spec.suspend"
    """Where the manifest sets it, for messages."""
    guest_labels: LabelsOfGuest | None = None
    """Of a kind that is another operator's."""
    enough: Enough | None = None
    """Beside the policies of roles and job, of a kind that counts over roles."""
    runs: Runs | None = None
    """None: Running is True while every desired replica runs."""
    rendezvous: tuple[str, ...] = ()
    """Roles whose pods are the nodes of torchrun's rendezvous, where the kind asks for one whatever their number is."""
    torch: TorchSettings = field(default_factory=TorchSettings)
    """What the manifest sets of torchrun, of a kind that has fields for it."""
    roles_path: str = "spec.replicaSpecs"
    """Where the manifest has the roles, for messages."""
    ignored: tuple[Ignored, ...] = ()
    """The condition Created names them."""
    subdomain: str = ""
    """Name of one headless service for all pods, `<pod>.<subdomain>`; "": each pod has a service of its own."""
    secret: JobSecret | None = None
    """Which its pods mount."""
    claims: tuple[JobClaim, ...] = ()
    """Which its pods mount, too."""
    mpi: MPILaunch | None = None
    """Of an MPIJob, Kubeflow's or KubeDL's."""
    host_ports: HostPorts | None = None
    """As the status has it in this pass: what pods that are made now are told."""
    scale_role: str | None = None
    """The role that the CRD's scale subresource moves, None when this job has no such role."""
    errors: tuple[FieldError, ...] = ()
    """What of the spec and annotations of a job that has begun cannot be used. The job is operated by the rest."""
    unread_annotations: frozenset[str] = frozenset()
    """Annotations among these: what they have added to the job stays as it is."""

    @property
    def key(self) -> JobKey:
        return self.name.key

    @property
    def trainers(self) -> tuple[Role, ...]:
        """The roles that train: ranks, world size and gang count their pods."""
        return tuple(role for role in self.roles if not role.helper)

    @property
    def autoscaled(self) -> bool:
        """The autoscaler reads it: one of its roles is the autoscaler's."""
        return any(role.autoscaled for role in self.roles)

    def counts_for_backoff(self, role: str) -> bool:
        """backoffLimit counts the failures of this role."""
        return not self.batch_roles or role in self.batch_roles

    @property
    def is_guest(self) -> bool:
        """Its kind is another operator's, so its pods and its status are what that operator's users expect."""
        return self.guest_labels is not None

    @property
    def calls_itself(self) -> str:
        """For messages about what its framework asks of it."""
        return with_article(self.kind) if self.guest_labels else f"a job of frameworkType {self.framework}"

    def with_targets(self) -> TrainingJob:
        """With the autoscaler's targets in the place of the spec's replicas: the one place where that is decided.

        A target counts while its role is the autoscaler's and the job is not suspended, kept within minReplicas and
        maxReplicas as they are now. A user who writes another number into the spec (kubectl scale) wins: the target
        was set beside the number that stood there, and is set aside with it."""
        return replace(self, roles=tuple(self._follow(role) for role in self.roles))

    def _follow(self, role: Role) -> Role:
        target = self.status.targets.get(role.name)
        if target is None or self.suspend or not role.autoscaled:
            return role
        if self.status.targets_beside.get(role.name) != role.replicas:
            return role
        least, most = role.min_replicas or 0, role.max_replicas or 0
        return replace(role, replicas=min(max(target, least), most), declared_replicas=role.replicas)

    def role(self, name: str) -> Role:
        return next(r for r in self.roles if r.name == name)

    def without_new_pods(self, names: Container[str] | None = None) -> TrainingJob:
        """`names`: of these roles; None: of all. They are scaled down where that is asked, and not up."""
        chosen = (role if names is not None and role.name not in names else self._closed(role) for role in self.roles)
        return replace(self, roles=tuple(chosen))

    def _closed(self, role: Role) -> Role:
        # Fewer replicas need no template; more of them would be pods that cannot be made.
        last = self._with_last_number(role)
        return replace(last if last.replicas < role.replicas else role, makes_pods=False)

    def with_last_numbers(self) -> TrainingJob:
        """Each role with as many replicas as the status last said that it should have. The status records them before
        pods are made or deleted for them, so this number has been usable."""
        return replace(self, roles=tuple(self._with_last_number(role) for role in self.roles))

    def _with_last_number(self, role: Role) -> Role:
        last = self.status.replica_statuses.get(role.name)
        return role if last is None else replace(role, replicas=last.desired, declared_replicas=None, overruled=None)


@dataclass(frozen=True, slots=True)
class FieldError:
    """One error of a spec: `path` as kubectl prints it (`spec.replicaSpecs.trainer.replicas`)."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


@dataclass(frozen=True, slots=True)
class InvalidJob:
    """A job whose spec or annotations cannot be used as they are. It does not start; one that has begun is operated by
    the `rest`."""

    name: JobName
    api_version: str
    kind: str
    uid: str
    resource_version: int
    generation: int
    status: JobStatus
    errors: tuple[FieldError, ...]
    deleted_at: str = ""
    rest: TrainingJob | None = None
    """The job as far as it can be used. None: not even its roles can be told."""
    for_good: bool = False
    """No edit makes it usable: it has to be created again."""
    missing: Reference | None = None
    """The job cannot be judged before this object is read; it may not exist yet."""

    @classmethod
    def of(cls, job: TrainingJob | InvalidJob, errors: tuple[FieldError, ...]) -> InvalidJob:
        """The same job, which cannot be used for these errors."""
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
