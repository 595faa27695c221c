"""What a TrainingJob does differently: ReplicaSets and a batch Job keep its pods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tests.model.contract import SEEN_SECONDS, SERVER_RESTARTS
from tests.model.lives import NEVER, Life, Pod
from tests.model.losses import losses
from tests.model.rules.ends import own_restarts
from tests.model.rules.rule import Rule
from tjworker.api.naming import owner_name

_SIZED = ("apps/replicasets", "batch/jobs")


def an_end_gives_everything_back(life: Life) -> Iterator[str]:
    """Autoclean: ReplicaSets and parallelism are 0, and the status says `released`."""
    if life.ended_at == NEVER or life.kind != "TrainingJob":
        return
    at = life.ended_at
    kept = [t for t in life.things if t.bucket in _SIZED and t.made_at <= at < t.gone_at]
    held = [f"{t.bucket}/{t.name} of {t.size(at)}" for t in kept if t.size(at)]
    if any(job.clean_pod_policy != "None" for job in life.jobs(at, at)) and kept:
        yield f"{life.name} ended at {life.says(at)}, and still holds {held}" if held else ""
        released = life.at(at).status.get("released")
        yield "" if released else f"{life.name} ended at {life.says(at)}, and its status does not say released"


def sizes_follow_the_spec(life: Life) -> Iterator[str]:
    """Those of its ReplicaSets and its batch Job, while the job neither ends nor is suspended: never more than was
    asked for just then."""
    for thing in life.things:
        if thing.bucket not in _SIZED:
            continue
        for at, size in thing.sizes:
            if at > life.ending_at:
                continue
            roles = [
                role
                for job in life.jobs(at - SEEN_SECONDS, at)
                for role in job.roles
                if owner_name(life.name, role.name) == thing.name
            ]
            most = max((role.replicas for role in roles), default=None)
            if most is not None:
                where = f"{thing.bucket}/{thing.name} was made {size} at {life.says(at)}"
                yield f"{where}; of its role {most} were wanted" if size > most else ""


def a_trainer_that_fails_ends_a_job_that_does_not_bear_it(life: Life) -> Iterator[str]:
    """Not fault tolerant: one trainer that fails by itself ends the job."""
    for job in life.jobs(life.began_at, NEVER)[:1]:
        for role in job.roles:
            if role.workload != "Job" or role.restart_policy != "Never":
                continue
            for lost in losses(life, role.name):
                late = lost.at + life.due_seconds
                if not lost.ways <= {"retryable", "permanent"} or late > min(life.until, life.asked_at):
                    continue
                around = life.jobs(lost.at - SEEN_SECONDS, late)
                if any(one.suspend for one in around) or any(
                    r.restart_policy != "Never" for one in around for r in one.roles if r.name == role.name
                ):
                    continue
                where = f"{lost.pod.name} failed at {life.says(lost.at)} with {lost.pod.exit_codes}"
                yield "" if life.ending_at <= late else f"{where}, the job is not fault tolerant, and did not end"


def restarts_of_servers_are_summed(life: Life) -> Iterator[str]:
    """Parameter servers' containers that kubelet has restarted are counted, all of those that could be seen at one
    moment (with its pod a count goes); one server that has been restarted as often as the limit says ends the job."""
    for job in life.jobs(life.began_at, NEVER)[:1]:
        for role in job.roles:
            pods = life.of_role(role.name)
            if role.workload != "ReplicaSet" or not any(pod.restarts for pod in pods):
                continue
            moments = [when for pod in pods for when, _ in pod.restarts]
            late = max(moments) + life.due_seconds
            if late > min(life.until, life.over_at) or any(one.suspend for one in life.jobs(life.began_at, late)):
                continue
            want = max(sum(_restarted(pod, at) for pod in pods) for at in moments)
            told = (life.at(late).status.get("restartCounts") or {}).get(role.name, {}).get("application", 0)
            most = own_restarts(life, role.name, late)
            wrong = not want <= told <= most
            where = f"containers of {role.name} were restarted {want} times by {life.says(late)}"
            yield f"{where}, counted are {told}" if wrong else ""
            limit = SERVER_RESTARTS if role.restart_limit is None else role.restart_limit
            most_of_one = max(pod.restarts[-1][1] for pod in pods if pod.restarts)
            wrong = most_of_one >= max(1, limit)
            yield f"{where}, the limit of each is {limit}, and the job has not failed" if wrong else ""


def _restarted(pod: Pod, at: float) -> int:
    """How often its containers had been, where it was still there for a pass to see."""
    return max((count for when, count in pod.restarts if when <= at < pod.over_at - SEEN_SECONDS), default=0)


RULES: Mapping[str, Rule] = {
    "the end of a TrainingJob gives everything back": an_end_gives_everything_back,
    "ReplicaSets and batch Jobs are of the size that is asked for": sizes_follow_the_spec,
    "a failed trainer ends a job that is not fault tolerant": a_trainer_that_fails_ends_a_job_that_does_not_bear_it,
    "restarts of parameter servers are summed": restarts_of_servers_are_summed,
}
