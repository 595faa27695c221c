"""The roles that the autoscaler scales: what one replica takes of its node, which replicas have been refused, and which
pods stay and go. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

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
from tjworker.autoscale.rules import REFUSED_REST, Rules
from tjworker.autoscale.state import JobState


@dataclass(frozen=True, slots=True)
class UnplannedRole:
    """A role that the autoscaler leaves alone, because it cannot be planned with."""

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
    """`parallelism` is without the replicas that are taken back."""
    replica: NodeRequests
    """What one replica takes of its node."""
    amounts: Mapping[str, int]
    """The same, as `PodRecord.requests` has it."""
    constraints: Mapping[str, object]
    """Where its template lets a pod go."""
    staying: tuple[PodRecord, ...]
    leaving: tuple[PodRecord, ...]
    """Being deleted, or beyond the target."""
    missing: int
    """Replicas of the target without a pod that are expected to have one soon."""
    refused: int = 0
    """Replicas that are taken back."""
    refused_because: str = ""

    @property
    def id(self) -> RoleId:
        return RoleId(self.state.job.key, self.role.name)

    @property
    def waiting(self) -> tuple[PodRecord, ...]:
        """Replicas that have no node yet."""
        return tuple(pod for pod in self.staying if not pod.node)

    @property
    def newest_record(self) -> ScaleRecord | None:
        return newest_record(self.state, self.role)

    @property
    def priority(self) -> int:
        return max((pod.priority for pod in self.staying), default=0)


def auto_roles(states: Iterable[JobState], now: float, rules: Rules) -> tuple[list[AutoRole], list[UnplannedRole]]:
    """The roles of every job that lives; and those that cannot be planned with. `now` is in Unix seconds."""
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
            except (ValueError, TypeError, AttributeError, ArithmeticError) as error:
                unplanned.append(UnplannedRole(state.job.key, role.name, str(error)))
    return found, unplanned


def _auto_role(state: JobState, role: Role, now: float, rules: Rules) -> AutoRole:
    pods = state.of_role(role)
    replica = _largest(_template_requests(role), pods)
    kept = [pod for pod in pods if not pod.deleted_at]
    finished = state.finished_replicas(role)
    needed = max(0, role.replicas - finished)
    unscheduled = _unscheduled_for_long(kept[:needed], now, rules)
    unmade = max(0, needed - len(kept))
    if unmade and not _not_made_for_long(state, role, now, rules):
        unmade = 0
    least = role.min_replicas or 0
    back = min(unscheduled + unmade, max(0, role.replicas - least))
    if back and _taken_back_a_moment_ago(state, role, now, rules):
        back = 0
    replicas = role.replicas - back
    needed = max(0, replicas - finished)
    staying = tuple(kept[:needed])
    amounts = _amounts(replica)
    elastic = ElasticJob(
        name=f"{state.job.key}/{role.name}",
        min_instance=least,
        max_instance=role.max_replicas or 0,
        parallelism=replicas,
        cpu_request_milli=replica.cpu_milli,
        memory_request_mega=mega(replica.memory_bytes),
        gpu_limit=sum(replica.amount(gpu) for gpu in rules.gpu_resources),
        others=((PODS, 1), *((kind, amount) for kind, amount in replica.extended if counted_apart(kind, rules))),
        # A pod that takes less than a new replica does leaves less room than one needs.
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
        leaving=(*kept[needed:], *(pod for pod in pods if pod.deleted_at)),
        # Nothing is reserved for replicas that the API server has refused for so long, even where the minimum keeps
        # them in the target.
        missing=0 if unmade else max(0, needed - len(staying)),
        refused=back,
        refused_because=_refusal(unscheduled, unmade, back, rules) if back else "",
    )


def counted_apart(kind: str, rules: Rules) -> bool:
    """Whether a node's amount of this extended resource is planned by itself: all but the only kind of GPU, which the
    planner has a field for."""
    return kind not in rules.gpu_resources or bool(kinds_of(rules.gpu_resources))


# -- what a replica takes ----------------------------------------------------------------------------
def _template_requests(role: Role) -> NodeRequests:
    """Raises ValueError for a template that asks for what cannot be read, or for more than any node will have."""
    try:
        load = pod_requests(role.template.get("spec") or {})
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"its pod template: {error}") from error
    if max(load.cpu_milli, load.memory_bytes, *(amount for _, amount in load.extended)) > MOST:
        raise ValueError("its pod template: a replica requests more than any node has")
    return load


def _largest(template: NodeRequests, pods: Sequence[PodRecord]) -> NodeRequests:
    """Of each resource the most that the template or a pod requests: a LimitRange, a webhook, an injected sidecar and a
    RuntimeClass give a pod requests that its template does not have, and they will give them to the next one, too."""
    given = _amounts(template)
    most, last = given, given
    for pod in pods:
        if not pod.requests or pod.requests == last:
            continue
        last = dict(pod.requests)
        most = {name: max(most.get(name, 0), last.get(name, 0)) for name in {*most, *last}}
    if most == given:
        return template
    extended = tuple(sorted((name, min(MOST, n)) for name, n in most.items() if name not in ("cpu", "memory")))
    return NodeRequests(
        min(MOST, most.get("cpu", 0)),
        min(MOST, most.get("memory", 0)),
        template.cpu_limit_milli,
        template.memory_limit_bytes,
        1,
        extended,
    )


def _amounts(requests: NodeRequests) -> dict[str, int]:
    """As `PodRecord.requests` has them."""
    named = {"cpu": requests.cpu_milli, "memory": requests.memory_bytes, **dict(requests.extended)}
    return {name: amount for name, amount in named.items() if amount}


# -- what has been refused ---------------------------------------------------------------------------
def _unscheduled_for_long(pods: Iterable[PodRecord], now: float, rules: Rules) -> int:
    """How many the scheduler has refused for the whole cool-down."""
    created = (from_rfc3339(pod.created_at) for pod in pods if pod.unschedulable)
    return sum(at is not None and now - at >= rules.cooldown_seconds for at in created)


def _not_made_for_long(state: JobState, role: Role, now: float, rules: Rules) -> bool:
    """The replicas without a pod have had none for the whole cool-down, because a quota, admission or a webhook refuses
    it. A replica that has no pod for another reason (its failed pod rests, its last one is just being replaced) is not
    meant."""
    running = state.job.status.condition("Running")
    if running is None:
        return False
    if role.workload == "Job":
        # A batch Job tells by Events alone why it makes no pod. After a failure it waits by itself, for minutes.
        if running.status == "True" or state.has_failed_pods(role):
            return False
    elif running.reason != FAILED_CREATE:
        return False
    record = newest_record(state, role)
    times = (running.last_transition_time, record.time if record is not None else "")
    since = max((at for at in map(from_rfc3339, times) if at is not None), default=now)
    return now - since >= rules.cooldown_seconds


def _taken_back_a_moment_ago(state: JobState, role: Role, now: float, rules: Rules) -> bool:
    """The highest ordinals go, which need not be those that were refused: what is left has a cool-down to find its
    place."""
    record = newest_record(state, role)
    at = from_rfc3339(record.time) if record is not None and record.cause == "refused" else None
    return at is not None and now - at < rules.cooldown_seconds


def newest_record(state: JobState, role: Role) -> ScaleRecord | None:
    return next((r for r in state.job.status.scale_records if r.role == role.name), None)


def _refusal(unscheduled: int, unmade: int, back: int, rules: Rules) -> str:
    told = []
    if unscheduled:
        told.append(f"the scheduler has found no node for {min(unscheduled, back)} of them")
    if unmade:
        told.append(f"the API server has refused the pods of {min(unmade, back)} of them")
    return f"{' and '.join(told)} for {rules.cooldown_seconds:.0f} s; tried again after {REFUSED_REST} times as long"
