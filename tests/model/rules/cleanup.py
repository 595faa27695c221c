"""The end: which pods go, which stay, when it is over, and when the job itself goes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tests.model.contract import GRACE_SECONDS, ROUNDING_SECONDS, SEEN_SECONDS
from tests.model.lives import NEVER, Life, Pod
from tests.model.rules.rule import Rule
from tjworker.api.timefmt import from_rfc3339


def an_end_takes_what_its_policy_says(life: Life) -> Iterator[str]:
    """Once the end phase stands there: of All no pod and no service is left, of Running none that runs."""
    if life.ended_at == NEVER or (job := life.at(life.ended_at).job) is None:
        return
    policies = _policies(life, "", life.ended_at)
    at = life.ended_at
    if "None" in policies or _reason(life) == "InvalidSpec":
        return
    running = {role: "Running" in _policies(life, role, life.ended_at) for role in {pod.role for pod in life.pods}}
    keepers = {thing.uid: thing.gone_at for thing in life.things}
    pods = [
        pod.name
        for pod in life.pods
        if pod.there(at)
        and (not running[pod.role] or pod.alive(at))
        and keepers.get(pod.keeper, NEVER) > at  # else it goes with its ReplicaSet or batch Job, which is gone already
    ]
    held = {pod.name for pod in life.pods if pod.there(at)}
    services = [
        t.name for t in life.things if t.bucket == "services" and t.made_at <= at < t.gone_at and t.name not in held
    ]
    deleting = [t.name for t in life.things if "deletionTimestamp" in t.raw["metadata"]]
    left = [*pods, *(name for name in services if name not in deleting)]
    where = f"{job.name.name} ended at {life.says(at)} with cleanPodPolicy {'/'.join(sorted(policies))}"
    yield f"{where}, and left are {left}" if left else ""


def an_end_leaves_what_its_policy_keeps(life: Life) -> Iterator[str]:
    """The operator takes no pod of None, and of Running none that has ended."""
    if life.ending_at == NEVER:
        return
    phase = (life.at(life.ending_at).status.get("ending") or {}).get("phase")
    forced = phase in ("Preempted", "Timeout", "NodeFail")
    for pod in life.pods:
        policies = _policies(life, pod.role, NEVER)
        if not pod.there(life.ending_at) or "All" in policies or not policies:
            continue
        kept = pod.ended_at <= life.ending_at if "Running" in policies or forced else True
        if not kept:
            continue
        taken = pod.asked_by == "operator" and life.ending_at < pod.asked_at < life.asked_at
        wrong = taken and pod.attempt >= max(one.attempt for one in life.of_role(pod.role)) and not _surplus(life, pod)
        where = f"{pod.name} was taken away at {life.says(pod.asked_at)}, after the end that was decided at"
        yield f"{where} {life.says(life.ending_at)}, with cleanPodPolicy {'/'.join(sorted(policies))}" if wrong else ""


def _surplus(life: Life, pod: Pod) -> bool:
    return any(role.replicas <= (pod.index or 0) for role in life.roles(pod.role, life.ending_at - SEEN_SECONDS, NEVER))


def an_end_is_over_in_time(life: Life) -> Iterator[str]:
    """Pods that have to go are told so; from Terminating to its end as soon as none of them is left."""
    if life.ending_at == NEVER:
        return
    of = {role: _policies(life, role, NEVER) for role in {pod.role for pod in life.pods}}
    going = [pod for pod in life.pods if pod.there(life.ending_at) and of[pod.role] == {"All"}]
    going += [pod for pod in life.pods if pod.alive(life.ending_at) and of[pod.role] not in ({"All"}, {"None"})]
    policies = _policies(life, "", NEVER)
    told = life.ending_at + life.due_seconds
    if told < min(life.until, life.asked_at, life.gone_at):
        left = [pod.name for pod in going if pod.lost_at > told]
        where = (
            f"{life.name} was to end at {life.says(life.ending_at)} with cleanPodPolicy {'/'.join(sorted(policies))}"
        )
        yield f"{where}, and by {life.says(told)} nobody has told these to go: {left}" if left else ""
    last = max([life.ending_at, *(pod.gone_at if policies == {"All"} else pod.over_at for pod in going)])
    late = last + life.due_seconds + GRACE_SECONDS
    if late >= min(life.until, life.asked_at, life.gone_at):
        return
    where = (
        f"{life.name} was to end at {life.says(life.ending_at)}, and the last of its pods was gone at {life.says(last)}"
    )
    yield "" if life.ended_at <= late else f"{where}: its end was due by {life.says(late)}"


def an_ended_job_goes_after_its_ttl(life: Life) -> Iterator[str]:
    """Not before, and in time; no other job is deleted by the operator."""
    if life.asked_by == "operator" and life.asked_at < NEVER:
        limits = [job.ttl_seconds_after_finished for job in life.jobs(life.ended_at, life.asked_at)]
        since = from_rfc3339(life.versions[-1].status.get("completionTime"))
        lived = None if since is None else life.asked_at - since
        fine = lived is not None and any(limit is not None and lived >= limit - ROUNDING_SECONDS for limit in limits)
        where = f"{life.name} was deleted by the operator at {life.says(life.asked_at)}"
        yield "" if fine else f"{where}, {lived} s after its end; ttlSecondsAfterFinished is {limits}"
    elif life.ended_at < NEVER:
        jobs = life.jobs(life.ended_at, NEVER)
        limits = [job.ttl_seconds_after_finished for job in jobs]
        whole = [limit for limit in limits if limit is not None]
        late = life.versions[-1].at + max(whole, default=0) + life.due_seconds
        if whole and len(whole) == len(limits) and life.until > late and life.asked_at > late:
            yield f"{life.name} ended at {life.says(life.ended_at)}, its TTL is {max(whole)}, and it is still there"


def _policies(life: Life, role: str, until: float) -> set[str]:
    """Of the pods of this role, by every version of the spec that the end may have been decided on."""
    found: set[str] = set()
    for job in life.jobs(life.ending_at - SEEN_SECONDS, until):
        limit = job.limit_clean_policy if _reason(life) in ("DeadlineExceeded", "BackoffLimitExceeded") else None
        found.add("Running" if role in job.batch_roles else limit or job.clean_pod_policy)
    return found


def _reason(life: Life) -> str:
    return str((life.at(life.ending_at).status.get("ending") or {}).get("reason", ""))


RULES: Mapping[str, Rule] = {
    "an end takes what cleanPodPolicy says": an_end_takes_what_its_policy_says,
    "an end leaves what cleanPodPolicy keeps": an_end_leaves_what_its_policy_keeps,
    "an end is over once its pods are gone": an_end_is_over_in_time,
    "an ended job goes after its TTL": an_ended_job_goes_after_its_ttl,
}
