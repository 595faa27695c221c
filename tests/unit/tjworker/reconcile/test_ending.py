"""What ends a job, and what changes nothing any more once it ends."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.builders import make_job, make_pod, make_service, observe
from tests.support.kinds import AITRAININGJOBS
from tests.unit.tjworker.reconcile.passes import NOW, World, decide, running, status_of
from tjworker.api.model import InvalidJob
from tjworker.api.status import Ending, JobStatus, ReplicaStatus
from tjworker.reconcile.plan import Delete, Plan


def test_an_annotation_goes_before_a_completion_of_the_same_moment() -> None:
    world = running().all("succeeded")
    world.job = make_job().role("trainer", 2).annotate({"Failed": "no"}).status(world.job.status).build()
    world.settle()
    assert world.job.status.phase == "Failed"
    assert world.job.status.replica_statuses["trainer"].succeeded == 2


@pytest.mark.parametrize("annotation", [{}, {"Preempted": "room"}], ids=["by itself", "by a user"])
@pytest.mark.parametrize("what", ["succeeded", "failed"])
def test_an_end_reads_the_same_when_nothing_was_told_of_the_job_before(what: str, annotation: dict[str, str]) -> None:
    """Its first status may wait for its pods, and the watch that shows them be away until they are done."""
    ended = make_job().role("trainer", 2, restartPolicy="Never").annotate(annotation).build()
    told = World(replace(ended, annotations={})).settle().all("running").settle()
    told.job = replace(ended, status=told.job.status)
    untold = World(ended)
    untold.pods, untold.services = dict(told.pods), dict(told.services)
    ends = [
        {(c.type, c.status, c.reason) for c in world.all(what).settle().job.status.conditions}
        for world in (told, untold)
    ]
    assert ends[0] == ends[1]
    assert any((type_, status) == ("Running", "False") for type_, status, _ in ends[1])


def test_a_time_limit_that_passes_while_the_job_ends_changes_nothing() -> None:
    base = make_job().role("trainer", 1).spec(timeLimit=60)
    world = World(base.build()).settle().all("running").settle().all("succeeded")
    world.step()
    world.now += 100
    world.settle()
    assert world.job.status.phase == "Succeed"


def test_an_end_without_a_clean_up_does_not_wait_for_services() -> None:
    job = make_job().role("trainer", 1).spec(cleanPodPolicy="None").build()
    pod = make_pod(job, "trainer", 0).succeeded()
    of_nobody = make_service(make_job().role("trainer", 2).build(), "trainer", 1)
    plan = decide(job, observe(pod, make_service(job, "trainer", 0), of_nobody))
    assert (status_of(plan).phase, plan.writes) == ("Succeed", ())


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


def test_a_ttl_counts_from_the_end_not_from_the_decision() -> None:
    """Pods may take their grace to go: `completionTime` is when nothing was left."""
    job = make_job().role("trainer", 1).run_policy(ttlSecondsAfterFinished=60)
    decided = Ending(phase="Failed", reason="AnnotationFailed", time="2026-01-01T00:50:00Z")
    ended = job.status(phase="Failed", ending=decided, completion_time="2026-01-01T00:59:30Z", observed_generation=1)
    assert decide(ended.build()) == Plan(requeue_after_seconds=30)
