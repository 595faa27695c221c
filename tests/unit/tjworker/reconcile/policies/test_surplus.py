"""Which replicas of an elastic role do not delay its completion: docs/lifecycle.md, "When a job ends".

Each pass reads the pods and the status alone, as a worker does that was just started on an empty Redis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest

from tests.support.builders import make_job
from tests.unit.tjworker.reconcile.managed import made_pod, observed_of, tolerant
from tests.unit.tjworker.reconcile.passes import World, decide
from tjworker.api.model import TrainingJob
from tjworker.api.observed import PodRecord

Happens = Callable[[World], object]


def pod(index: int) -> str:
    return f"digits-trainer-{index}"


def each(what: str, *indices: int) -> Happens:
    def happen(world: World) -> None:
        for index in indices:
            world.set(pod(index), what)

    return happen


def scale(replicas: int) -> Happens:
    def happen(world: World) -> None:
        (role,) = world.job.roles
        world.job = replace(world.job, roles=(replace(role, replicas=replicas),))

    return happen


@dataclass(frozen=True)
class Case:
    happens: tuple[Happens, ...]
    """One after the other; the job comes to rest after each."""
    want: bool
    """The job has succeeded."""
    role: dict[str, Any]
    replicas: int = 4
    message: str = ""


ELASTIC: dict[str, Any] = {"least": 2, "most": 6, "restart": "Always", "scope": "Pod"}
FIXED: dict[str, Any] = {"restart": "Always", "scope": "Pod"}
run, succeed, fail, start = (partial(each, what) for what in ("running", "succeeded", "failed", "creating"))
CASES: dict[str, Case] = {
    "two ran and have succeeded, two never found room": Case(
        (run(0, 1), succeed(0, 1)),
        True,
        ELASTIC,
        message="every replica of role trainer that started has succeeded; 2 beyond minReplicas never started"
        " (trainer 2/4)",
    ),
    "they succeeded before any pass had seen them run": Case((succeed(0, 1),), True, ELASTIC),
    "the others have a node, and no container has run": Case((run(0, 1), start(2, 3), succeed(0, 1)), True, ELASTIC),
    "a role of a fixed number waits for all": Case((run(0, 1), succeed(0, 1)), False, FIXED),
    "one of them still runs": Case((run(0, 1, 2), succeed(0, 1)), False, ELASTIC),
    "one below minReplicas has not, though enough have": Case((run(0, 2, 3), succeed(0, 2, 3)), False, ELASTIC),
    "none has started": Case((), False, ELASTIC),
    "none has succeeded": Case((run(0, 1),), False, ELASTIC),
    "one ran, was lost, and waits for room": Case((run(0, 1, 2), each("failed", 2), succeed(0, 1)), False, ELASTIC),
    "one was turned away by its kubelet before it ran, and waits for room": Case(
        (run(0, 1), each("turned_away", 2), succeed(0, 1)), True, ELASTIC
    ),
    "all ran, one was lost, and waits for room": Case(
        (run(0, 1, 2, 3), each("failed", 3), succeed(0, 1, 2)), False, ELASTIC
    ),
    "all ran in an attempt of the whole role, and two find no room in the next": Case(
        (run(0, 1, 2, 3), fail(0), run(0, 1), succeed(0, 1)), False, {**ELASTIC, "scope": "Replica"}
    ),
    "two never ran in either attempt of the whole role": Case(
        (run(0, 1), fail(0), run(0, 1), succeed(0, 1)), True, {**ELASTIC, "scope": "Replica"}
    ),
    "the two that ran were scaled away, and come again without room": Case(
        (run(0, 1, 2, 3), scale(2), scale(4), succeed(0, 1)), True, ELASTIC
    ),
    "scaled up without room while the job ran": Case((run(0, 1), scale(4), succeed(0, 1)), True, ELASTIC, replicas=2),
    "completePolicy None: never by itself": Case((run(0, 1), succeed(0, 1)), False, {**ELASTIC, "complete": "None"}),
}


def made(case: Case) -> TrainingJob:
    return make_job().role("trainer", case.replicas, **case.role).build()


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_whether_replicas_that_never_started_delay_the_end(case: Case) -> None:
    world = World(made(case)).settle()
    for happens in case.happens:
        happens(world)
        world.now += 60
        world.settle()
    status = world.job.status
    assert (status.phase == "Succeed") is case.want, status.attempts
    if case.message:
        assert status.ending is not None
        assert status.ending.message == case.message


TRAINERS: dict[str, tuple[tuple[PodRecord, ...], bool]] = {
    "two have succeeded, two never had a node": (
        (made_pod("a", 0, state="succeeded"), made_pod("b", 1, state="succeeded"), made_pod("c", state="pending")),
        True,
    ),
    "one of them runs": (
        (made_pod("a", 0, state="succeeded"), made_pod("b", 1, state="succeeded"), made_pod("c", 2)),
        False,
    ),
    "one has succeeded, and the other of minReplicas waits": (
        (made_pod("a", 0, state="succeeded"), made_pod("b", state="pending"), made_pod("c", state="pending")),
        False,
    ),
}
"""Pods of a batch Job that is to have four."""


@pytest.mark.parametrize(("pods", "want"), TRAINERS.values(), ids=TRAINERS.keys())
def test_trainers_that_a_batch_job_keeps(pods: tuple[PodRecord, ...], want: bool) -> None:
    job = tolerant(2)
    job = replace(job, roles=tuple(replace(role, replicas=4) for role in job.roles))
    status = decide(job, observed_of(job, pods)).status
    assert bool(status and status.ending and status.ending.phase == "Succeed") is want
