"""What ends a job, and what changes nothing any more once it ends."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from tests.support.builders import make_job, make_pod, make_service, observe
from tests.support.guests import KIND_OF, parsed
from tests.support.kinds import AITRAININGJOBS
from tests.unit.tjworker.api.guest_cases import manifest
from tests.unit.tjworker.api.guest_cases import role as guest_role
from tests.unit.tjworker.reconcile.passes import NOW, World, decide, running, status_of
from tjworker.api.model import InvalidJob, TrainingJob
from tjworker.api.status import JobStatus, ReplicaStatus
from tjworker.base import GroupResource
from tjworker.reconcile.plan import Delete, Plan


def test_an_annotation_goes_before_a_completion_of_the_same_moment() -> None:
    world = running().all("succeeded")
    world.job = make_job().role("trainer", 2).annotate({"Failed": "no"}).status(world.job.status).build()
    world.settle()
    assert world.job.status.phase == "Failed"
    assert world.job.status.replica_statuses["trainer"].succeeded == 2


@dataclass(frozen=True)
class Last:
    """How the pods of the role trainer (or Worker) stand at the verdict, and the numbers that stay."""

    job: TrainingJob
    pods: tuple[str, ...]
    """What each of the last role's pods does then; the first role has one pod, which brings the end."""
    end: str
    want: dict[str, int]


def own(policy: str) -> TrainingJob:
    builder = make_job().role("chief", 1, restart="Never").role("trainer", 3, complete="None", restart="Never")
    return builder.spec(cleanPodPolicy=policy).build()


def guest(kind: str, first: str, policy: str) -> TrainingJob:
    resource = GroupResource(kind)
    roles = {first: guest_role(1, restartPolicy="Never"), "Worker": guest_role(3, restartPolicy="Never")}
    raw = manifest(resource, roles)
    spec = KIND_OF[resource].with_run_policy({"cleanPodPolicy": policy})["spec"]
    return parsed(resource, raw | {"spec": raw["spec"] | spec})


def torch(policy: str) -> TrainingJob:
    return guest("pytorchjobs.kubeflow.org", "Master", policy)


def tf(policy: str) -> TrainingJob:
    return guest("tfjobs.training.kubedl.io", "Chief", policy)


DONE, WAITS = ("running", "running", "succeeded"), ("running", "pending", "succeeded")
LAST_NUMBERS: dict[str, Last] = {
    "an AITrainingJob that leaves its pods: those that run are in no number": Last(
        own("None"), DONE, "succeeded", {"succeeded": 1}
    ),
    "one that takes those that run": Last(own("Running"), DONE, "succeeded", {"succeeded": 1}),
    "one that takes all": Last(own("All"), DONE, "succeeded", {"succeeded": 1}),
    "one that fails": Last(own("None"), DONE, "failed", {"succeeded": 1}),
    "training-operator's that leaves its pods: what ran has succeeded": Last(
        torch("None"), DONE, "succeeded", {"succeeded": 3}
    ),
    "a pod of it that waited is in no number": Last(torch("All"), WAITS, "succeeded", {"succeeded": 2}),
    "one that fails: as they were then": Last(torch("All"), DONE, "failed", {"active": 2, "succeeded": 1}),
    "KubeDL's": Last(tf("Running"), DONE, "succeeded", {"succeeded": 3}),
    "KubeDL's that fails": Last(tf("All"), DONE, "failed", {"active": 2, "succeeded": 1}),
}


@pytest.mark.parametrize("sentence", LAST_NUMBERS)
def test_the_last_numbers_of_a_job(sentence: str) -> None:
    last = LAST_NUMBERS[sentence]
    first, others = last.job.roles
    world = World(last.job).settle().all("running").settle()
    for index, what in enumerate(last.pods):
        name = f"digits-{others.name.lower()}-{index}"
        if what != "running":
            world.pods[name] = make_pod(world.job, others.name, index)
        if what not in ("running", "pending"):
            world.set(name, what)
    world.set(f"digits-{first.name.lower()}-0", last.end).settle()
    status = world.job.status
    assert status.phase == ("Succeed" if last.end == "succeeded" else "Failed")
    assert status.replica_statuses[others.name] == ReplicaStatus(desired=3, **last.want)
    assert status.active == "0/4"
    assert world.all("succeeded").step().empty, "and they stay"


def test_a_ttl_that_is_over_deletes_the_job_that_was_seen_and_no_successor_of_its_name() -> None:
    job = (
        make_job()
        .role("trainer", 1)
        .run_policy(ttlSecondsAfterFinished=60)
        .status(phase="Succeed", completion_time="2026-01-01T00:59:00Z", observed_generation=1)
        .build()
    )
    why = "ttlSecondsAfterFinished 60 has passed since 2026-01-01T00:59:00Z"
    assert decide(job) == Plan(writes=(Delete(AITRAININGJOBS, "digits", "uid-of-digits", why=why),), decisions=(why,))
    assert decide(job, now=NOW - 1) == Plan(requeue_after_seconds=1)


def test_a_ttl_that_can_be_read_counts_whatever_else_of_the_spec_cannot() -> None:
    ended = JobStatus(phase="Succeed", completion_time="2026-01-01T00:00:00Z", observed_generation=1)
    good = make_job().role("trainer", 1).run_policy(ttlSecondsAfterFinished=1).status(ended)
    seen = {"trainer": ReplicaStatus(desired=1)}
    for job in (good, good.spec(failPolicy="Most").status(replica_statuses=seen)):
        assert [w.name for w in decide(job.parse()).writes] == ["digits"]
    no_ttl = good.run_policy(ttlSecondsAfterFinished=-1).status(replica_statuses=seen).parse()
    assert isinstance(no_ttl, InvalidJob)
    assert decide(no_ttl) == Plan()


def test_an_end_waits_for_no_service_but_the_jobs_own() -> None:
    """A service of its names and labels that belongs to somebody else, or to the job of that name before it."""
    job = make_job().role("trainer", 1).annotate({"Failed": "enough"}).build()
    own = make_service(job, "trainer", 0)
    going = decide(job, observe(own))
    assert (status_of(going).phase, [w.name for w in going.writes]) == ("Terminating", ["digits-trainer-0"])
    strangers = replace(own, owner_uid="uid-of-another")
    plan = decide(job, observe(strangers))
    assert (status_of(plan).phase, plan.writes) == ("Failed", ())
