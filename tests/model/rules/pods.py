"""What the operator makes and takes away: at each moment only what was asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tests.model.contract import CREATING_SECONDS, NODE_GRACE_SECONDS, ROUNDING_SECONDS, SEEN_SECONDS
from tests.model.lives import NEVER, Life, Pod, Version
from tests.model.rules.rule import Rule
from tjworker.api.indices import MAX_INDEX, parse_indices

FRESH_SECONDS = 5.0
"""Between the last look at a job before a write and that write."""


def a_pod_is_made_because_it_is_wanted(life: Life) -> Iterator[str]:
    """By the spec as it was just then: its role, its index, the job neither suspended nor being deleted."""
    for pod in life.pods:
        if pod.made_by != "operator":
            continue
        at, wrong = pod.made_at, ""
        jobs = life.jobs(at - FRESH_SECONDS, at)
        if life.asked_at < at - FRESH_SECONDS:
            wrong = "the job was being deleted"
        elif jobs and all(job.suspend for job in jobs):
            wrong = "the job was suspended"
        elif not any(role.replicas > (pod.index or 0) for role in life.roles(pod.role, at - FRESH_SECONDS, at)):
            wrong = (
                f"of role {pod.role} were wanted {[r.replicas for r in life.roles(pod.role, at - FRESH_SECONDS, at)]}"
            )
        elif pod.attempt not in _attempts(life, pod, at):
            wrong = f"it is of attempt {pod.attempt}, the status had recorded {_attempts(life, pod, at)}"
        yield f"{pod.name} was made at {life.says(at)}: {wrong}" if wrong else ""


def _attempts(life: Life, pod: Pod, at: float) -> set[int]:
    """Those that the status said, newest last: data before action."""
    return {_attempt(version, pod) for version in life.during(at - FRESH_SECONDS, at)}


def _attempt(version: Version, pod: Pod) -> int:
    told = ((version.status.get("attempts") or {}).get("roles") or {}).get(pod.role) or {}
    return int(told.get("all", 0)) + int((told.get("pods") or {}).get(str(pod.index), 0))


def a_pod_is_taken_away_for_a_reason(life: Life) -> Iterator[str]:
    """By the operator: its attempt is over, its replica is not wanted, the job ends, is suspended or gone, its node is
    lost, or it cannot be started."""
    for pod in life.pods:
        if pod.asked_by != "operator" or pod.asked_at == NEVER:
            continue
        at = pod.asked_at
        jobs = life.jobs(at - SEEN_SECONDS, at)
        fine = (
            life.ending_at <= at
            or life.asked_at <= at
            or any(job.suspend for job in jobs)
            or any(role.replicas <= (pod.index or 0) for role in life.roles(pod.role, at - SEEN_SECONDS, at))
            or _attempt(life.at(at), pod) > pod.attempt
            or _node_lost(life, pod, at)
            or pod.waits_for_its_gang
            or (pod.running_at == NEVER and at - pod.made_at >= CREATING_SECONDS)
        )
        said = f"{pod.name} (attempt {pod.attempt}, on {pod.node}) was taken away at {life.says(at)}"
        yield "" if fine else f"{said}: nothing asked for that"


def pods_are_forced_out_of_lost_nodes_alone(life: Life) -> Iterator[str]:
    """With grace 0, and not before the node has been away for as long as promised."""
    for pod in life.pods:
        if pod.forced_at == NEVER:
            continue
        fine = _node_lost(life, pod, pod.forced_at)
        yield "" if fine else f"{pod.name} was forced out of {pod.node} at {life.says(pod.forced_at)}: it was not lost"


def _node_lost(life: Life, pod: Pod, at: float) -> bool:
    node = life.nodes.get(pod.node)
    return node is not None and any(
        since <= at - NODE_GRACE_SECONDS + ROUNDING_SECONDS and until >= at - ROUNDING_SECONDS
        for since, until in node.ill
    )


def what_has_succeeded_is_not_run_again(life: Life) -> Iterator[str]:
    """In one attempt: neither after a scaling down and up, nor after a suspension, nor when its pod is deleted."""
    for pod in life.pods:
        if pod.made_by != "operator" or pod.index is None:
            continue
        told = ((life.at(pod.made_at).status.get("attempts") or {}).get("roles") or {}).get(pod.role) or {}
        done = pod.index in parse_indices(str(told.get("completed", "")), MAX_INDEX) or _has_succeeded(life, pod)
        yield f"{pod.name} was made at {life.says(pod.made_at)}, and that index has succeeded" if done else ""


def _has_succeeded(life: Life, new: Pod) -> bool:
    """Where no restart reaches beyond its own pod, and the success was there to be seen for long enough."""
    assert new.index is not None
    earlier = life.of_index(new.role, new.index)
    seen = [one for one in earlier if one.succeeded and one.ended_at + SEEN_SECONDS < min(one.asked_at, new.made_at)]
    if not seen:
        return False
    return all(role.restart_scope == "Pod" for job in life.jobs(life.began_at, new.made_at) for role in job.roles)


RULES: Mapping[str, Rule] = {
    "a pod is made because it is wanted": a_pod_is_made_because_it_is_wanted,
    "a pod is taken away for a reason": a_pod_is_taken_away_for_a_reason,
    "pods are forced out of lost nodes alone": pods_are_forced_out_of_lost_nodes_alone,
    "what has succeeded is not run again": what_has_succeeded_is_not_run_again,
}
