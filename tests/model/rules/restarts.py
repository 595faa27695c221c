"""Restarts: each has its cause, is counted as that, and there are no more of them than the limits allow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tests.model.contract import (
    COUNTED_AS,
    CREATING_SECONDS,
    FIRST_REST_SECONDS,
    FREE_RESTARTS,
    MOST_REST_SECONDS,
    ROUNDING_SECONDS,
    RUN_TO_FORGET_SECONDS,
    SEEN_SECONDS,
    Cause,
)
from tests.model.lives import NEVER, Life, Pod, Version
from tests.model.losses import Lost, loss, losses, may_restart
from tests.model.rules.ends import own_restarts
from tests.model.rules.rule import Rule


def counts_have_causes(life: Life) -> Iterator[str]:
    """No more restarts of a role are counted for a cause than pods of it were lost for that cause, under a policy that
    replaces them."""
    for before, after in life.statuses():
        was, now = before.status.get("restartCounts") or {}, after.status.get("restartCounts") or {}
        for role, counts in now.items():
            for cause, count in counts.items():
                if count <= was.get(role, {}).get(cause, 0):
                    continue
                most = _most(life, role, cause, after.at)
                where = f"{life.name} counts {count} restarts of {role} as {cause} at {life.says(after.at)}"
                yield f"{where}; {most} of its pods were lost so" if count > most else ""


def _most(life: Life, role: str, cause: Cause, at: float) -> int:
    lost = [
        one
        for one in losses(life, role)
        if one.at <= at
        and cause in one.causes()
        and any(may_restart(how, one) for how in life.roles(role, one.at - SEEN_SECONDS, at))
    ]
    if cause == "application" and any(how.workload == "ReplicaSet" for how in life.roles(role, life.began_at, at)):
        return own_restarts(life, role, at)
    return len(lost)


def replacements_have_causes(life: Life) -> Iterator[str]:
    """A pod that takes another's place does so because that one, or one whose restart reaches as far, was lost and its
    policy replaces it; or the job was suspended or the replica not wanted in between."""
    for pod in life.pods:
        if pod.made_by != "operator" or pod.index is None:
            continue
        earlier = [one for one in life.of_index(pod.role, pod.index) if one.made_at < pod.made_at]
        if earlier:
            yield _wrongly_replaced(life, earlier[-1], pod)


def _wrongly_replaced(life: Life, old: Pod, new: Pod) -> str:
    between = life.jobs(old.made_at - 1, new.made_at)
    if old.waits_for_its_gang or any(job.suspend for job in between):
        return ""
    if any(role.replicas <= (new.index or 0) for role in life.roles(new.role, old.made_at - 1, new.made_at)):
        return ""
    if old.running_at == NEVER and new.made_at - old.made_at >= CREATING_SECONDS:
        return ""
    for role in {pod.role for pod in life.pods}:
        for lost in losses(life, role):
            if (
                lost.at <= new.made_at
                and lost.pod.lost_at >= old.made_at - SEEN_SECONDS
                and _reaches(life, lost, old, new)
            ):
                return ""
    why = loss(life, old)
    return (
        f"{new.name} was made at {life.says(new.made_at)} in the place of one"
        f" {'lost as ' + '/'.join(sorted(why.ways)) if why else 'that nothing had befallen'} at"
        f" {life.says(old.lost_at)}: its restartPolicy does not replace it"
    )


def _reaches(life: Life, lost: Lost, old: Pod, new: Pod) -> bool:
    for role in life.roles(lost.pod.role, lost.at - SEEN_SECONDS, new.made_at):
        if not may_restart(role, lost):
            continue
        if (
            lost.pod is old
            or role.restart_scope == "All"
            or (role.restart_scope == "Replica" and role.name == old.role)
        ):
            return True
    return False


def restarts_are_counted(life: Life) -> Iterator[str]:
    """Of a role whose pods are replaced alone: no fewer restarts are counted for a cause than pods have taken the place
    of one that was lost for it, before the first of these is made."""
    scopes: dict[str, set[str]] = {}
    for job in life.jobs(life.began_at, NEVER):
        for role in job.roles:
            if role.workload == "Pod":
                scopes.setdefault(role.name, set()).add(role.restart_scope)
    if any("All" in found for found in scopes.values()):
        return
    alone = {role for role, found in scopes.items() if found == {"Pod"}}
    replaced: dict[tuple[str, Cause], int] = {}
    for pod in sorted(life.pods, key=lambda one: one.made_at):
        if pod.made_by != "operator" or pod.index is None or pod.role not in alone:
            continue
        earlier = [one for one in life.of_index(pod.role, pod.index) if one.made_at < pod.made_at]
        lost = loss(life, earlier[-1]) if earlier else None
        if lost is None or lost.certain is None or _off(life, pod, earlier[-1]) or _left_no_trace(lost):
            continue
        cause = COUNTED_AS[lost.certain]
        replaced[pod.role, cause] = replaced.get((pod.role, cause), 0) + 1
        told = (life.at(pod.made_at).status.get("restartCounts") or {}).get(pod.role, {}).get(cause, 0)
        where = f"{pod.name} was made at {life.says(pod.made_at)}"
        yield (
            f"{where}, the {replaced[pod.role, cause]}. of {pod.role} in the place of one lost as {lost.certain};"
            f" counted are {told} restarts as {cause}"
            if told < replaced[pod.role, cause]
            else ""
        )


def _left_no_trace(lost: Lost) -> bool:
    """Gone between two looks, before anybody had seen it run: it may never have been."""
    quick = lost.pod.gone_at - lost.pod.asked_at < SEEN_SECONDS
    return lost.certain == "deleted" and quick and lost.pod.running_at > lost.at - SEEN_SECONDS


def _off(life: Life, new: Pod, old: Pod) -> bool:
    """It was not wanted in between: that it was lost need not count."""
    jobs = life.jobs(old.made_at, new.made_at)
    roles = life.roles(new.role, old.made_at, new.made_at)
    return any(job.suspend for job in jobs) or any(role.replicas <= (new.index or 0) for role in roles)


def failing_programs_rest(life: Life) -> Iterator[str]:
    """The first two restarts of a replica come at once; then it waits 10 s, doubling to 5 minutes, until it has run for
    ten minutes, or another than the operator takes away the failed pod that rests. Of several that fail together and
    begin anew together, one failure counts, whichever: so for one that fails alone later those may not have counted."""
    for pod in life.pods:
        if pod.made_by != "operator" or pod.index is None:
            continue
        earlier = sorted((one for one in life.of_index(pod.role, pod.index) if one.made_at < pod.made_at), key=_made)
        count = 0
        together = bool(earlier) and _with_others(life, earlier[-1], pod.made_at, ROUNDING_SECONDS)
        for one in earlier:
            lost = loss(life, one)
            counts = together or not _with_others(life, one, pod.made_at)
            fails = counts and lost is not None and lost.certain in ("retryable", "permanent")
            count = count + 1 if fails and one.over_at - one.running_at < RUN_TO_FORGET_SECONDS else 0
        if count <= FREE_RESTARTS or _off(life, pod, earlier[0]) or _rest_was_ended(life, earlier[-1], pod):
            continue
        least = min(MOST_REST_SECONDS, FIRST_REST_SECONDS * 2.0 ** (count - FREE_RESTARTS - 1))
        rested = pod.made_at - earlier[-1].ended_at
        where = f"{pod.name} was made at {life.says(pod.made_at)}, {rested:.1f} s after the {count}. failure in a row"
        yield f"{where}: it was to rest {least} s" if rested < least - ROUNDING_SECONDS else ""


def _rest_was_ended(life: Life, failed: Pod, new: Pod) -> bool:
    """Of pods that failed together and begin anew together, one stays and rests for all: its deletion was no doing of
    the operator, and is not waited for."""
    return any(
        max(other.ended_at, failed.ended_at) < other.asked_at <= new.made_at
        and other.asked_by != "operator"
        and _takes_along(life, other, failed, new.made_at)
        for other in life.pods
    )


def _with_others(life: Life, failed: Pod, until: float, within_seconds: float = SEEN_SECONDS) -> bool:
    others = (one for one in life.pods if one is not failed)
    return any(_takes_along(life, other, failed, until, within_seconds) for other in others)


def _takes_along(life: Life, other: Pod, failed: Pod, until: float, within_seconds: float = SEEN_SECONDS) -> bool:
    """Both have failed together, and the scope of the other's restart has this one in it."""
    if other.succeeded is not False or abs(other.ended_at - failed.ended_at) >= within_seconds:
        return False
    scopes = {role.restart_scope for role in life.roles(other.role, other.ended_at, until)}
    return "All" in scopes or ("Replica" in scopes and other.role == failed.role)


def _made(pod: Pod) -> float:
    return pod.made_at


def limits_hold(life: Life) -> Iterator[str]:
    """Never more restarts for its own failures than restartLimit of the role and backoffLimit of the job, as the spec
    has ever set them. Servers are restarted by their kubelet, which asks for no limit; they use up the others'."""
    jobs = life.jobs(life.began_at, NEVER)
    backoffs = [job.backoff_limit for job in jobs]
    for before, after in life.statuses():
        own, was = _own(after), _own(before)
        for role, count in own.items():
            limits = [one.restart_limit for one in life.roles(role, life.began_at, NEVER) if one.workload == "Pod"]
            most = max((limit for limit in limits if limit is not None), default=None)
            if most is not None and None not in limits:
                yield (
                    f"{life.name} has restarted {role} {count} times, its restartLimit is {most}"
                    if count > most
                    else ""
                )
        if backoffs and None not in backoffs:
            most = max(limit for limit in backoffs if limit is not None)
            batch = {role for job in jobs for role in job.batch_roles}
            counted = {role: count for role, count in own.items() if not batch or role in batch}
            total = sum(counted.values())
            servers = {role.name for job in jobs for role in job.roles if role.workload == "ReplicaSet"}
            restarted = any(count > was.get(role, 0) for role, count in counted.items() if role not in servers)
            where = f"{life.name} has restarted {total} times, its backoffLimit is {most}"
            yield where if total > most and restarted else ""


def _own(version: Version) -> Mapping[str, int]:
    """Role -> how often it was restarted for failures of its own."""
    counts = version.status.get("restartCounts") or {}
    return {role: count.get("application", 0) for role, count in counts.items()}


RULES: Mapping[str, Rule] = {
    "a restart is counted for a cause that was": counts_have_causes,
    "a pod takes another's place for a reason": replacements_have_causes,
    "each restart of a pod alone is counted, as what it was": restarts_are_counted,
    "restartLimit and backoffLimit hold": limits_hold,
    "a program that fails again and again rests": failing_programs_rest,
}
