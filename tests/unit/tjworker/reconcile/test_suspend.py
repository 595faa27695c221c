"""Suspension: what a suspended job says, and what it keeps until it is resumed."""

from __future__ import annotations

from tests.support.builders import make_job
from tests.unit.tjworker.reconcile.passes import NOW, NOW_TEXT, World, after, condition, decide, status_of
from tjworker.api.timefmt import to_rfc3339


def test_a_replica_that_has_failed_for_good_stays_so_through_a_suspension() -> None:
    base = make_job().role("trainer", 2, restart="Never", fail="All")
    world = World(base.build()).settle().all("running").settle().set("digits-trainer-1", "failed", exit_code=1).settle()
    assert world.job.status.attempts.roles["trainer"].failed == "1"
    for builder in (base.suspended(), base):
        world.job = builder.status(world.job.status).build()
        world.settle()
    assert (sorted(world.pods), world.job.status.attempts.roles["trainer"].failed) == (["digits-trainer-0"], "1")
    world.set("digits-trainer-0", "failed", exit_code=1).settle()
    assert world.job.status.phase == "Failed", "each of the two has failed, one of them before"


def test_a_resumed_job_says_so_and_when() -> None:
    base = make_job().role("trainer", 1)
    held = base.suspended().status(start_time=NOW_TEXT)
    waiting = after(held.build(), decide(held.build()))
    status = status_of(decide(base.status(waiting.status).build(), now=NOW + 90.7))
    assert condition(status, "Suspended") == ("False", "Resumed", "spec.suspend is false")
    assert (status.suspend_time, status.suspended_seconds) == (None, 90)
    again = after(base.suspended().build(), decide(base.suspended().status(status).build(), now=NOW + 100))
    assert status_of(decide(base.status(again.status).build(), now=NOW + 110)).suspended_seconds == 100


def test_a_job_that_is_created_suspended_starts_when_it_is_resumed() -> None:
    """No limit counts what was before: activeDeadlineSeconds and timeLimit have not begun."""
    base = make_job().role("trainer", 1).spec(runPolicy={"activeDeadlineSeconds": 60})
    world = World(base.suspended().build()).settle()
    assert (world.job.status.start_time, world.job.status.phase) == (None, "Suspended")
    world.now += 1000
    world.job = base.suspended().annotate({"note": "an edit"}).status(world.job.status).build()
    world.settle()
    assert world.job.status.start_time is None
    resumed = to_rfc3339(world.now)
    world.job = base.status(world.job.status).build()
    world.settle().all("running").settle()
    assert (world.job.status.start_time, world.job.status.suspended_seconds) == (resumed, 0)
    world.now = NOW + 1000 + 50
    assert world.settle().job.status.phase == "Running"
    world.now += 60
    assert world.settle().job.status.phase == "Failed"


def test_a_scale_while_suspended_is_recorded_and_costs_the_number_only() -> None:
    base = make_job().role("trainer", 2)
    world = World(base.build()).settle().all("running").settle()
    world.job = base.suspended().status(world.job.status).build()
    world.settle()
    world.job = make_job().role("trainer", 3).suspended().status(world.job.status).build()
    status = status_of(world.step())
    assert [(r.role, r.from_, r.to, r.reason) for r in status.scale_records] == [
        ("trainer", 2, 3, "spec.replicaSpecs.trainer.replicas was set to 3")
    ]
    assert (status.phase, status.replica_statuses["trainer"].desired, status.replica_statuses["trainer"].pending) == (
        "Suspended",
        3,
        0,
    )


def test_suspending_begins_a_new_attempt_and_forgets_neither_the_jobs_restarts_nor_what_is_done() -> None:
    base = make_job().role("ps", 1, complete="None").role("trainer", 2, restart="OnFailure", scope="All")
    world = World(base.build()).settle().all("running").settle()
    world.set("digits-trainer-0", "failed", exit_code=3).settle().all("running").settle()
    world.set("digits-trainer-1", "succeeded").settle()
    world.job = base.suspended().status(world.job.status).build()
    world.settle()
    attempts = world.job.status.attempts
    assert attempts.job == 1
    assert attempts.roles["trainer"].completed == "1"
    assert (attempts.roles["ps"].all, attempts.roles["trainer"].all) == (2, 2)
