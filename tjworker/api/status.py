"""The status of a job: pydantic models for the CRD's schema and for the status that reconcile writes.

Common to all kinds. It never holds a value that changes by itself, such as a queue position or an age. Times are
RFC 3339, UTC, in whole seconds, as Kubernetes writes them.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

Phase = Literal[
    "",
    "Pending",
    "Creating",
    "Running",
    "Scaling",
    "Restarting",
    "Terminating",
    "Suspended",
    "Succeed",
    "Failed",
    "Timeout",
    "Preempted",
    "NodeFail",
]
EndPhase = Literal["Succeed", "Failed", "Timeout", "Preempted", "NodeFail"]
PHASES: frozenset[str] = frozenset(get_args(Phase))
END_PHASES: frozenset[str] = frozenset(get_args(EndPhase))
SUSPENDED: Phase = "Suspended"
ConditionType = Literal[
    "Created",
    "Running",
    "Restarting",
    "Scaling",
    "Suspended",
    "Succeeded",
    "Failed",
    "Stalled",
    "Waiting",
    "TensorBoard",
    "FullSize",
    "ReportRefused",
]
Cause = Literal["application", "node", "preemption", "user"]
ScaleCause = Literal["", "room", "need", "shared", "refused", "bounds", "user"]
"""Why a role's number of pods changes: the autoscaler found room for more, other pods need the room, the policy gives
the room to other jobs, the scheduler or the API server refused replicas, minReplicas or maxReplicas changed, a user set
the number. '': an older worker wrote the record without a cause."""

REPORT_REFUSED: ConditionType = "ReportRefused"
FULL_SIZE: ConditionType = "FullSize"
MAX_CONDITION_MESSAGE = 1024
"""Characters."""
REPORTED = ("trainerStatus", "speed", "rescaleSeconds", "rescaleMeasuredAt")
"""Fields of the status that the report server writes, with the condition above. No pass decides on them."""
MAX_FAILURES = 10
MAX_SCALE_RECORDS = 10
Count = Annotated[int, Field(ge=0, le=2**53)]
"""A counter. Its bound leaves room in JSON for the next number, even after a user wrote the status."""


class _Model(BaseModel):
    """Keeps unknown fields. In a rolling upgrade an older worker writes a status that a newer worker wrote before, and
    must not erase its new fields."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True, extra="allow")


class Condition(_Model):
    """A standard Kubernetes condition."""

    type: str = Field(
        description=(
            "Created, Running, Restarting, Scaling, Suspended, Stalled, Waiting (an object that the spec names does not"
            " exist yet), TensorBoard, FullSize (the roles that the autoscaler scales have maxReplicas; its reason is"
            " the policy that decides), ReportRefused, Succeeded or Failed"
        )
    )
    status: Literal["True", "False", "Unknown"] = Field(description="whether the condition holds now")
    observed_generation: Count = Field(0, description="metadata.generation of the job for this condition")
    last_transition_time: str = Field(description="when status last changed")
    reason: str = Field(description="reason, as one word for programs")
    message: str = Field("", description="reason, for people")


def renewed_condition(  # the six fields of metav1.Condition
    old: Condition | None, type_: ConditionType, value: bool, reason: str, message: str, *, now: str, generation: int
) -> Condition:
    """The condition after `old`. As in Kubernetes, only a new status moves its transition time. `now` is
    RFC 3339."""
    status: Literal["True", "False"] = "True" if value else "False"
    return Condition(
        type=type_,
        status=status,
        observed_generation=generation,
        last_transition_time=now if old is None or old.status != status else old.last_transition_time,
        reason=reason,
        message=message[:MAX_CONDITION_MESSAGE],
    )


class ReplicaStatus(_Model):
    """Pods by state. Each pod counts once, as pending, scheduled, active, succeeded or failed. After the
    job's end the numbers no longer change."""

    desired: Count = Field(0, description="pods that the role should have")
    pending: Count = Field(0, description="pods without a node, or not created yet")
    scheduled: Count = Field(0, description="pods that have a node but do not run yet")
    active: Count = Field(0, description="running pods; 0 after the job's end")
    succeeded: Count = Field(0, description="succeeded pods")
    failed: Count = Field(0, description="failed pods that are not replaced, or not yet")
    evicted: Count = Field(0, description="failed pods that were evicted")
    restarting: Count = Field(0, description="pods that are being replaced")


class RestartCounts(_Model):
    """Restarts by cause. Only `application` uses up restartLimit and backoffLimit."""

    application: Count = Field(0, description="because the training program failed")
    node: Count = Field(0, description="because a node or a GPU failed or was drained")
    preemption: Count = Field(
        0, description="because a pod of higher priority took its place. An eviction counts as node"
    )
    user: Count = Field(0, description="because a user deleted the pod")


DEADLINE_EXCEEDED = "DeadlineExceeded"
BACKOFF_LIMIT_EXCEEDED = "BackoffLimitExceeded"
"""Reasons of an end by a limit of the job's run policy. A batch Job of Kubernetes has the same."""
ALL_RUN = "AllReplicasRunning"
"""Reason of the condition Running while every replica runs."""
ACCEPTED = "the job is accepted"
"""How the message of the condition Created begins. Notes for the user follow after a semicolon."""
POD_NOT_GONE = "PodNotGone"
"""Reason of the condition Running while the deletion of a pod does not finish."""
FAILED_CREATE = "FailedCreate"
"""Reason of the condition Running while the API server refuses to create a child, for the operator or a ReplicaSet."""
FAILED_DELETE = "FailedDelete"
"""Reason of the condition Running while the API server refuses to delete or patch a child."""
INVALID_SPEC = "InvalidSpec"
"""Reason of the condition Failed. True: the job was refused before it began. False: the job began, and continues."""


class RoleAttempts(_Model):
    """Attempts of one role. The label `restart-attempt` of a pod should be all + pods[index]; a pod with a lower number
    is replaced. A restart of the whole role or job sets `all` above every earlier attempt and clears the other
    fields."""

    all: Count = Field(0, description="attempt that the last restart of the whole role or job began")
    pods: dict[str, Count] = Field(default_factory=dict, description="restarts of single pods since then, by index")
    completed: str = Field("", description="indices that have succeeded in this attempt, as ranges: 0-3,7")
    failed: str = Field("", description="indices that have failed for good in this attempt, as ranges")
    crashes: dict[str, str] = Field(
        default_factory=dict, description="consecutive failures of the program: number, and indices as ranges"
    )
    rejections: dict[str, str] = Field(
        default_factory=dict, description="consecutive pods that a kubelet rejected: number, and indices as ranges"
    )
    resting: dict[str, str] = Field(
        default_factory=dict, description="when failed pods will be replaced: time, and indices as ranges"
    )
    made: str = Field(
        "", description="indices whose pod was created in this attempt and has not run, while the job is not Running"
    )
    vanished: dict[str, str] = Field(
        default_factory=dict,
        description="consecutive pods that vanished before they started: number, and indices as ranges",
    )
    ran: str = Field(
        "", description="indices whose pod has run in this attempt, as ranges, while the job is not Running"
    )
    started: str = Field(
        "",
        description=(
            "elastic role: indices whose pod has run in any attempt, as ranges; scaled-down indices are removed"
        ),
    )


class Attempts(_Model):
    """Restarts as data, written before any pod is deleted, so that a restart continues after a crash of the worker."""

    job: Count = Field(0, description="restarts of the whole job")
    roles: dict[str, RoleAttempts] = Field(default_factory=dict, description="attempts of each role")


class Failure(_Model):
    """A failed pod."""

    pod: str = Field(description="name of the pod")
    node: str = Field("", description="node of the pod")
    container: str = Field("", description="container whose exit failed the pod")
    exit_code: int | None = Field(None, ge=-(2**31), le=2**31 - 1, description="exit code of that container")
    reason: str = Field("", description="Kubernetes' reason, such as OOMKilled or Evicted")
    message: str = Field("", description="Kubernetes' message")
    log_tail: str = Field("", description="the end of the container's log, if it could be read")
    time: str = Field(description="when it failed")


class ScaleRecord(_Model):
    """One change of a role's number of pods."""

    role: str = Field(description="name of the role")
    from_: Count = Field(alias="from", description="pods before")
    to: Count = Field(description="pods after")
    time: str = Field(description="when it was decided")
    cause: str = Field(  # no enum: a newer worker may write a cause that this version does not know
        "",
        description=(
            "reason, as one word: room (the autoscaler found room for more), need (other pods need the room), shared"
            " (the policy gives its room to other jobs), refused (the scheduler or the API server refused replicas),"
            " bounds (minReplicas or maxReplicas changed) or user (a user set the number)"
        ),
    )
    reason: str = Field("", description="what requested the change, and why, for people")


class Metric(_Model):
    """A metric of the training program, as in Kubeflow Trainer."""

    name: str = Field(max_length=64, description="name that the program gave it, such as loss")
    value: str = Field(max_length=64, description="its value as text")


class TrainerStatus(_Model):
    """The last report of the training program, in the form of Kubeflow Trainer's trainerStatus."""

    progress_percentage: int | None = Field(None, ge=0, le=100, description="how much of the training is done")
    estimated_remaining_seconds: int | None = Field(
        None, ge=0, le=2**31 - 1, description="time until the end of the training, as the program estimates it"
    )
    metrics: tuple[Metric, ...] = Field(
        (), max_length=64, description="the first 64 metrics of the newest report with metrics"
    )
    last_updated_time: str | None = Field(None, description="when the newest report was received")


class SpeedRow(_Model):
    """Mean reported speed for one number of replicas."""

    replicas: Count = Field(description="replicas that took part")
    nodes: Count = Field(description="nodes of these replicas")
    batch_size: Count | None = Field(None, description="samples per step of the whole job")
    rate: float = Field(ge=0, description="samples per second of the whole job")
    count: Count = Field(description="number of reports in the mean, at most 100")
    last_seen: str = Field(description="when the newest of them was received")
    grad_sqr: float | None = Field(None, ge=0, description="squared norm of the mean gradient")
    grad_var: float | None = Field(None, ge=0, description="variance of the gradient")


class HostPorts(_Model):
    """The block of node ports that a job on the host network has drawn (`kubedl.io/network-mode: host`)."""

    first: int = Field(description="first port of the block, which wraps around at the end of the range")
    low: int = Field(description="first port of the range (TJ_HOST_PORTS) that it was drawn in")
    high: int = Field(description="last port of that range")
    attempt: Count = Field(
        0, description="restarts of the whole job when the block was drawn; each restart draws another"
    )

    def at(self, place: int) -> int:
        return self.low + (self.first - self.low + place) % (self.high - self.low + 1)


class Ending(_Model):
    """The decided end of the job while its pods are being deleted (phase Terminating). Never changes once set."""

    phase: EndPhase = Field(description="the final phase of the job")
    reason: str = Field(description="reason of the condition that the end will set")
    message: str = Field("", description="message of the condition that the end will set")
    time: str = Field(description="when it was decided")


class JobStatus(_Model):
    """State of the job. Only the operator writes it."""

    phase: Phase = Field(
        "", description=("phase of the job's life. Succeed, Failed, Timeout, Preempted and NodeFail are final")
    )
    conditions: tuple[Condition, ...] = Field(
        (),
        description="conditions of the job, for `kubectl wait`; at most one of each type",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
    replica_statuses: dict[str, ReplicaStatus] = Field(default_factory=dict, description="pods of each role")
    restart_counts: dict[str, RestartCounts] = Field(default_factory=dict, description="restarts of each role by cause")
    attempts: Attempts = Field(Attempts(), description="restart state of the operator")
    failures: tuple[Failure, ...] = Field((), max_length=MAX_FAILURES, description="failed pods, newest first")
    scale_records: tuple[ScaleRecord, ...] = Field(
        (), max_length=MAX_SCALE_RECORDS, description="changes of the number of pods, newest first"
    )
    # In the status and not in Redis: an empty Redis must not give every job the number of its spec again.
    targets: dict[str, int] = Field(
        default_factory=dict,
        description=(
            "replicas that the autoscaler wants for each role with edlPolicy Auto; they replace spec.replicas"
        ),
    )
    targets_beside: dict[str, int] = Field(
        default_factory=dict,
        description=(
            "spec.replicas of each of these roles when its target was set; an edit of that number cancels the target"
        ),
    )
    ending: Ending | None = Field(None, description="the decided end, while pods are being deleted")
    start_time: str | None = Field(
        None, description="when the job first started: when the operator accepted it, or first resumed it"
    )
    start_running_time: str | None = Field(None, description="when every desired replica ran for the first time")
    completion_time: str | None = Field(None, description="when the job reached its end")
    released: bool = Field(
        False, description="the end has scaled an EDL job's ReplicaSets and batch Job to 0 (autoclean)"
    )
    suspend_time: str | None = Field(None, description="since when the job is suspended")
    suspended_seconds: Count = Field(0, description="time spent suspended before that, which time limits exclude")
    suspended_seconds_before_running: Count = Field(
        0, description="part of suspendedSeconds before startRunningTime, when timeLimit had not begun"
    )
    # A deleted node leaves no object with a time: the pass that misses it first writes the time here.
    missing_nodes: dict[str, str] = Field(
        default_factory=dict, description="missing nodes of this job's pods, and since when"
    )
    short_nodes: dict[str, dict[str, str]] = Field(
        default_factory=dict,
        description="nodes with fewer GPUs than this job's pods hold on them: node, resource, since when",
    )
    creating_since: dict[str, dict[str, str]] = Field(
        default_factory=dict, description="pods that cannot be started: role, time of the first try, indices as ranges"
    )
    # A pod that is created later must get the ports that the other pods know already.
    host_ports: HostPorts | None = Field(None, description="ports of a job on the host network")
    tensorboard_until: str | None = Field(None, description="until when the TensorBoard of an ended job stays")
    refused: Literal["", "Spec", "Create"] = Field(
        "",
        description=(
            "why the job Failed before its first pod: its `Spec` is invalid, or the API server refused to `Create` its "
            "first pods. An edit of the job undoes this end"
        ),
    )
    # An edit of annotations does not raise metadata.generation.
    refused_annotations: str = Field(
        "",
        max_length=64,
        description="digest of the annotations for which its first pods were refused; an edit of them changes it",
    )
    trainer_status: TrainerStatus | None = Field(
        None, description="progress of the training program, as it last reported it"
    )
    speed: tuple[SpeedRow, ...] = Field(
        (), max_length=16, description="reported speed of the program by number of replicas"
    )
    rescale_seconds: float | None = Field(
        None, ge=0, description="time from the last measured change of the number of replicas to the next report"
    )
    rescale_measured_at: str | None = Field(None, description="time of the change that rescaleSeconds measured")
    # Pods that are created later must equal the first ones, even if the runtime was edited or deleted.
    snapshot: dict[str, Any] = Field(
        default_factory=dict,
        description="the object that the spec names, as it was when the job began; later edits of it have no effect",
    )
    last_reconcile_time: str | None = Field(None, description="when the status last changed")
    observed_generation: Count = Field(0, description="metadata.generation that this status was decided on")
    message: str = Field("", description="why the job is in its phase, in one line")
    active: str = Field("", description="running and desired pods of all roles, such as 3/4")
    restarts: int = Field(0, description="restarts of all roles, for every cause")
    replicas: Count = Field(0, description="pods of the elastic role that exist: the scale subresource reads it")
    selector: str = Field("", description="label selector of the elastic role's pods: the scale subresource reads it")

    @property
    def ended(self) -> bool:
        return self.phase in END_PHASES

    def condition(self, type_: ConditionType) -> Condition | None:
        return next((c for c in self.conditions if c.type == type_), None)

    @property
    def unusable_spec(self) -> str:
        """Errors in the spec of a job that began, and continues without the invalid fields; '' if there are none."""
        found = (
            c.message for c in self.conditions if (c.type, c.status, c.reason) == ("Failed", "False", INVALID_SPEC)
        )
        return next(found, "")

    def to_json(self) -> dict[str, Any]:
        """The status for the API server, without empty fields: `kubectl get -o yaml` stays short."""
        whole = self.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"attempts"})
        # A role that has never restarted would write a dozen zeros and empty texts.
        whole["attempts"] = self.attempts.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        # Few jobs are ever suspended: most statuses need no line for it.
        if not self.suspended_seconds:
            del whole["suspendedSeconds"]
        if not self.suspended_seconds_before_running:
            del whole["suspendedSecondsBeforeRunning"]
        if not self.released:
            del whole["released"]
        if "failures" in whole:
            whole["failures"] = [{k: v for k, v in failure.items() if v != ""} for failure in whole["failures"]]
        return {k: v for k, v in whole.items() if v not in ("", [], {})}

    def summarised(self) -> JobStatus:
        """The same status with new `message`, `active` and `restarts`: a printer column cannot add up a map."""
        roles = self.replica_statuses.values()
        running = 0 if self.ended else sum(r.active for r in roles)
        active = f"{running}/{sum(r.desired for r in roles)}" if roles else ""
        restarts = sum(c.application + c.node + c.preemption + c.user for c in self.restart_counts.values())
        message = self._why()
        return self.model_copy(update={"message": message, "active": active, "restarts": restarts})

    def _why(self) -> str:
        """The most important message for a user in this phase."""
        held = next((c.message for c in self.conditions if c.reason in (POD_NOT_GONE, FAILED_DELETE)), "")
        if self.phase == "Terminating" and self.ending is not None:
            return "; ".join(
                [f"the job ends in {self.ending.phase}: {self.ending.message}", *([held] if held else [])]
            )[:1024]
        messages = {c.type: c.message for c in self.conditions if c.message}
        if self.ended:
            return messages.get("Succeeded" if self.phase == "Succeed" else "Failed", "")
        if self.phase == "Suspended":
            return "; ".join(part for part in (messages.get("Suspended", ""), held) if part)[:1024]
        # A restarted or scaled job may still wait for something: a replacement may find no room.
        change = messages.get(self.phase, "") if self.phase in ("Restarting", "Scaling") else ""
        parts = [change, messages.get("Running", "")]
        return "; ".join(p for p in parts if p)[:1024] or messages.get("Waiting", "")
