"""Conditions: when each ceases to hold, its reason and message, and when an event repeats them."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tests.support.builders import make_job, make_pod, observe
from tests.support.builders.cluster import PodBuilder
from tests.support.seeds import the_seed
from tests.unit.tjworker.reconcile.passes import NOW, NOW_TEXT, after, condition, decide, status_of, true
from tjworker.api.status import ConditionType, JobStatus
from tjworker.reconcile.conditions import clear_condition, set_condition

HOLDING: tuple[ConditionType, ...] = ("Running", "Restarting", "Scaling", "Suspended")


@pytest.mark.parametrize("type_", HOLDING)
def test_at_the_end_no_condition_of_a_live_job_holds_any_more_and_each_says_why(type_: ConditionType) -> None:
    job = (
        make_job()
        .role("trainer", 1)
        .annotate({"Failed": "out of money"})
        .status(phase="Running", start_time="2026-01-01T00:00:00Z", conditions=true(type_))
        .build()
    )
    status = status_of(decide(job))
    assert condition(status, type_) == ("False", "AnnotationFailed", "out of money")
    assert condition(status, "Failed") == ("True", "AnnotationFailed", "out of money")
    assert (status.phase, status.completion_time, status.last_reconcile_time) == ("Failed", NOW_TEXT, NOW_TEXT)


REASONS = {
    "no pod yet: the phase": (lambda p: None, "Pending"),
    "no node yet: the phase": (lambda p: p, "Pending"),
    "its init container runs: the phase": (lambda p: p.creating("PodInitializing"), "Creating"),
    "no room": (lambda p: p.unschedulable(), "Unschedulable"),
    "no image": (lambda p: p.creating("ImagePullBackOff"), "ImagePullBackOff"),
    "a stranger has its name": (lambda p: p.running().foreign("somebody"), "Blocked"),
}


@pytest.mark.parametrize(("change", "want"), REASONS.values(), ids=REASONS.keys())
def test_the_reason_of_a_job_that_does_not_run(change: Callable[[PodBuilder], PodBuilder | None], want: str) -> None:
    job = make_job().role("trainer", 1).build()
    pod = change(make_pod(job, "trainer", 0))
    plan = decide(job, observe(*([pod] if pod else [])))
    assert condition(status_of(plan), "Running")[:2] == ("False", want)
    told = [(e.type, e.reason) for e in plan.events]
    assert told == ([("Warning", want)] if want not in ("Pending", "Creating") else [])
    again = decide(after(job, plan), observe(*([pod] if pod else [])), now=NOW + 1)
    assert again.events == (), "once"


def test_another_reason_is_told_again_and_other_numbers_are_not() -> None:
    job = make_job().role("trainer", 1).build()
    first = after(job, decide(job, observe(make_pod(job, "trainer", 0).unschedulable("0/3 nodes are available"))))
    second = decide(first, observe(make_pod(job, "trainer", 0).unschedulable("0/4 nodes are available")), now=NOW + 1)
    assert (second.status, second.events) == (None, ())
    third = decide(first, observe(make_pod(job, "trainer", 0).creating("ErrImagePull", "no such image")), now=NOW + 2)
    assert [(e.type, e.reason) for e in third.events] == [("Warning", "ErrImagePull")]


def test_a_transition_time_moves_with_the_status_and_with_nothing_else() -> None:
    """metav1.Condition: `the last time the condition transitioned from one status to another`."""
    seed = the_seed()
    draw = random.Random(seed)
    for _ in range(100):
        status = JobStatus()
        since: dict[ConditionType, tuple[str, str]] = {}
        for second in range(12):
            at, type_ = f"2026-01-01T00:00:{second:02}Z", draw.choice(HOLDING)
            reason, message = draw.choice("AB"), draw.choice("xy")
            if draw.random() < 0.3:
                status = clear_condition(status, type_, reason, message, now=at, generation=second)
                value = "False" if type_ in since else ""
            else:
                value = draw.choice(("True", "False"))
                status = set_condition(status, type_, value == "True", reason, message, now=at, generation=second)
            if value and since.get(type_, ("", ""))[0] != value:
                since[type_] = (value, at)
            found = {c.type: (c.status, c.last_transition_time) for c in status.conditions}
            assert found == since, f"TJ_TEST_SEED={seed}"
            assert len(found) == len(status.conditions), "one of each type"
