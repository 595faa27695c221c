"""Limits of time, each from a start of its own: when a job comes to its end, whatever it was suspended for and when."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

import pytest

from tests.support.builders import make_job, make_pod, observe
from tests.support.builders.job import JobBuilder
from tests.support.seeds import the_seed
from tests.support.tiers import drawn
from tests.unit.tjworker.reconcile.passes import NOW, RULES, World, condition, decide, status_of

Doing = Literal["waits", "runs", "suspended"]
Life = Sequence[tuple[Doing, int]]
"""What the job does, and for how many seconds."""


class Case(NamedTuple):
    limit: str
    life: Life
    want: int | None
    """Seconds after its creation at which the job ends; None: not within that life."""


LIMITS: Mapping[str, tuple[JobBuilder, str]] = {
    "timeLimit": (make_job().role("trainer", 1).spec(timeLimit=600), "Timeout"),
    "activeDeadlineSeconds": (make_job().role("trainer", 1).run_policy(activeDeadlineSeconds=600), "Failed"),
}
CASES = {
    "timeLimit counts from the first run": Case("timeLimit", [("waits", 300), ("runs", 900)], 900),
    "activeDeadlineSeconds counts from the start": Case("activeDeadlineSeconds", [("waits", 300), ("runs", 900)], 600),
    "activeDeadlineSeconds stands still while the job is suspended before its first run": Case(
        "activeDeadlineSeconds", [("suspended", 3600), ("waits", 100), ("runs", 900)], 4200
    ),
    "and after it": Case(
        "activeDeadlineSeconds", [("waits", 100), ("runs", 100), ("suspended", 3600), ("runs", 900)], 4200
    ),
    "no limit of time ends a job that is suspended": Case(
        "activeDeadlineSeconds", [("runs", 500), ("suspended", 9999)], None
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_limit_ends_the_job_then(case: Case) -> None:
    assert due(case.limit, case.life) == case.want, "the rule of this file agrees with its table"
    play(case.limit, case.life)


@pytest.mark.wide
@pytest.mark.parametrize("limit", LIMITS)
def test_a_limit_ends_the_job_then_in_any_life(limit: str) -> None:
    seed = the_seed()
    draw = random.Random(seed)
    for _ in range(drawn(60)):
        life: list[tuple[Doing, int]] = []
        for _ in range(draw.randint(2, 8)):
            # Whole forties, so that no end comes within the seconds in which the passes of a change come to rest.
            life.append((draw.choice(CAN_FOLLOW[life[-1][0] if life else "suspended"]), draw.randrange(80, 400, 40)))
        play(limit, life, f"TJ_TEST_SEED={seed}: ")


CAN_FOLLOW: Mapping[Doing, Sequence[Doing]] = {
    "waits": ("runs", "suspended"),
    "runs": ("suspended",),  # pods that run do not wait again, but by a suspension
    "suspended": ("waits", "runs"),
}


def due(limit: str, life: Life) -> int | None:
    """The rule: 600 seconds of those that count. Only suspended ones do not, and for timeLimit those before a run."""
    now, counted, began = 0, 0, limit == "activeDeadlineSeconds"
    for doing, seconds in life:
        began = began or doing == "runs"
        if began and doing != "suspended":
            if counted + seconds >= 600:
                return now + 600 - counted
            counted += seconds
        now += seconds
    return None


def play(limit: str, life: Life, again: str = "") -> None:
    """At every change of that life, at its end, and in the second before and at which it is due."""
    builder, phase = LIMITS[limit]
    end = due(limit, life)
    world, now = World(builder.suspended(life[0][0] == "suspended").build()), 0
    for doing, seconds in life:
        world.job = builder.suspended(doing == "suspended").status(world.job.status).build()
        world.now = NOW + now
        world.settle()
        if doing == "runs":
            world.all("running")
            world.now = NOW + now  # it is seen to run in that very second
            world.settle()
        observed = observe(*world.pods.values(), *world.services.values())
        now += seconds
        if end is not None and end <= now:
            before = decide(world.job, observed, now=NOW + end - 1)
            assert before.status is None or before.status.ending is None, f"{again}{life} ends before {end} s"
            wait = before.requeue_after_seconds
            assert wait is not None, f"{again}{life}: nothing looks when {end} s are over"
            assert wait <= 1, f"{again}{life}: the next look comes {wait - 1} s late"
            ending = status_of(decide(world.job, observed, now=NOW + end)).ending
            assert ending is not None, f"{again}{life} goes on after {end} s"
            assert ending.phase == phase
            return
        at_last = decide(world.job, observed, now=NOW + now - 1)
        assert at_last.status is None or at_last.status.ending is None, f"{again}{life} ends within {now} s"
    assert end is None


def test_pods_that_cannot_be_created_are_tried_anew_after_a_suspension() -> None:
    """For creating_restart_seconds in all, in which the job was suspended for longer than that."""
    rules = replace(RULES, creating_duration_seconds=60, creating_restart_seconds=300, enable_creating_failed=True)
    base = make_job().role("trainer", 1)
    stuck = {"trainer": {"2026-01-01T00:50:00Z": "0"}}
    held = base.status(phase="Suspended", suspend_time="2026-01-01T00:51:00Z", creating_since=stuck).build()
    resumed = base.status(status_of(decide(held, rules=rules))).build()
    assert resumed.status.creating_since == {}
    again = make_pod(resumed, "trainer").creating("ErrImagePull").but(scheduled_at="2026-01-01T01:00:00Z")
    status = status_of(decide(resumed, observe(again), now=NOW + 61, rules=rules))
    assert (status.ending, status.phase) == (None, "Restarting")
    assert condition(status, "Restarting")[2].endswith("for 61 s")
