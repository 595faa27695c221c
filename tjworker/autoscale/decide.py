"""decide(jobs, cluster, now) -> the new target of each role that should change. Pure: no I/O, no clock.

A policy says how many replicas each role should have. The rules that hold for every policy become bounds of the roles
before the policy plans:

- Without a usable node nothing is planned: the projection is incomplete, or the cluster itself is in trouble.
- No move is reversed within the cool-down: a role that shrank does not grow, and a role that grew shrinks only if room
  is needed.
- A replica that the scheduler, a quota or admission has refused for the whole cool-down is taken back: they know more
  than the autoscaler (taints, affinity, volumes, limits of a namespace). It is tried again after ten cool-downs.
- No target is below the minimum or above the maximum.

The plan is checked as a whole, and carried out or rejected as a whole. One run decides all moves; those that make room
come first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tjworker.api.node_requests import NodeRequests
from tjworker.api.observed import NodeRecord
from tjworker.api.status import ScaleCause
from tjworker.api.timefmt import from_rfc3339
from tjworker.api.waiting_pods import WaitingPods
from tjworker.autoscale.choice import choose_policy
from tjworker.autoscale.dryrun import cpu_reach
from tjworker.autoscale.fitting import check_plan
from tjworker.autoscale.obstacle import why_no_room
from tjworker.autoscale.outlook import look_ahead
from tjworker.autoscale.policies import POLICIES
from tjworker.autoscale.problem import ElasticRole, Owner, PastMove, Problem, RoleId, ScalePlan
from tjworker.autoscale.resources import ClusterResource
from tjworker.autoscale.roles import AutoRole, UnplannedRole, auto_roles
from tjworker.autoscale.rules import REFUSED_REST, AutoscaleRules
from tjworker.autoscale.state import JobState, find_pending_job, find_training_jobs_might_be_rescheduled
from tjworker.autoscale.together import WrongPolicyName, plan_together, policy_of
from tjworker.base import JobKey


@dataclass(frozen=True, slots=True)
class Move:
    """A role's new target, and the reason for it."""

    state: JobState
    role: str
    from_: int
    to: int
    cause: ScaleCause
    reason: str
    """A sentence for people: the job's status keeps it."""


Misfit = UnplannedRole | WrongPolicyName
"""A part of a job that the autoscaler cannot act on as it is written."""


@dataclass(frozen=True, slots=True)
class Decision:
    moves: tuple[Move, ...] = ()
    roles: int = 0
    """The number of autoscaled roles."""
    load: str = ""
    """What pods request of the cluster, or why nothing was planned, in words."""
    problems: tuple[Misfit, ...] = ()
    posed: Posed | None = None
    """The problem that was decided; None if nothing was planned."""


@dataclass(frozen=True, slots=True)
class Posed:
    """A cluster and its jobs, as a problem for the policies."""

    problem: Problem
    autos: Mapping[RoleId, AutoRole]
    problems: tuple[Misfit, ...]
    hopeless: int = 0
    """The number of waiting pods that no node could hold, whatever elastic roles give up."""


def decide(
    states: Sequence[JobState],
    nodes: Mapping[str, NodeRecord],
    requests: Mapping[str, NodeRequests],
    now: float,
    rules: AutoscaleRules,
    waiting: Sequence[WaitingPods] = (),
) -> Decision:
    """The moves to make. `now` is in Unix seconds. Raises PlanRejected, or what the policy raises; then the caller
    moves nothing."""
    posed = pose(states, nodes, requests, now, rules, waiting)
    problem = posed.problem
    if not posed.autos or not problem.resource.node_count:
        why = "nothing to move" if not posed.autos else "no node is ready and schedulable"
        return Decision(roles=len(posed.autos), load=why, problems=posed.problems)
    plan = plan_together(problem, rules.policy)
    # Also for the project's own policies: a mistake in one must not delete replicas of every job.
    check_plan(problem, plan)
    load = _describe_load(problem.resource)
    moves = (_make_move(posed, plan, role, load, rules) for role in problem.roles)
    hopeless = f", {posed.hopeless} waiting pods fit on no node" if posed.hopeless else ""
    return Decision(_put_shrinking_first(moves), len(problem.roles), f"{load}{hopeless}", posed.problems, posed)


def pose(
    states: Sequence[JobState],
    nodes: Mapping[str, NodeRecord],
    requests: Mapping[str, NodeRequests],
    now: float,
    rules: AutoscaleRules,
    waiting: Sequence[WaitingPods] = (),
) -> Posed:
    """The problem for the policies. `requests`: node -> sum of its pods' requests; WAITING -> the sum of pods without a
    node. `waiting`: the pods without a node, in groups of equal pods."""
    found, unplanned = auto_roles(states, now, rules)
    outlook = look_ahead(nodes, requests, waiting, found, rules)
    pending = outlook.pending or find_pending_job(states)
    movable = {id(state) for state in find_training_jobs_might_be_rescheduled(states, pending)}
    needed = room_is_needed(outlook.resource, rules.max_load_desired)
    choices = {id(state): choose_policy(state, POLICIES, rules.policy) for state in states}
    roles = [
        replace(
            _elastic_role(auto, movable=id(auto.state) in movable, needed=needed, now=now, rules=rules),
            policy=choices[id(auto.state)].name,
        )
        for auto in outlook.roles
    ]
    misfits = {auto.state.job.key: choices[id(auto.state)].wrong for auto in outlook.roles}
    wrong = (WrongPolicyName(job, why) for job, why in misfits.items() if why)
    problem = Problem(now, roles, outlook.resource, rules.max_load_desired, outlook.nodes, outlook.demand)
    return Posed(problem, {auto.id: auto for auto in outlook.roles}, (*unplanned, *wrong), outlook.hopeless)


def why_no_more(posed: Posed, rules: AutoscaleRules, job: JobKey) -> dict[RoleId, str]:
    """Role -> why it has no more replicas, as a clause. Meaningless for a role that has its maximum."""
    problem = posed.problem
    roles = [role for role in problem.roles if role.id.job == job]
    if rules.policy not in POLICIES:
        return {role.id: "the autoscaler is switched off (TJ_AUTOSCALE_POLICY)" for role in roles}
    if not problem.resource.node_count:
        return {role.id: "no node is ready and schedulable" for role in roles}
    # With an empty plan each role keeps its number, and the policy says why it gets no more.
    keeps, reasons = ScalePlan({}), {}
    for role in roles:
        policy = policy_of(role, rules.policy)
        text = _describe_waiting(posed, role) or POLICIES[policy].explain(problem, keeps, role).text
        reasons[role.id] = f"{text} (policy {policy})"
    return reasons


def _describe_waiting(posed: Posed, role: ElasticRole) -> str:
    """What the replicas without a node wait for. '' if the role has none, or if its bounds give the reason."""
    waiting = len(posed.autos[role.id].waiting)
    if not waiting or role.refused:
        return ""
    demand = next((demand for demand in posed.problem.demand if demand.role == role.id), None)
    if demand is None:
        return (
            f"{waiting} of its replicas wait, and no node could hold one, whatever elastic roles gave up: it takes"
            " nothing from other jobs; lower its requests or add a larger node"
        )
    if demand.placed:
        # A node has room for it. The scheduler will find that room.
        return ""
    return f"{waiting} of its replicas wait for a node: {why_no_room(posed.problem, role)}"


def room_is_needed(resource: ClusterResource, max_load_desired: float) -> bool:
    """True if pods request more than the cluster has."""
    return (
        resource.cpu_request_milli > cpu_reach(resource, max_load_desired)
        or resource.memory_request_mega > resource.memory_total_mega
        or resource.gpu_limit > resource.gpu_total
    )


# -- bounds ------------------------------------------------------------------------------------------
def _elastic_role(auto: AutoRole, *, movable: bool, needed: bool, now: float, rules: AutoscaleRules) -> ElasticRole:
    job, keeps = auto.state.job, auto.elastic.parallelism
    ceiling, ceiling_because = _find_ceiling(auto, movable=movable, now=now, rules=rules)
    floor, floor_because = None, ""
    if not movable:
        # A job between two sizes would pause a second time before it has trained.
        floor, floor_because = keeps, ceiling_because
    # To take back refused replicas is no reversal: they never ran.
    elif not needed and not auto.refused and moved(auto, now, rules) > 0:
        floor, floor_because = keeps, f"it has just grown, and rests for the cool-down of {rules.cooldown_seconds:g} s"
    bounded = replace(auto.elastic, floor=floor, ceiling=ceiling) if (floor, ceiling) != (None, None) else auto.elastic
    owner = Owner(job.name.namespace, auto.priority, submitted_at=job.created_at)
    return ElasticRole(
        auto.id,
        owner,
        bounded,
        floor_because,
        ceiling_because,
        auto.refused,
        auto.refused_because,
        moves := past_moves(auto),
        service_seconds(auto, moves, now),
        auto.state.progress,
        auto.role.batch_size,
    )


def past_moves(auto: AutoRole) -> tuple[PastMove, ...]:
    """The moves of the role in the job's status, the newest first. A record without a readable time is left out."""
    records = [record for record in auto.state.job.status.scale_records if record.role == auto.role.name]
    times = ((record, from_rfc3339(record.time)) for record in records)
    return tuple(PastMove(at, record.from_, record.to, record.cause) for record, at in times if at is not None)


def service_seconds(auto: AutoRole, moves: Sequence[PastMove], now: float) -> float:
    """Replica-seconds since all replicas of the job ran for the first time. `moves`: the newest first."""
    started = from_rfc3339(auto.state.job.status.start_running_time)
    if started is None:
        return 0.0
    # Backwards from now, because only the present size is certain.
    total, until, replicas = 0.0, now, auto.role.replicas
    for move in moves:
        since = max(started, move.at)
        total, until, replicas = total + max(0.0, until - since) * replicas, min(until, since), move.from_
    # The status keeps only the newest moves. Before the oldest of them, the role counts with the size it had then.
    return total + max(0.0, until - started) * replicas


def _find_ceiling(auto: AutoRole, *, movable: bool, now: float, rules: AutoscaleRules) -> tuple[int | None, str]:
    """(replicas beyond which the role does not grow now, why); (None, '') if only its maximum limits it."""
    keeps = auto.elastic.parallelism
    if not movable:
        return keeps, f"a job grows while it runs whole, and this one is {auto.state.job.status.phase}"
    if auto.state.job.status.unusable_spec:
        # A pass creates no replica for such a spec and discards a higher target, so each run would set it again.
        return keeps, "an edit of it cannot be used, and it does not grow until that is mended"
    if because := _why_replicas_forbid_growth(auto) or _why_cooldown_forbids_growth(auto, now, rules):
        return keeps, because
    if not auto.staying and keeps < auto.elastic.max_instance:
        # Admission may change what the template requests. The first pod shows it.
        return max(keeps, 1), "it grows further when its first pod is made, which shows what a replica requests"
    return None, ""


def _why_replicas_forbid_growth(auto: AutoRole) -> str:
    if auto.state.finished_replicas(auto.role):
        # A job near its end trains no faster with more replicas.
        return "replicas of it have finished, and such a role does not grow any more"
    if auto.refused:
        return auto.refused_because
    if auto.waiting:
        return f"{len(auto.waiting)} of its replicas wait for a node, and it does not grow meanwhile"
    return ""


def _why_cooldown_forbids_growth(auto: AutoRole, now: float, rules: AutoscaleRules) -> str:
    record = auto.newest_record
    if record is None or moved(auto, now, rules) >= 0:
        return ""
    if record.cause == "refused":
        return f"replicas were refused at {record.time}; it is tried again after ten cool-downs"
    return f"it shrank at {record.time}, and rests for the cool-down of {rules.cooldown_seconds:g} s"


def moved(auto: AutoRole, now: float, rules: AutoscaleRules) -> int:
    """The last change of the role's target, in replicas; 0 once the cool-down after it is over. A refusal rests for
    REFUSED_REST cool-downs."""
    record = auto.newest_record
    at = from_rfc3339(record.time) if record is not None else None
    if record is None or at is None:
        return 0
    if now - at >= rules.cooldown_seconds * (REFUSED_REST if record.cause == "refused" else 1):
        return 0
    return record.to - record.from_


# -- moves -------------------------------------------------------------------------------------------
def _make_move(posed: Posed, plan: ScalePlan, role: ElasticRole, load: str, rules: AutoscaleRules) -> Move | None:
    planned = plan.targets.get(role.id, role.elastic.parallelism)
    # `parallelism` is without the refused replicas; the job's target still has them.
    was = role.elastic.parallelism + role.refused
    if planned == was:
        return None
    cause: ScaleCause = "refused"
    policy = policy_of(role, rules.policy)
    reasons = [role.refused_because] if role.refused else []
    if planned != role.elastic.parallelism:
        reason = POLICIES[policy].explain(posed.problem, plan, role)
        reasons.append(reason.text)
        # A refusal outweighs the policy's cause: the rest after it is ten times as long.
        cause = "refused" if role.refused else reason.cause
    auto = posed.autos[role.id]
    return Move(
        auto.state, role.id.role, was, planned, cause, f"autoscaler: {', and '.join(reasons)} ({load}; policy {policy})"
    )


def _put_shrinking_first(moves: Iterable[Move | None]) -> tuple[Move, ...]:
    # Moves that shrink a role come first: they make room.
    return tuple(sorted((m for m in moves if m is not None), key=lambda m: (m.to > m.from_, m.state.job.key, m.role)))


def _describe_load(resource: ClusterResource) -> str:
    """What pods request, such as `CPU 7.5 of 8, memory 3.2 of 16 GB, GPU 4 of 4 asked for`."""
    parts = [
        f"CPU {resource.cpu_request_milli / 1000:g} of {resource.cpu_total_milli / 1000:g}",
        f"memory {resource.memory_request_mega / 1000:.3g} of {resource.memory_total_mega / 1000:.3g} GB",
    ]
    if resource.gpu_total or resource.gpu_limit:
        parts.append(f"GPU {resource.gpu_limit} of {resource.gpu_total}")
    return f"{', '.join(parts)} asked for"
