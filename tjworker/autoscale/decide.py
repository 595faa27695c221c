"""decide(jobs, cluster, now) -> the new target of each role that should change. Pure: no I/O, no clock.

A policy says what each role should have. These rules hold for every policy:

- Without a usable node nothing is planned: the projection lacks something, or the cluster is in trouble itself.
- Nothing is reversed within the cool-down: a role that shrank does not grow, and a role that grew shrinks only when
  room is needed.
- A replica that stays unschedulable for the whole cool-down is taken back: the scheduler knows more about nodes than we
  do (taints, affinity, volumes). It is tried again after ten times as long.
- Never below the minimum, never above the maximum. All moves of a run are decided together, those that make room first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tjworker.api.node_requests import NOTHING, WAITING, NodeRequests
from tjworker.api.observed import NodeRecord
from tjworker.api.timefmt import from_rfc3339
from tjworker.autoscale.cluster import cluster_resource
from tjworker.autoscale.dryrun import cpu_reach
from tjworker.autoscale.policies import POLICIES
from tjworker.autoscale.problem import Problem
from tjworker.autoscale.resources import ClusterResource
from tjworker.autoscale.roles import AutoRole, as_decided, auto_roles, held_back
from tjworker.autoscale.state import JobState, find_pending_job, find_training_jobs_might_be_rescheduled

REFUSED = "the scheduler has found no node"
"""Part of the reason of a replica taken back; the next run knows it from the record in the status."""
REFUSED_REST = 10
"""Cool-downs until it is tried again."""


@dataclass(frozen=True, slots=True)
class Rules:
    """From the settings."""

    policy: str = "fulfillment"
    max_load_desired: float = 0.97
    cooldown_seconds: float = 30.0
    gpu_resources: tuple[str, ...] = ("nvidia.com/gpu",)


@dataclass(frozen=True, slots=True)
class Move:
    """A role's new target, and why."""

    state: JobState
    role: str
    from_: int
    to: int
    reason: str


@dataclass(frozen=True, slots=True)
class Decision:
    moves: tuple[Move, ...] = ()
    roles: int = 0
    """How many roles are autoscaled."""
    load: str = ""
    """What pods request of the cluster, in words."""
    problems: tuple[str, ...] = field(default=())


def decide(
    states: Sequence[JobState],
    nodes: Mapping[str, NodeRecord],
    requests: Mapping[str, NodeRequests],
    now: float,
    rules: Rules,
) -> Decision:
    """`now` is in Unix seconds."""
    roles, problems = auto_roles(states, rules.gpu_resources)
    resource = cluster_resource(nodes, requests, rules.gpu_resources)
    if not roles or not resource.node_count:
        why = "nothing to move" if not roles else "no node is ready and schedulable"
        return Decision(roles=len(roles), load=why, problems=tuple(problems))
    resource = as_decided(resource, roles)
    have_pending = find_pending_job(states) or requests.get(WAITING, NOTHING).pods > 0
    movable = {id(state) for state in find_training_jobs_might_be_rescheduled(states, have_pending)}
    moving = [auto for auto in roles if id(auto.state) in movable]
    jobs = [held_back(auto, resting=moved(auto, now, rules) < 0) for auto in moving]
    diff = POLICIES[rules.policy](Problem(jobs, resource, rules.max_load_desired))
    needed = room_is_needed(resource, rules.max_load_desired)
    load = _load(resource)
    moves = (_move(auto, diff.get(auto.elastic.name, 0), needed, load, now, rules) for auto in moving)
    return Decision(_ordered(moves), len(roles), load, tuple(problems))


def room_is_needed(resource: ClusterResource, max_load_desired: float) -> bool:
    """Pods request more than there is."""
    return (
        resource.cpu_request_milli > cpu_reach(resource, max_load_desired)
        or resource.memory_request_mega > resource.memory_total_mega
        or resource.gpu_limit > resource.gpu_total
    )


def _move(auto: AutoRole, step: int, needed: bool, load: str, now: float, rules: Rules) -> Move | None:
    was = auto.elastic.parallelism
    least, most = auto.elastic.min_instance, auto.elastic.max_instance
    to = min(max(was + step, least), most)
    why = f"room for {to - was} more" if to > was else "room is needed"
    if to < was <= most and not needed and moved(auto, now, rules) > 0:
        to = was
    refused = _refused(auto, now, rules)
    if refused and max(least, was - refused) < to:
        to = max(least, was - refused)
        why = f"{REFUSED} for {refused} of them for {rules.cooldown_seconds:.0f} s"
    return Move(auto.state, auto.role.name, was, to, f"autoscaler: {why} ({load})") if to != was else None


def moved(auto: AutoRole, now: float, rules: Rules) -> int:
    """By how much the target was last changed, if the cool-down after that is not over; else 0."""
    record = next((r for r in auto.state.job.status.scale_records if r.role == auto.role.name), None)
    at = from_rfc3339(record.time) if record is not None else None
    if record is None or at is None:
        return 0
    if now - at >= rules.cooldown_seconds * (REFUSED_REST if REFUSED in record.reason else 1):
        return 0
    return record.to - record.from_


def _refused(auto: AutoRole, now: float, rules: Rules) -> int:
    """Replicas that have been unschedulable for the whole cool-down."""
    created = (from_rfc3339(pod.created_at) for pod in auto.waiting if pod.unschedulable)
    return sum(at is not None and now - at >= rules.cooldown_seconds for at in created)


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
