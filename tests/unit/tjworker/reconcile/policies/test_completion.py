"""When a job ends where its policies compete or a role is empty (docs/lifecycle.md's tables: test_lifecycle_page.py),
and what holds on the way to an end.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from tests.support.builders import make_job, make_pod
from tests.support.builders.job import JobBuilder
from tests.support.builders.training_job import make_training_job
from tests.unit.tjworker.reconcile.passes import World, after, created, decide, deleted, everything, status_of
from tjworker.api.observed import Observed, WorkloadRecord
from tjworker.reconcile import Plan
from tjworker.reconcile.plan import Patch


# Per role: how each pod ended. R runs, S succeeded, F failed for good (restartPolicy Never).
@dataclass
class End:
    roles: dict[str, str]
    complete: dict[str, str] = field(default_factory=dict)
    fail: dict[str, str] = field(default_factory=dict)
    job_complete: str = "All"
    job_fail: str = "Any"
    want: str = ""


ENDS = {
    # both
    "complete goes before fail": End({"t": "SF"}, {"t": "Any"}, want="Succeed"),
    "neither can be met any more: some succeeded, some failed": End({"t": "SF"}, fail={"t": "All"}, want="Failed"),
    "job All: a role that never completes by itself is not waited for": End(
        {"t": "SS", "w": "R"}, {"w": "None"}, want="Succeed"
    ),
    "job fail All: every role has failed": End({"t": "F", "w": "F"}, job_fail="All", want="Failed"),
    "job fail All: a role of no replicas is not waited for": End({"t": "F", "w": ""}, job_fail="All", want="Failed"),
    "job All: nor for its success": End({"t": "S", "w": ""}, want="Succeed"),
}


@pytest.mark.parametrize("case", ENDS.values(), ids=ENDS.keys())
def test_when_a_job_ends(case: End) -> None:
    builder = make_job().spec(completePolicy=case.job_complete, failPolicy=case.job_fail)
    for role, pods in case.roles.items():
        builder = builder.role(role, len(pods), complete=case.complete.get(role, ""), fail=case.fail.get(role, ""))
    world = World(builder.build()).settle().all("running").settle()
    for role, pods in case.roles.items():
        for index, letter in enumerate(pods):
            if letter != "R":
                world.set(f"digits-{role}-{index}", {"S": "succeeded", "F": "failed"}[letter])
    world.settle()
    assert world.job.status.phase == (case.want or "Running")
    if case.want:
        assert world.pods == {}
        assert world.services == {}


def two() -> JobBuilder:
    return make_job().role("trainer", 2)


def test_the_end_is_written_down_before_any_pod_goes() -> None:
    job = two().build()
    world = World(job).settle().all("running").settle().all("succeeded")
    plan = world.step()
    assert (status_of(plan).phase, len(deleted(plan))) == ("Terminating", 2)
    assert status_of(plan).attempts.roles["trainer"].completed == "0-1"
    assert world.step().status is not None
    assert world.job.status.phase == "Succeed"


def test_what_was_decided_stays_decided_whatever_happens_while_pods_go() -> None:
    job = two().build()
    first = decide(job, everything(job, *(make_pod(job, "trainer", i).succeeded() for i in range(2))))
    going = two().annotate({"Failed": "too late"}).status(status_of(first)).build()
    last = status_of(decide(going))
    assert last.phase == "Succeed"


def test_a_job_that_is_being_deleted_plans_nothing() -> None:
    assert decide(two().deleting().build()).empty


def test_a_success_that_was_written_down_is_never_run_again() -> None:
    world = World(two().build()).settle().all("running").settle()
    world.set("digits-trainer-0", "succeeded").settle().lose("digits-trainer-0")
    plan = world.step()
    assert created(plan) == []
    assert world.job.status.replica_statuses["trainer"].succeeded == 1
    world.set("digits-trainer-1", "succeeded").settle()
    assert world.job.status.phase == "Succeed"


def test_every_condition_has_seen_a_spec_edit_because_kubectl_wait_asks_for_it() -> None:
    world = World(two().build()).settle().all("running").settle()
    assert {c.observed_generation for c in world.job.status.conditions} == {world.job.generation}
    world.job = replace(world.job, generation=world.job.generation + 1)
    world.settle()
    assert {c.type for c in world.job.status.conditions} >= {"Created", "Running"}
    assert {c.observed_generation for c in world.job.status.conditions} == {world.job.generation}


def test_an_ended_job_whose_manifest_is_applied_again_says_that_it_has_seen_it_and_nothing_else() -> None:
    ended = World(two().build()).settle().all("running").settle().all("succeeded").settle().job
    assert ended.status.phase == "Succeed"
    assert decide(ended) == Plan()
    edited = replace(ended, generation=ended.generation + 1)
    plan = decide(edited)
    assert not plan.writes
    status = status_of(plan)
    assert status.observed_generation == edited.generation
    assert {c.observed_generation for c in status.conditions} == {edited.generation}
    assert status.completion_time == ended.status.completion_time
    assert decide(replace(edited, status=status)) == Plan()


def test_an_end_looks_again_once_its_batch_job_is_released_because_nothing_else_may_tell() -> None:
    """No pod is left whose going would be news, and the echo of the operator's own patch queues nothing."""
    job = make_training_job(pservers=0).annotate({"Preempted": "room"}).status(phase="Running").build()
    owner = WorkloadRecord("digits-trainer", "uid-of-owner", 7, owner_uid=job.uid, desired=2)
    first = decide(job, Observed(jobs=(owner,)))
    assert [w.name for w in first.writes if isinstance(w, Patch)] == ["digits-trainer"]
    assert first.requeue_after_seconds == 0
    second = decide(after(job, first), Observed(jobs=(replace(owner, desired=0),)))
    assert (status_of(second).phase, second.requeue_after_seconds) == ("Preempted", None)
