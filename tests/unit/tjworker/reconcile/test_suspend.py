"""Suspension: what a suspended job says, and what it keeps until it is resumed."""

from __future__ import annotations

from tests.support.builders import make_job
from tests.unit.tjworker.reconcile.passes import NOW, World
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
