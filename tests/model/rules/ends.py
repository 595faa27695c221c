"""Why a job may end, and what may not be after its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from tests.model.contract import (
    ANNOTATIONS,
    ROUNDING_SECONDS,
    SEEN_SECONDS,
    SERVER_RESTARTS,
    WAYS,
    End,
    Replica,
    job_ends,
    role_ends,
)
from tests.model.lives import NEVER, Life, Pod
from tests.model.losses import losses, may_be_final, own_failures
from tests.model.rules.rule import Rule
from tjworker.api.model import Role, TrainingJob
from tjworker.api.timefmt import from_rfc3339

Why = Callable[[Life, float], str]
"""(life, when its end was decided) -> why that was wrong, or ""."""


def an_end_has_its_reason(life: Life) -> Iterator[str]:
    """What the end says has come to pass, seen from outside."""
    if life.ending_at == NEVER:
        return
    status = life.at(life.ending_at).status
    ending = status.get("ending") or _said(status)
    reason, at = str(ending.get("reason", "")), life.ending_at
    if reason in ("InvalidSpec", ""):
        yield "" if reason else f"{life.name} ended at {life.says(at)} and does not say why: {status}"
        return
    where = f"{life.name} ends in {ending['phase']}, {reason}, at {life.says(at)} ({ending.get('message', '')})"
    if reason not in WAYS or ending["phase"] != WAYS[reason]:
        yield f"{where}: that is no way to an end"
        return
    wrong = (
        _annotated(life, at, reason, str(ending.get("message", "")))
        if reason in ANNOTATIONS
        else _WHY[reason](life, at)
    )
    yield f"{where}: {wrong}" if wrong else ""


def _said(status: Mapping[str, object]) -> Mapping[str, str]:
    conditions = status.get("conditions") or ()
    assert isinstance(conditions, list | tuple)
    found = [c for c in conditions if c["type"] in ("Succeeded", "Failed") and c["status"] == "True"]
    return {
        "phase": str(status.get("phase")),
        **({"reason": found[0]["reason"], "message": found[0]["message"]} if found else {}),
    }


def _annotated(life: Life, at: float, reason: str, message: str) -> str:
    told = {job.annotations.get(ANNOTATIONS[reason]) for job in life.jobs(at - SEEN_SECONDS, at)} - {None}
    if not told:
        return f"there was no annotation {ANNOTATIONS[reason]}"
    return "" if message in told or "" in told else f"the annotation says {told}"


# -- complete ----------------------------------------------------------------------------------------


def _completed(life: Life, at: float) -> str:
    moments = [at, *(pod.ended_at for pod in life.pods if at - SEEN_SECONDS <= pod.ended_at <= at)]
    for job in life.jobs(at - SEEN_SECONDS, at):
        for moment in moments:
            ends = [_role_may_be(life, role, moment) for role in job.roles if role.complete_policy != "None"]
            waited = [
                end
                for end, role in zip(ends, (r for r in job.roles if r.complete_policy != "None"), strict=True)
                if role.replicas
            ]
            if job_ends(job.complete_policy, waited, "complete") or _enough(life, job, moment):
                return ""
    return f"not every replica that counts has succeeded: {_states(life, at)}"


def _enough(life: Life, job: TrainingJob, at: float) -> bool:
    """Of a kind that counts successes over roles."""
    if job.enough is None:
        return False
    states = [
        state for role in job.roles if role.name in job.enough.roles for state in replicas(life, role, at).values()
    ]
    return states.count("succeeded") >= job.enough.replicas


def _role_may_be(life: Life, role: Role, at: float) -> End:
    if role.workload == "Job":
        return _trainers_may_be(life, role, at)
    states = without_idle(life, role, replicas(life, role, at), at)
    failing = {index: "succeeded" if state == "succeeded" else "runs" for index, state in states.items()}
    return role_ends(role.complete_policy, "None", failing)  # type: ignore[arg-type]


def _trainers_may_be(life: Life, role: Role, at: float) -> End:
    """Fault tolerant: one has succeeded, and the others have ended. Else all have succeeded; or, of an elastic role,
    minReplicas of them, and no other runs."""
    pods = life.of_role(role.name)
    succeeded = sum(pod.succeeded and pod.ended_at <= at for pod in pods)
    started = [pod for pod in pods if pod.running_at <= at and pod.alive(at) and pod.asked_at > at]
    if role.elastic and succeeded >= max(1, role.min_replicas or 0) and not started:
        return "complete"
    running = [pod for pod in pods if pod.alive(at) and pod.asked_at > at]
    tolerant = role.restart_policy == "Always"
    if succeeded >= role.replicas or (tolerant and succeeded and not running):
        return "complete"
    return "-"


def replicas(life: Life, role: Role, at: float) -> dict[int, Replica]:
    """How each replica that is wanted stood then: the newest pod of each index decides."""
    found: dict[int, Replica] = {}
    for index in range(role.replicas):
        pods = [pod for pod in life.of_index(role.name, index) if pod.made_at <= at]
        newest = max(pods, key=lambda pod: pod.made_at, default=None)
        if newest is None or newest.ended_at > at:
            # One that has succeeded is not run again after scaling down and up.
            found[index] = "runs"
        else:
            found[index] = "succeeded" if newest.succeeded else "failed"
    return found


def without_idle(life: Life, role: Role, states: dict[int, Replica], at: float) -> dict[int, Replica]:
    """Without the replicas of an elastic role beyond minReplicas that have never started, where any has succeeded."""
    if not role.elastic or "succeeded" not in states.values():
        return states
    least = role.min_replicas or 0

    def has_started(index: int) -> bool:
        return any(min(pod.running_at, pod.ended_at) <= at for pod in life.of_index(role.name, index))

    return {index: state for index, state in states.items() if index < least or has_started(index)}


def _states(life: Life, at: float) -> str:
    job = life.at(at).job
    return "invalid" if job is None else str({role.name: replicas(life, role, at) for role in job.roles})


# -- failed --------------------------------------------------------------------------------------------


def _failed(life: Life, at: float) -> str:
    """Some policy that was in force lets a failure that has been stay one, and the policies of the role and the job end
    the job for it."""
    for job in life.jobs(at - SEEN_SECONDS, at):
        ends = [_role_may_fail(life, role, at) for role in job.roles if role.fail_policy != "None"]
        present = [
            end
            for end, role in zip(ends, (r for r in job.roles if r.fail_policy != "None"), strict=True)
            if role.replicas
        ]
        if job_ends(job.fail_policy, present, "failed"):
            return ""
    lost = {
        role: [(one.pod.name, life.says(one.at), sorted(one.ways)) for one in losses(life, role)[-4:]]
        for role in {p.role for p in life.pods}
    }
    return f"no replica has failed for good: {lost}, {_states(life, at)}"


def _node_lost(life: Life, at: float) -> str:
    """As a failure for good, and it was a node that took the pod."""
    roles = {pod.role for pod in life.pods}
    taken = any("node lost" in lost.ways and lost.at <= at for role in roles for lost in losses(life, role))
    return _failed(life, at) if taken else "no pod was lost with its node"


def _role_may_fail(life: Life, role: Role, at: float) -> End:
    if role.workload == "Job":
        return _trainers_may_fail(life, role, at)
    failed: dict[int, Replica] = dict.fromkeys(range(role.replicas), "runs")
    for lost in losses(life, role.name):
        index = lost.pod.index
        if index in failed and lost.at <= at and may_be_final(life, lost, at):
            failed[index] = "failed"
    for index, state in replicas(life, role, at).items():
        if state == "succeeded" and failed[index] == "runs":
            failed[index] = "succeeded"
    return role_ends("Rank0" if role.complete_policy == "Rank0" else "All", role.fail_policy, failed)


def _trainers_may_fail(life: Life, role: Role, at: float) -> End:
    lost = [one for one in losses(life, role.name) if one.at <= at]
    own = [one for one in lost if one.ways & {"retryable", "permanent"}]
    if role.restart_policy != "Always":
        taken = [one for one in lost if one.ways - {"deleted", "gpu fault"}]
        return "failed" if taken else "-"
    moments = [one.at for one in lost if one.at >= at - SEEN_SECONDS] + [at]
    left = min(
        sum(pod.alive(moment + 0.001) and pod.asked_at > moment for pod in life.of_role(role.name))
        for moment in moments
    )
    return "failed" if own and left == 0 else "-"


def _limit_reached(life: Life, at: float) -> str:
    """One role has had as many failures of its own as its limit, and one more; or one server as many restarts."""
    for job in life.jobs(at - SEEN_SECONDS, at):
        for role in job.roles:
            if role.workload == "ReplicaSet":
                limit = SERVER_RESTARTS if role.restart_limit is None else role.restart_limit
                if max((_restarts(pod, at) for pod in life.of_role(role.name)), default=0) >= max(1, limit):
                    return ""
            elif role.restart_limit is not None and own_failures(life, role.name, at) > role.restart_limit:
                return ""
    counts = {role: own_failures(life, role, at) for role in {pod.role for pod in life.pods}}
    return f"no role has failed by itself more often than its limit, and no server was restarted so often: {counts}"


def _backoff_exceeded(life: Life, at: float) -> str:
    jobs = life.jobs(at - SEEN_SECONDS, at)
    servers = {role.name for job in jobs for role in job.roles if role.workload == "ReplicaSet"}
    count = {True: own_restarts, False: own_failures}
    failures = sum(count[role in servers](life, role, at) for role in {pod.role for pod in life.pods})
    limits = [job.backoff_limit for job in jobs if job.backoff_limit is not None]
    return "" if any(failures > limit for limit in limits) else f"{failures} failures of its own, backoffLimit {limits}"


def own_restarts(life: Life, role: str, at: float) -> int:
    """Of servers: of their containers, and of pods that ended by themselves."""
    return own_failures(life, role, at) + sum(_restarts(pod, at) for pod in life.of_role(role))


def _restarts(pod: Pod, at: float) -> int:
    return max((count for when, count in pod.restarts if when <= at), default=0)


# -- limits of time ----------------------------------------------------------------------------------


def _time_limit(life: Life, at: float) -> str:
    return _too_early(
        life, at, "startRunningTime", [job.time_limit_seconds for job in life.jobs(at - SEEN_SECONDS, at)]
    )


def _deadline(life: Life, at: float) -> str:
    return _too_early(life, at, "startTime", [job.active_deadline_seconds for job in life.jobs(at - SEEN_SECONDS, at)])


def _too_early(life: Life, at: float, start: str, limits: list[int | None]) -> str:
    since = from_rfc3339(life.at(at).status.get(start))
    least = min((limit for limit in limits if limit is not None), default=None)
    if since is None or least is None:
        return f"there was no such limit, or {start} is {since}"
    suspended = life.seconds_of("Suspended", since, at)
    count = sum(
        before.status.get("phase") != "Suspended" == after.status.get("phase") for before, after in life.statuses()
    )
    counted = at - since - suspended
    early = counted < least - ROUNDING_SECONDS * (1 + count)
    return f"{counted:.0f} s have counted ({suspended:.0f} s suspended), the limit is {least}" if early else ""


_WHY: Mapping[str, Why] = {
    "Completed": _completed,
    "ReplicaFailed": _failed,
    "NodeLost": _node_lost,
    "RestartLimitReached": _limit_reached,
    "BackoffLimitExceeded": _backoff_exceeded,
    "TimeLimitExceeded": _time_limit,
    "DeadlineExceeded": _deadline,
}


def nothing_is_made_after_an_end(life: Life) -> Iterator[str]:
    """By the operator, from when its end was decided on."""
    if life.ending_at == NEVER:
        return
    late = [write for write in life.made if write.at > life.ending_at]
    yield from (
        f"{life.name}'s end was decided at {life.says(life.ending_at)}, and {write.bucket}/{write.name} was made at"
        f" {life.says(write.at)}"
        for write in late
    )
    if not late:
        yield ""


RULES: Mapping[str, Rule] = {
    "an end has its reason": an_end_has_its_reason,
    "nothing is made after an end": nothing_is_made_after_an_end,
}
