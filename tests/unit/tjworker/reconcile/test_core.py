"""The list of steps: the first that ends the job is the last one asked."""

from __future__ import annotations

import pytest

from tests.support.builders import make_job
from tests.unit.tjworker.reconcile.passes import World
from tjworker.reconcile import core
from tjworker.reconcile.one_pass import Pass


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
