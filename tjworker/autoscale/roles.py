"""The roles that the autoscaler scales: what one replica takes of its node, which replicas the cluster has refused, and
which pods stay and go. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from tjworker.api.model import Role
from tjworker.api.node_requests import NodeRequests, pod_requests
from tjworker.api.observed import PodRecord
from tjworker.api.placement import constraints_of
from tjworker.api.quantity import mega
from tjworker.api.status import FAILED_CREATE, ScaleRecord
from tjworker.api.timefmt import from_rfc3339
from tjworker.autoscale.cluster import MOST, PODS, kinds_of
from tjworker.autoscale.jobs import ElasticJob
from tjworker.autoscale.problem import RoleId
from tjworker.autoscale.rules import REFUSED_REST, AutoscaleRules
from tjworker.autoscale.state import JobState


@dataclass(frozen=True, slots=True)
class UnplannedRole:
    """A role that the autoscaler leaves alone, because its template or pods cannot be read."""

    job: str
    role: str
    why: str

    def __str__(self) -> str:
        return f"{self.job}: role {self.role} is not autoscaled: {self.why}"


@dataclass(frozen=True, slots=True)
class AutoRole:
    """One role of one job, and its pods as the autoscaler counts them."""

    state: JobState
    role: Role
    elastic: ElasticJob
    """The role for the planner. `parallelism` is without the replicas that are taken back."""
    replica: NodeRequests
    """What one replica takes of its node."""
    amounts: Mapping[str, int]
    """The same, in the form of `PodRecord.requests`."""
    constraints: Mapping[str, object]
    """The constraints of the template on nodes: selector, affinity, tolerations."""
    staying: tuple[PodRecord, ...]
    leaving: tuple[PodRecord, ...]
    """Pods that are being deleted, or are beyond the target."""
    missing: int
    """Replicas of the target whose pod does not exist yet, but is expected soon."""
    refused: int = 0
    """Replicas that are taken back."""
    refused_because: str = ""

    @property
    def id(self) -> RoleId:
        return RoleId(self.state.job.key, self.role.name)

    @property
    def waiting(self) -> tuple[PodRecord, ...]:
        """The staying pods without a node."""
        return tuple(pod for pod in self.staying if not pod.node)

    def requests_of(self, pod: PodRecord) -> NodeRequests:
        """What one of its pods takes of its node: less or more than a new replica, if the template was edited."""
        if not pod.requests or pod.requests == self.amounts:
            return self.replica
        return _to_requests(pod.requests)

    @property
    def newest_record(self) -> ScaleRecord | None:
        return newest_record(self.state, self.role)

    @property
    def priority(self) -> int:
        return max((pod.priority for pod in self.staying), default=0)


def auto_roles(
    states: Iterable[JobState], now: float, rules: AutoscaleRules
) -> tuple[list[AutoRole], list[UnplannedRole]]:
    """(the autoscaled roles of all live jobs, the roles that cannot be planned). `now` is in Unix seconds."""
    found: list[AutoRole] = []
    unplanned: list[UnplannedRole] = []
    for state in states:
        if not state.alive:
            continue
        for role in state.job.roles:
            if not role.autoscaled:
                continue
            try:
                found.append(_auto_role(state, role, now, rules))
            # Users write templates: one that cannot be read must not break the plan of all jobs.
            except (ValueError, TypeError, AttributeError, ArithmeticError) as error:
                unplanned.append(UnplannedRole(state.job.key, role.name, str(error)))
    return found, unplanned


def _auto_role(state: JobState, role: Role, now: float, rules: AutoscaleRules) -> AutoRole:
    pods = state.of_role(role)
    replica = _merge_requests(_template_requests(role), pods)
    kept = [pod for pod in pods if pod.deleted_at is None]
    finished = state.finished_replicas(role)
    refused = _find_refused(state, role, kept, max(0, role.replicas - finished), now, rules)
    replicas = role.replicas - refused.back
    needed = max(0, replicas - finished)
    staying = tuple(kept[:needed])
    amounts = _to_amounts(replica)
    elastic = ElasticJob(
        name=f"{state.job.key}/{role.name}",
        min_instance=role.min_replicas or 0,
        max_instance=role.max_replicas or 0,
        parallelism=replicas,
        cpu_request_milli=replica.cpu_milli,
        memory_request_mega=mega(replica.memory_bytes),
        gpu_limit=sum(replica.amount(gpu) for gpu in rules.gpu_resources),
        # A node takes a limited number of pods (the kubelet's maxPods, 110 by default), which the scheduler counts as a
        # resource.
        others=((PODS, 1), *((kind, amount) for kind, amount in replica.extended if counted_apart(kind, rules))),
        # A pod that takes less than a new replica leaves too little room for one, so its node does not count.
        placed=tuple(pod.node if not pod.requests or pod.requests == amounts else "" for pod in staying),
    )
    return AutoRole(
        state,
        role,
        elastic,
        replica,
        amounts,
        constraints_of(role.template.get("spec") or {}),
        staying,
        leaving=(*kept[needed:], *(pod for pod in pods if pod.deleted_at is not None)),
        # No room is reserved for replicas whose pods the API server has refused for the whole cool-down, even if the
        # minimum keeps them in the target.
        missing=0 if refused.unmade else max(0, needed - len(staying)),
        refused=refused.back,
        refused_because=refused.because,
    )


def counted_apart(kind: str, rules: AutoscaleRules) -> bool:
    """True if this extended resource counts by itself on each node. Only a single kind of GPU does not: the planner has
    a field for it."""
    return kind not in rules.gpu_resources or bool(kinds_of(rules.gpu_resources))


# -- what a replica takes ----------------------------------------------------------------------------
def _template_requests(role: Role) -> NodeRequests:
    """The requests of the template. Raises ValueError if they cannot be read, or are more than any node has."""
    try:
        load = pod_requests(role.template.get("spec") or {})
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"its pod template: {error}") from error
    if max(load.cpu_milli, load.memory_bytes, *(amount for _, amount in load.extended)) > MOST:
        raise ValueError("its pod template: a replica requests more than any node has")
    return load


def _merge_requests(template: NodeRequests, pods: Sequence[PodRecord]) -> NodeRequests:
    """For each resource, the most that the template or a pod requests."""
    # A LimitRange, a webhook, an injected sidecar or a RuntimeClass may add requests that the template lacks. They will
    # add them to the next pod, too.
    given = _to_amounts(template)
    most, last = given, given
    for pod in pods:
        if not pod.requests or pod.requests == last:
            continue
        last = dict(pod.requests)
        most = {name: max(most.get(name, 0), last.get(name, 0)) for name in {*most, *last}}
    if most == given:
        return template
    requests = _to_requests({name: min(MOST, n) for name, n in most.items()})
    return replace(requests, cpu_limit_milli=template.cpu_limit_milli, memory_limit_bytes=template.memory_limit_bytes)


def _to_amounts(requests: NodeRequests) -> dict[str, int]:
    """The requests in the form of `PodRecord.requests`, without zeros."""
    named = {"cpu": requests.cpu_milli, "memory": requests.memory_bytes, **dict(requests.extended)}
    return {name: amount for name, amount in named.items() if amount}


def _to_requests(amounts: Mapping[str, int]) -> NodeRequests:
    """The inverse of `_to_amounts`, for one pod."""
    extended = tuple(sorted((name, n) for name, n in amounts.items() if name not in ("cpu", "memory")))
    return NodeRequests(amounts.get("cpu", 0), amounts.get("memory", 0), pods=1, extended=extended)


# -- refused replicas --------------------------------------------------------------------------------
class _Refused(NamedTuple):
    back: int
    """Replicas that are taken back."""
    unmade: int
    """Replicas whose pods the API server has refused for the whole cool-down."""
    because: str


def _find_refused(
    state: JobState, role: Role, kept: Sequence[PodRecord], needed: int, now: float, rules: AutoscaleRules
) -> _Refused:
    """`kept`: the pods that are not being deleted. `needed`: replicas that need a pod."""
    unscheduled = _count_unscheduled(kept[:needed], now, rules)
    unmade = max(0, needed - len(kept))
    # Missing pods are normal for some seconds after each decision: the next pass creates them.
    if unmade and not _creation_is_refused(state, role, now, rules):
        unmade = 0
    # Refused replicas are not taken back below the minimum.
    back = min(unscheduled + unmade, max(0, role.replicas - (role.min_replicas or 0)))
    # The highest ordinals go, and the refused replicas may be others. The rest has a cool-down to find its place.
    if not back or _taken_back_recently(state, role, now, rules):
        return _Refused(0, unmade, "")
    return _Refused(back, unmade, _describe_refusal(unscheduled, unmade, back, rules))


def _count_unscheduled(pods: Iterable[PodRecord], now: float, rules: AutoscaleRules) -> int:
    """How many of the pods the scheduler has refused for the whole cool-down."""
    created = (pod.created_at for pod in pods if pod.unschedulable)
    return sum(at is not None and now - at >= rules.cooldown_seconds for at in created)


def _creation_is_refused(state: JobState, role: Role, now: float, rules: AutoscaleRules) -> bool:
    """True if a quota, admission or a webhook has refused the missing pods for the whole cool-down. False if they are
    missing for another reason: a failed pod rests, or a pod is being replaced."""
    running = state.job.status.condition("Running")
    if running is None:
        return False
    if role.workload == "Job":
        # A batch Job reports a refusal only in Events. After a failed pod it also creates none, for minutes.
        if running.status == "True" or state.has_failed_pods(role):
            return False
    elif running.reason != FAILED_CREATE:
        return False
    record = newest_record(state, role)
    times = (running.last_transition_time, record.time if record is not None else "")
    # Since the later of both: replicas that a move has just added were not refused before it.
    since = max((at for at in map(from_rfc3339, times) if at is not None), default=now)
    return now - since >= rules.cooldown_seconds


def _taken_back_recently(state: JobState, role: Role, now: float, rules: AutoscaleRules) -> bool:
    """True if the newest move of the role took back refused replicas, and its cool-down is not over."""
    record = newest_record(state, role)
    at = from_rfc3339(record.time) if record is not None and record.cause == "refused" else None
    return at is not None and now - at < rules.cooldown_seconds


def newest_record(state: JobState, role: Role) -> ScaleRecord | None:
    return next((r for r in state.job.status.scale_records if r.role == role.name), None)


def _describe_refusal(unscheduled: int, unmade: int, back: int, rules: AutoscaleRules) -> str:
    causes = []
    if unscheduled:
        causes.append(f"the scheduler has found no node for {min(unscheduled, back)} of them")
    if unmade:
        causes.append(f"the API server has refused the pods of {min(unmade, back)} of them")
    return f"{' and '.join(causes)} for {rules.cooldown_seconds:.0f} s; tried again after {REFUSED_REST} times as long"
