"""What must come, and by when: pods that are wanted, ends that are due, suspensions, pods of lost nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from tests.model.contract import (
    ANNOTATIONS,
    FIRST_REST_SECONDS,
    FREE_RESTARTS,
    GPU_REST_SECONDS,
    GRACE_SECONDS,
    LAUNCHER,
    MOST_REST_SECONDS,
    NODE_GRACE_SECONDS,
    RESTARTS,
    SEEN_SECONDS,
    End,
    Replica,
    job_ends,
    role_ends,
)
from tests.model.lives import NEVER, Life, Pod
from tests.model.losses import gpu_faults, loss, losses, may_be_final, must_fail, must_restart, own_failures
from tests.model.rules.ends import replicas
from tests.model.rules.rule import Rule
from tjworker.api.model import Role, TrainingJob
from tjworker.api.timefmt import from_rfc3339

Span = tuple[float, float]


def each_replica_has_its_pod(life: Life) -> Iterator[str]:
    """A replica that is wanted, and whose last pod was lost for what its policy replaces (or that has had none), has a
    pod again in time."""
    most: dict[str, int] = {}
    for job in life.jobs(life.began_at, NEVER):
        for role in job.roles:
            if role.workload == "Pod":
                most[role.name] = max(most.get(role.name, 0), role.replicas)
    for name, count in most.items():
        for index in range(count):
            wanted = _wanted(life, name, index)
            for last, first, until in _gaps(life, name, index):
                yield from _missing(life, name, index, last, [(max(a, first), min(b, until)) for a, b in wanted])


def _wanted(life: Life, role: str, index: int) -> list[Span]:
    """When it was, without a break."""
    spans: list[Span] = []
    for version in life.versions:
        job = version.job
        if job is None or job.suspend or not any(r.name == role and r.replicas > index for r in job.roles):
            continue
        until = min(version.until, life.over_at, life.until)
        if spans and spans[-1][1] == version.at:
            spans[-1] = (spans[-1][0], until)
        else:
            spans.append((version.at, until))
    return spans


def _gaps(life: Life, role: str, index: int) -> Iterator[tuple[Pod | None, float, float]]:
    """The times without a pod that lives: after which one, from when, until when. As long as a pod of an earlier job
    has its name there can be none."""
    last: Pod | None = None
    since = max([life.began_at, *(pod.gone_at for one in life.earlier for pod in one.of_index(role, index))])
    for pod in sorted(life.of_index(role, index), key=lambda one: one.made_at):
        yield last, since, pod.made_at
        last, since = pod, pod.over_at
    if since < life.until:
        yield last, since, NEVER


def _missing(life: Life, role: str, index: int, last: Pod | None, spans: list[Span]) -> Iterator[str]:
    for since, until in spans:
        if until <= since:
            continue
        rests = _rest(life, until)
        if until - since <= life.due_seconds + rests or _need_not(life, role, last, since, until):
            yield ""
            continue
        why = "it has had none" if last is None else _told(life, last)
        yield (
            f"{role}-{index} of {life.name} was wanted from {life.says(since)} on, {why}: a pod was due by"
            f" {life.says(since + life.due_seconds + rests)}; none came until {life.says(until)}"
        )


def _told(life: Life, pod: Pod) -> str:
    lost = loss(life, pod)
    policy = [role.restart_policy for role in life.roles(pod.role, pod.over_at, NEVER)][:1]
    ways = "/".join(sorted(lost.ways)) if lost else "taken away"
    return f"its last pod was {ways} at {life.says(pod.over_at)} (exit codes {pod.exit_codes}) under {policy}"


def _rest(life: Life, at: float) -> float:
    """The longest rest between two attempts after so many failures, and the time in which older pods go first."""
    count = max((own_failures(life, role, at) for role in {pod.role for pod in life.pods}), default=0)
    total = sum(own_failures(life, role, at) for role in {pod.role for pod in life.pods})
    if total <= FREE_RESTARTS:
        return GRACE_SECONDS
    rest = FIRST_REST_SECONDS * 2.0 ** (max(count, total) - FREE_RESTARTS - 1)
    return min(MOST_REST_SECONDS, rest) + GRACE_SECONDS


def _need_not(life: Life, role: str, last: Pod | None, since: float, until: float) -> bool:
    """It has succeeded, may have failed for good, or its role is complete without it."""
    how = life.roles(role, since - SEEN_SECONDS, until)
    pods = life.of_role(role)
    if role.lower() == LAUNCHER and any(job.framework == "mpi" for job in life.jobs(since, until)):
        return True  # it waits for its workers
    if any(one.complete_policy in ("Any", "Rank0") for one in how) and any(pod.succeeded for pod in pods):
        return True
    if last is None:
        return False
    if last.succeeded:
        return True
    lost = loss(life, last)
    if lost is None:
        return _was_lost_for_good(life, role, last)
    policies = life.roles(role, lost.at - SEEN_SECONDS, until)
    return may_be_final(life, lost, until) or not all(must_restart(one, lost) for one in policies)


def _was_lost_for_good(life: Life, role: str, last: Pod) -> bool:
    """The operator took it away: from a lost node, though nothing comes in its place."""
    return last.forced_at < NEVER or any(pod.forced_at < NEVER for pod in life.of_index(role, last.index or 0))


# -- ends --------------------------------------------------------------------------------------------


def an_end_that_is_due_comes(life: Life) -> Iterator[str]:
    for since, what in sorted(_due_ends(life)):
        late = since + life.due_seconds
        if late > min(life.until, life.asked_at, life.gone_at):
            continue
        if life.ending_at <= late:
            yield ""
        else:
            yield f"{life.name}: {what} from {life.says(since)} on: its end was due by {life.says(late)}; none came"


def _due_ends(life: Life) -> Iterator[tuple[float, str]]:
    for version in life.versions:
        for name in ANNOTATIONS.values():
            stands = life.jobs(version.at, version.at + life.due_seconds)
            if (
                version.job
                and life.valid(version.at, version.at + life.due_seconds)
                and all(name in job.annotations for job in stands)
            ):
                yield version.at, f"annotation {name}"
    yield from _limits(life)
    moments = [pod.ended_at for pod in life.pods if pod.ended_at < NEVER]
    moments += [version.at for version in life.versions if version.author != "operator"]
    for moment in sorted({*moments}):
        if what := _ends_by_itself(life, moment):
            yield moment, what


_LIMITS: tuple[tuple[str, str, Callable[[TrainingJob], int | None]], ...] = (
    ("startRunningTime", "timeLimit", lambda job: job.time_limit_seconds),
    ("startTime", "activeDeadlineSeconds", lambda job: job.active_deadline_seconds),
)


def _limits(life: Life) -> Iterator[tuple[float, str]]:
    for start, field, get in _LIMITS:
        since = from_rfc3339(life.versions[-1].status.get(start))
        limits = {get(job) for job in life.jobs(since or 0.0, NEVER)}
        if since is None or not limits or None in limits:
            continue
        limit = max(one for one in limits if one is not None)
        counted, passed = 0.0, since
        for version in life.during(since, life.until):
            idle = (version.job is not None and version.job.suspend) or version.status.get("phase") == "Suspended"
            begins, ends = max(passed, version.at), min(version.until, life.until)
            if idle:
                continue
            if counted + ends - begins >= limit:
                due = begins + limit - counted
                around = due, due + life.due_seconds
                if life.valid(*around) and not any(job.suspend for job in life.jobs(*around)):
                    yield due, f"{field} {limit} was over"
                break
            counted += ends - begins


def _ends_by_itself(life: Life, at: float) -> str:
    """Why its replicas end the job then, by every version of its spec and every reading of what befell its pods."""
    jobs = life.jobs(at - SEEN_SECONDS, at + life.due_seconds)
    if (
        not jobs
        or not life.valid(at - SEEN_SECONDS, at + life.due_seconds)
        or any(job.suspend or not all(r.workload == "Pod" for r in job.roles) for job in jobs)
    ):
        return ""
    if all(_ends(life, job, at, "complete") for job in jobs):
        return "its replicas have succeeded"
    if all(_ends(life, job, at, "failed") for job in jobs):
        return "replicas have failed for good"
    return ""


def _ends(life: Life, job: TrainingJob, at: float, which: str) -> bool:
    complete = [role for role in job.roles if role.complete_policy != "None" and role.replicas]
    if which == "complete":
        return job_ends(job.complete_policy, (_role(life, role, at) for role in complete), "complete")
    failing = [role for role in job.roles if role.fail_policy != "None" and role.replicas]
    return job_ends(job.fail_policy, (_role(life, role, at) for role in failing), "failed")


def _role(life: Life, role: Role, at: float) -> End:
    """As it stands then and all the time in which its end is due; anything uncertain runs."""
    return role_ends(role.complete_policy, role.fail_policy, _certain(life, role, at))


def _certain(life: Life, role: Role, at: float) -> dict[int, Replica]:
    states = replicas(life, role, at)
    later = replicas(life, role, at + life.due_seconds)
    for index, state in states.items():
        pods = [pod for pod in life.of_index(role.name, index) if pod.made_at <= at]
        if later[index] != state or not pods:
            states[index] = "runs"
            continue
        newest = max(pods, key=lambda pod: pod.made_at)
        if state == "succeeded" and newest.asked_at > newest.ended_at + SEEN_SECONDS:
            continue
        lost = loss(life, newest)
        hows = life.roles(role.name, newest.ended_at - SEEN_SECONDS, at + life.due_seconds)
        if (
            state == "failed"
            and lost is not None
            and newest.asked_at > newest.ended_at + SEEN_SECONDS
            and all(must_fail(how, lost) for how in hows)
        ):
            continue
        states[index] = "runs"
    return states


# -- suspension, nodes -------------------------------------------------------------------------------


def a_suspended_job_has_no_pods(life: Life) -> Iterator[str]:
    """And says that it is Suspended."""
    span: float | None = None
    for version in life.versions:
        if version.job is None or not version.job.suspend:
            span = None
            continue
        span = version.at if span is None else span
        late = span + life.due_seconds + GRACE_SECONDS
        if not (version.at <= late < min(version.until, life.until, life.over_at)):
            continue
        left = [pod.name for pod in life.pods if pod.there(late) and pod.asked_at > late]
        phase = life.at(late).status.get("phase")
        wrong = phase != "Suspended" or left
        where = f"{life.name} was suspended at {life.says(span)}"
        yield f"{where}: at {life.says(late)} its phase is {phase}, left are {left}" if wrong else ""


def pods_of_lost_nodes_go(life: Life) -> Iterator[str]:
    """A pod on a node that stays away is gone in time."""
    for pod in life.pods:
        node = life.nodes.get(pod.node)
        for since, until in node.ill if node is not None else ():
            late = max(since, pod.bound_at) + NODE_GRACE_SECONDS + life.due_seconds
            if until <= late or pod.over_at <= since or late > min(life.until, life.over_at):
                continue
            yield (
                f"{pod.name} was on {pod.node}, away from {life.says(since)} on: at {life.says(late)} it is still there"
                if pod.gone_at > late and pod.ended_at > late
                else ""
            )


def gpu_faults_are_acted_on(life: Life) -> Iterator[str]:
    """A pod with a GPU at fault is taken away in time, where its policy replaces it."""
    for pod in life.pods:
        rest = min(MOST_REST_SECONDS, GPU_REST_SECONDS * 2.0 ** (pod.attempt - 1)) if pod.attempt else 0.0
        for since, until in gpu_faults(life, pod):
            late = max(since, pod.bound_at + rest) + life.due_seconds
            if min(until, life.over_at, life.until) <= late:
                continue
            roles = life.roles(pod.role, since - SEEN_SECONDS, late)
            named = all(role.workload == "Pod" and "gpu fault" in RESTARTS[role.restart_policy] for role in roles)
            if roles and named and not any(job.suspend for job in life.jobs(since, late)):
                where = f"{pod.name} had a GPU at fault on {pod.node} from {life.says(since)} on"
                yield f"{where}, and was there still at {life.says(late)}" if pod.lost_at > late else ""


def restarts_reach_as_far_as_told(life: Life) -> Iterator[str]:
    """With the scopes Replica and All the pods beside the lost one begin anew with it, where it was wanted."""
    for lost in (one for role in {pod.role for pod in life.pods} for one in losses(life, role)):
        late = lost.at + life.due_seconds + _rest(life, lost.at + life.due_seconds)
        roles = life.roles(lost.pod.role, lost.at - SEEN_SECONDS, late)
        scopes = {role.restart_scope for role in roles if role.workload == "Pod"}
        if len(scopes) != 1 or scopes == {"Pod"} or late > min(life.until, life.over_at):
            continue
        wanted = (lost.pod.index or 0) < min(role.replicas for role in roles)
        sure = lost.certain not in (None, "deleted") and not may_be_final(life, lost, late)
        if not (wanted and sure) or not all(must_restart(role, lost) for role in roles):
            continue
        if any(job.suspend for job in life.jobs(lost.at - SEEN_SECONDS, late)):
            continue
        reached = life.pods if scopes == {"All"} else life.of_role(lost.pod.role)
        left = [pod.name for pod in reached if pod.alive(lost.at) and pod.lost_at > late]
        where = f"{lost.pod.name} was lost as {lost.certain} at {life.says(lost.at)}, its restartScope is {scopes}"
        yield f"{where}: at {life.says(late)} there are still {left}" if left else ""


RULES: Mapping[str, Rule] = {
    "each replica that is wanted has its pod in time": each_replica_has_its_pod,
    "an end that is due comes": an_end_that_is_due_comes,
    "a suspended job has no pods and says so": a_suspended_job_has_no_pods,
    "pods of lost nodes go": pods_of_lost_nodes_go,
    "a GPU at fault is acted on": gpu_faults_are_acted_on,
    "a restart reaches as far as restartScope says": restarts_reach_as_far_as_told,
}
