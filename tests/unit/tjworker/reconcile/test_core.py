"""The list of steps: a policy is one function and one row, and what it decides is carried out by what is there."""

from __future__ import annotations

import pytest

from tests.support.builders import make_job
from tests.unit.tjworker.reconcile.passes import World, status_of
from tjworker.reconcile import core
from tjworker.reconcile.one_pass import Pass


def end_in_the_third_restart(p: Pass) -> Pass:
    """A policy that nobody has asked for yet: it looks at the status, and ends the job."""
    restarts = sum(c.application for c in p.status.restart_counts.values())
    if restarts < 3:
        return p
    return p.end_with("Failed", "ThirdRestart", "three restarts are enough").log_decisions("give up")


def test_a_policy_is_a_function_and_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "STEPS", (*core.STEPS, end_in_the_third_restart))
    world = World(make_job().role("trainer", 1, restart="OnFailure", scope="Pod").build()).settle()
    for _ in range(2):
        world.all("running").settle().all("failed").step()
        world.now += 1000
        world.settle()
    assert world.job.status.ending is None
    plan = world.all("running").settle().all("failed").step()
    ending = status_of(plan).ending
    assert ending is not None
    assert (ending.phase, ending.reason) == ("Failed", "ThirdRestart")
    assert "give up" in plan.decisions
    world.settle()
    assert (world.job.status.phase, world.pods) == ("Failed", {})


def test_a_step_that_ends_the_job_is_the_last_one_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def ends(p: Pass) -> Pass:
        asked.append("ends")
        return p.end_with("Failed", "First", "the first of two")

    def never(p: Pass) -> Pass:
        asked.append("never")
        return p.end_with("Succeed", "Second", "the second of two")

    monkeypatch.setattr(core, "STEPS", (ends, never))
    status = World(make_job().role("trainer", 1).build()).settle().job.status
    assert asked == ["ends"]
    assert (status.phase, status.message) == ("Failed", "the first of two")
