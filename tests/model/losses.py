"""Why a pod was lost: the column of the table of restarts that it belongs to. Where two things befell it, each of them
is allowed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tests.model.contract import (
    COUNTED_AS,
    FAILURES,
    NODE_GRACE_SECONDS,
    RESTARTS,
    ROUNDING_SECONDS,
    SEEN_SECONDS,
    Cause,
    Loss,
)
from tests.model.lives import NEVER, Life, Node, Pod
from tjworker.api.model import Role, TrainingJob

_TURNED_AWAY = (
    "OutOf",
    "UnexpectedAdmissionError",
    "TopologyAffinityError",
    "NodeAffinity",
    "NodePorts",
    "Terminated",
    "NodeShutdown",
    "Shutdown",
)


@dataclass(frozen=True, slots=True)
class Lost:
    pod: Pod
    at: float
    ways: frozenset[Loss]
    """What it may be taken for; one where there is no doubt."""

    def causes(self) -> frozenset[Cause]:
        return frozenset(COUNTED_AS[way] for way in self.ways)

    @property
    def certain(self) -> Loss | None:
        return next(iter(self.ways)) if len(self.ways) == 1 else None


def losses(life: Life, role: str) -> list[Lost]:
    """Of a role, in the order in which they came. What the operator itself took away is none."""
    found = [lost for pod in life.of_role(role) if (lost := loss(life, pod)) is not None]
    return sorted(found, key=lambda lost: lost.at)


def loss(life: Life, pod: Pod) -> Lost | None:
    seen = list(_ways(life, pod))
    if not seen:
        return None
    at = min(when for when, _ in seen)
    return Lost(pod, at, frozenset(way for _, way in seen))


def _ways(life: Life, pod: Pod) -> Iterator[tuple[float, Loss]]:
    """What befell it until it was gone, each with its time."""
    yield from _deleted(pod)
    yield from _left_behind(life, pod)
    if pod.ended_at < min(pod.asked_at, NEVER) and not pod.succeeded:
        yield from ((pod.ended_at, way) for way in _failure(life, pod))
    elif pod.disruption and pod.lost_at < NEVER:
        yield pod.lost_at, "preempted" if pod.disruption == "PreemptionByScheduler" else "evicted"
    node = life.nodes.get(pod.node)
    if node is not None:
        yield from _node_lost(node, pod)
        yield from _gpu_fault(life, node, pod)
    if pod.device_ill_at < NEVER:
        yield pod.device_ill_at, "gpu fault"


def _deleted(pod: Pod) -> Iterator[tuple[float, Loss]]:
    if pod.asked_at == NEVER or pod.asked_by == "operator":
        return
    # A pod that is removed between two looks leaves no trace: neither of what deleted it, nor of its success.
    had_succeeded = pod.succeeded and pod.ended_at < pod.asked_at - SEEN_SECONDS
    if pod.asked_by == "unknown":
        # The operator, a user or a controller: anything but a failure of its own.
        yield from ((pod.asked_at, way) for way in ("deleted", "evicted", "preempted", "node lost"))
    elif pod.asked_by == "user":
        if not had_succeeded:
            yield pod.asked_at, "deleted"
    elif not pod.disruption:
        # A controller's: its owner was deleted or scaled down, which leaves no trace of why.
        yield pod.asked_at, "deleted"
    if pod.gone_at - pod.lost_at < SEEN_SECONDS and not had_succeeded:
        yield pod.gone_at, "deleted"  # between two looks


def _left_behind(life: Life, pod: Pod) -> Iterator[tuple[float, Loss]]:
    """Its ReplicaSet or batch Job was deleted. Kubernetes' garbage collector takes the pod then, now or much later, or
    forgets it: in any case it counts for nothing any more."""
    for thing in life.things:
        if thing.uid == pod.keeper and thing.gone_by != "operator" and thing.gone_at < pod.lost_at:
            yield thing.gone_at, "deleted"


def _node_lost(node: Node, pod: Pod) -> Iterator[tuple[float, Loss]]:
    for began, until in node.ill:
        since = max(began, pod.bound_at)
        if since < pod.over_at and min(until, pod.over_at) - since >= NODE_GRACE_SECONDS - 1:
            yield since + NODE_GRACE_SECONDS - 1, "node lost"
        elif since < pod.gone_at and until > pod.made_at and pod.lost_at < until + NODE_GRACE_SECONDS:
            yield max(since, pod.made_at), "node lost"  # it may be taken for that


def _gpu_fault(life: Life, node: Node, pod: Pod) -> Iterator[tuple[float, Loss]]:
    """A condition that came after the pod, or more GPUs held by the job's pods there than the node has."""
    for since, _ in node.gpu_ill:
        if pod.bound_at - ROUNDING_SECONDS <= since < pod.over_at:
            yield since, "gpu fault"
    if pod.gpus:
        here = [one for one in life.pods if one.node == pod.node and one.gpus]
        for at in (*(at for at, _ in node.gpus), *(one.bound_at for one in here)):
            held = sum(one.gpus for one in here if one.bound_at <= at < one.over_at)
            if pod.bound_at <= at < pod.over_at and held > node.gpus_at(at):
                yield at, "gpu fault"


def gpu_faults(life: Life, pod: Pod) -> Iterator[tuple[float, float]]:
    """From when until when it had one, beyond doubt."""
    node = life.nodes.get(pod.node)
    if pod.device_ill_at < NEVER:
        yield pod.device_ill_at, NEVER
    if node is None:
        return
    yield from (span for span in node.gpu_ill if pod.bound_at + ROUNDING_SECONDS < span[0] < pod.over_at)
    if pod.gpus:
        here = [one for one in life.pods if one.node == pod.node and one.gpus]
        moments = {pod.bound_at, *(at for at, _ in node.gpus)}
        moments |= {at for one in here for at in (one.bound_at, one.over_at)}
        since: float | None = None
        for at in sorted(moment for moment in moments if pod.bound_at <= moment <= pod.over_at):
            held = sum(one.gpus for one in here if one.bound_at <= at < one.over_at)
            if held > node.gpus_at(at):
                since = at if since is None else since
            elif since is not None:
                yield since + NODE_GRACE_SECONDS, at
                since = None
        if since is not None:
            yield since + NODE_GRACE_SECONDS, NEVER


def _failure(life: Life, pod: Pod) -> Iterator[Loss]:
    if pod.disruption == "PreemptionByScheduler" or pod.reason == "Preempting":
        yield "preempted"
    elif pod.disruption or pod.reason.startswith(_TURNED_AWAY):
        yield "evicted"
        if pod.running_at == NEVER:
            yield "deleted"  # turned away before it started: made again under every policy
    elif pod.reason == "Evicted":
        # For the program's own limits, or because the node had no more: without DisruptionTarget both readings hold.
        yield from ("evicted", "retryable", "permanent")
        if pod.running_at == NEVER:
            yield "deleted"  # a kubelet may have turned it away under the same name
    elif pod.reason == "NodeLost":
        yield "node lost"
    else:
        jobs = life.jobs(pod.ended_at - 1, NEVER)
        for job in jobs:
            yield "retryable" if _retryable(job, pod) else "permanent"


def _retryable(job: TrainingJob, pod: Pod) -> bool:
    codes = [code for code in pod.exit_codes if code]
    return bool(codes) and all(code in job.retryable_exit_codes for code in codes)


def own_failures(life: Life, role: str, at: float) -> int:
    return sum("application" in lost.causes() and lost.at <= at for lost in losses(life, role))


def may_be_final(life: Life, lost: Lost, at: float) -> bool:
    """Some policy or limit that was in force by then lets its replica stay failed."""
    jobs = life.jobs(lost.at - SEEN_SECONDS, at)
    roles = [role for job in jobs for role in job.roles if role.name == lost.pod.role]
    if any(may_fail(role, lost) for role in roles):
        return True
    if "application" not in lost.causes() or not lost.ways & FAILURES:
        return False
    counts = {name: own_failures(life, name, at) for name in {pod.role for pod in life.pods}}
    limits = [(role.restart_limit, counts[role.name]) for role in roles]
    limits += [(job.backoff_limit, sum(counts.values())) for job in jobs]
    return any(limit is not None and count > limit for limit, count in limits)


def may_restart(role: Role, lost: Lost) -> bool:
    return bool(lost.ways & RESTARTS[role.restart_policy])


def must_restart(role: Role, lost: Lost) -> bool:
    return bool(lost.ways) and lost.ways <= RESTARTS[role.restart_policy]


def may_fail(role: Role, lost: Lost) -> bool:
    return bool((lost.ways & FAILURES) - RESTARTS[role.restart_policy])


def must_fail(role: Role, lost: Lost) -> bool:
    return bool(lost.ways) and lost.ways <= FAILURES and not lost.ways & RESTARTS[role.restart_policy]
