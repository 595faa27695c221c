"""decide(jobs, cluster, now) -> the new target of each role that should change. Pure: no I/O, no clock.

A policy says what each role should have. The rules of every policy enter as bounds of the roles before it plans:

- Without a usable node nothing is planned: the projection lacks something, or the cluster is in trouble itself.
- Nothing is reversed within the cool-down: a role that shrank does not grow, and a role that grew shrinks only when
  room is needed.
- A replica that the scheduler, a quota or admission has refused for the whole cool-down is taken back: they know more
  than we do (taints, affinity, volumes, limits of a namespace). It is tried again after ten times as long.
- Never below the minimum, never above the maximum.

The plan is then checked as a whole and carried out, or rejected. All moves of a run are decided together, those that
make room first.
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
from tjworker.autoscale.problem import ElasticRole, Owner, PastMove, Plan, Problem, RoleId
from tjworker.autoscale.resources import ClusterResource
from tjworker.autoscale.roles import AutoRole, UnplannedRole, auto_roles
from tjworker.autoscale.rules import REFUSED_REST, Rules
from tjworker.autoscale.state import JobState, find_pending_job, find_training_jobs_might_be_rescheduled
from tjworker.autoscale.together import WrongPolicyName, plan_together, policy_of
from tjworker.base import JobKey


@dataclass(frozen=True, slots=True)
class Move:
    """A role's new target, and why."""

    state: JobState
    role: str
    from_: int
    to: int
    cause: ScaleCause
    reason: str
    """For people."""


Misfit = UnplannedRole | WrongPolicyName
"""What of a job cannot be acted on as it is written."""


@dataclass(frozen=True, slots=True)
class Decision:
    moves: tuple[Move, ...] = ()
    roles: int = 0
    """How many roles are autoscaled."""
    load: str = ""
    """What pods request of the cluster, in words."""
    problems: tuple[Misfit, ...] = ()
    posed: Posed | None = None
    """What was decided on; None where nothing was planned."""


@dataclass(frozen=True, slots=True)
class Posed:
    """A cluster and its jobs as a problem for a policy."""

    problem: Problem
    autos: Mapping[RoleId, AutoRole]
    problems: tuple[Misfit, ...]
    hopeless: int = 0
    """Pods that wait and could have no node, whatever elastic roles give up."""


def decide(
    states: Sequence[JobState],
    nodes: Mapping[str, NodeRecord],
    requests: Mapping[str, NodeRequests],
    now: float,
    rules: Rules,
    waiting: Sequence[WaitingPods] = (),
) -> Decision:
    """`now` is in Unix seconds. Raises PlanRejected, or what the policy raises; then nothing is to be moved."""
    posed = pose(states, nodes, requests, now, rules, waiting)
    problem = posed.problem
    if not posed.autos or not problem.resource.node_count:
        why = "nothing to move" if not posed.autos else "no node is ready and schedulable"
        return Decision(roles=len(posed.autos), load=why, problems=posed.problems)
    plan = plan_together(problem, rules.policy)
    check_plan(problem, plan)
    load = _load(problem.resource)
    moves = (_move(posed, plan, role, load, rules) for role in problem.roles)
    hopeless = f", {posed.hopeless} waiting pods fit on no node" if posed.hopeless else ""
    return Decision(_ordered(moves), len(problem.roles), f"{load}{hopeless}", posed.problems, posed)


def pose(
    states: Sequence[JobState],
    nodes: Mapping[str, NodeRecord],
    requests: Mapping[str, NodeRequests],
    now: float,
    rules: Rules,
    waiting: Sequence[WaitingPods] = (),
) -> Posed:
    """`requests`: of the pods of each node, and under WAITING of those without one; `waiting`: these one by one."""
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


def why_no_more(posed: Posed, rules: Rules, job: JobKey) -> dict[RoleId, str]:
    """Why each role of that job has no more replicas, as a clause. Not for a role that has its maximum."""
    problem = posed.problem
    roles = [role for role in problem.roles if role.id.job == job]
    if rules.policy not in POLICIES:
        return {role.id: "the autoscaler is switched off (TJ_AUTOSCALE_POLICY)" for role in roles}
    if not problem.resource.node_count:
        return {role.id: "no node is ready and schedulable" for role in roles}
    keeps, found = Plan({}), {}
    for role in roles:
        policy = policy_of(role, rules.policy)
        text = _waits(posed, role) or POLICIES[policy].explain(problem, keeps, role).text
        size = f"{role.elastic.parallelism} of {role.elastic.max_instance}: "
        found[role.id] = f"{text.removeprefix(size)} (policy {policy})"
    return found


def _waits(posed: Posed, role: ElasticRole) -> str:
    """What the replicas without a node wait for; '' for a role that has none such, or whose bounds tell it."""
    waiting = len(posed.autos[role.id].waiting)
    if not waiting or role.refused:
        return ""
    demand = next((demand for demand in posed.problem.demand if demand.role == role.id), None)
    if demand is None:
        return (
            f"{waiting} of its replicas wait, and no node could hold one, whatever elastic roles gave up: it takes"
            " nothing from other jobs; lower its requests or add a larger node"
        )
    if demand.placed:  # the scheduler has yet to find the room
        return ""
    return f"{waiting} of its replicas wait for a node: {why_no_room(posed.problem, role)}"


def room_is_needed(resource: ClusterResource, max_load_desired: float) -> bool:
    """Pods request more than there is."""
    return (
        resource.cpu_request_milli > cpu_reach(resource, max_load_desired)
        or resource.memory_request_mega > resource.memory_total_mega
        or resource.gpu_limit > resource.gpu_total
    )


# -- bounds ------------------------------------------------------------------------------------------
def _elastic_role(auto: AutoRole, *, movable: bool, needed: bool, now: float, rules: Rules) -> ElasticRole:
    job, keeps = auto.state.job, auto.elastic.parallelism
    ceiling, ceiling_because = _ceiling(auto, movable=movable, now=now, rules=rules)
    floor, floor_because = None, ""
    if not movable:
        floor, floor_because = keeps, ceiling_because
    elif not needed and not auto.refused and moved(auto, now, rules) > 0:
        floor, floor_because = keeps, f"it has just grown, and rests for the cool-down of {rules.cooldown_seconds:g} s"
    bounded = replace(auto.elastic, floor=floor, ceiling=ceiling) if (floor, ceiling) != (None, None) else auto.elastic
    owner = Owner(job.name.namespace, auto.priority, submitted_at=from_rfc3339(job.created_at))
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
    """The newest first, as the job's status has them."""
    records = [record for record in auto.state.job.status.scale_records if record.role == auto.role.name]
    times = ((record, from_rfc3339(record.time)) for record in records)
    return tuple(PastMove(at, record.from_, record.to, record.cause) for record, at in times if at is not None)


def service_seconds(auto: AutoRole, moves: Sequence[PastMove], now: float) -> float:
    """Replica-seconds since all its replicas ran for the first time. Before the oldest move that the status has, the
    role counts as it was then."""
    started = from_rfc3339(auto.state.job.status.start_running_time)
    if started is None:
        return 0.0
    total, until, replicas = 0.0, now, auto.role.replicas
    for move in moves:
        since = max(started, move.at)
        total, until, replicas = total + max(0.0, until - since) * replicas, min(until, since), move.from_
    return total + max(0.0, until - started) * replicas


def _ceiling(auto: AutoRole, *, movable: bool, now: float, rules: Rules) -> tuple[int | None, str]:
    """Beyond which it does not grow now, and why."""
    keeps = auto.elastic.parallelism
    if not movable:
        return keeps, f"a job grows while it runs whole, and this one is {auto.state.job.status.phase}"
    if auto.state.job.status.unusable_spec:
        # A pass makes no replica of it and sets a higher target aside, so each run would set that again.
        return keeps, "an edit of it cannot be used, and it does not grow until that is mended"
    if because := _of_its_replicas(auto) or _of_its_rest(auto, now, rules):
        return keeps, because
    if not auto.staying and keeps < auto.elastic.max_instance:
        # What admission makes of its template is not known before the first pod.
        return max(keeps, 1), "it grows further when its first pod is made, which shows what a replica requests"
    return None, ""


def _of_its_replicas(auto: AutoRole) -> str:
    if auto.state.finished_replicas(auto.role):  # a job near its end trains no faster with more
        return "replicas of it have finished, and such a role does not grow any more"
    if auto.refused:
        return auto.refused_because
    if auto.waiting:
        return f"{len(auto.waiting)} of its replicas wait for a node, and it does not grow meanwhile"
    return ""


def _of_its_rest(auto: AutoRole, now: float, rules: Rules) -> str:
    record = auto.newest_record
    if record is None or moved(auto, now, rules) >= 0:
        return ""
    if record.cause == "refused":
        return f"replicas were refused at {record.time}; it is tried again after ten cool-downs"
    return f"it shrank at {record.time}, and rests for the cool-down of {rules.cooldown_seconds:g} s"


def moved(auto: AutoRole, now: float, rules: Rules) -> int:
    """By how much the target was last changed, if the cool-down after that is not over; else 0."""
    record = auto.newest_record
    at = from_rfc3339(record.time) if record is not None else None
    if record is None or at is None:
        return 0
    if now - at >= rules.cooldown_seconds * (REFUSED_REST if record.cause == "refused" else 1):
        return 0
    return record.to - record.from_


# -- moves -------------------------------------------------------------------------------------------
def _move(posed: Posed, plan: Plan, role: ElasticRole, load: str, rules: Rules) -> Move | None:
    planned = plan.targets.get(role.id, role.elastic.parallelism)
    was = role.elastic.parallelism + role.refused
    if planned == was:
        return None
    cause: ScaleCause = "refused"
    policy = policy_of(role, rules.policy)
    told = [role.refused_because] if role.refused else []
    if planned != role.elastic.parallelism:
        reason = POLICIES[policy].explain(posed.problem, plan, role)
        told.append(reason.text)
        cause = "refused" if role.refused else reason.cause
    auto = posed.autos[role.id]
    return Move(
        auto.state, role.id.role, was, planned, cause, f"autoscaler: {', and '.join(told)} ({load}; policy {policy})"
    )


def _ordered(moves: Iterable[Move | None]) -> tuple[Move, ...]:
    return tuple(sorted((m for m in moves if m is not None), key=lambda m: (m.to > m.from_, m.state.job.key, m.role)))


def _load(resource: ClusterResource) -> str:
    """Such as `CPU 7.5 of 8, memory 3.2 of 16 GB, GPU 4 of 4 asked for`."""
    parts = [
        f"CPU {resource.cpu_request_milli / 1000:g} of {resource.cpu_total_milli / 1000:g}",
        f"memory {resource.memory_request_mega / 1000:.3g} of {resource.memory_total_mega / 1000:.3g} GB",
    ]
    if resource.gpu_total or resource.gpu_limit:
        parts.append(f"GPU {resource.gpu_limit} of {resource.gpu_total}")
    return f"{', '.join(parts)} asked for"
