"""The numbers of a status: each state of a replica in the column that counts it, alive and at an end; the scale
subresource's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import get_args

import pytest

from tests.support.builders import make_job, make_pod
from tests.unit.tjworker.reconcile.passes import NOW, ago
from tjworker.api.status import JobStatus, ReplicaStatus, RoleAttempts
from tjworker.reconcile.outcome import finish_plan, gather_seconds, numbers
from tjworker.reconcile.phase import replica_status
from tjworker.reconcile.replicas import Replica, RoleView, State

JOB = make_job().role("ps", 1).role("trainer", 3, least=1, most=8).build()
POD = make_pod(JOB, "trainer").build()
COUNTED: Mapping[State, tuple[str, str]] = {
    "missing": ("pending", ""),
    "blocked": ("pending", ""),
    "outdated": ("restarting", ""),
    "terminating": ("restarting", ""),
    "pending": ("pending", "pending"),
    "scheduled": ("scheduled", "scheduled"),
    "running": ("active", "active"),
    "lost": ("", ""),
    "succeeded": ("succeeded", "succeeded"),
    "failed": ("failed", "failed"),
}
"""State -> the columns while the job lives, and at its end, when nothing is made or replaced any more."""
HAVE_NO_POD = ("missing", "blocked")


def _view(*states: State, attempt: int = 0, role: str = "trainer", surplus: int = 0) -> RoleView:
    replicas = (
        Replica(
            role,
            i,
            f"digits-{role}-{i}",
            attempt,
            state,
            None if state in HAVE_NO_POD else POD,
            final=state in ("succeeded", "failed"),
        )
        for i, state in enumerate(states)
    )
    return RoleView(replace(JOB.role(role), replicas=len(states)), tuple(replicas), (POD,) * surplus, RoleAttempts())


def test_every_state_has_its_column() -> None:
    assert set(COUNTED) == set(get_args(State))


@pytest.mark.parametrize("live", [True, False], ids=["alive", "at an end"])
@pytest.mark.parametrize("state", COUNTED)
def test_a_replica_is_counted_in_the_column_of_its_state_and_in_no_other(state: State, live: bool) -> None:
    for attempt in (0, 2):
        want: dict[str, int] = {"desired": 3, "active": 1}
        column = COUNTED[state][not live]
        if column:
            want[column] = want.get(column, 0) + 2
        if attempt and live and state in HAVE_NO_POD:
            want["restarting"] = 2  # and it is on its way to be replaced
        assert replica_status(_view(state, "running", state, attempt=attempt), live=live) == ReplicaStatus(**want)


SCALED: dict[str, tuple[RoleView, int, int]] = {
    "all run": (_view("running", "running", "running"), 3, 3),
    "one is yet to be made": (_view("running", "missing", "running"), 3, 2),
    "one has succeeded, and its pod is there": (_view("running", "succeeded", "running"), 3, 3),
    "there is one too many": (_view("running", "running", surplus=2), 4, 4),
    "its name is taken by another's": (_view("blocked"), 1, 0),
}
"""Of the role that is scaled -> status.replicas while the job lives, and at its end."""


@pytest.mark.parametrize("case", SCALED.values(), ids=SCALED.keys())
def test_the_scale_subresource_reads_the_pods_of_the_role_that_it_moves(case: tuple[RoleView, int, int]) -> None:
    view, alive, ended = case
    views = {"ps": _view("running", role="ps"), "trainer": view}
    for live, want in ((True, alive), (False, ended)):
        got = numbers(JOB, JobStatus(), views, live=live)
        assert got.replicas == want
        assert "replica-name=trainer" in got.selector.split(",")
        assert got.selector == ",".join(sorted(got.selector.split(",")))
        assert got.replica_statuses == {name: replica_status(v, live=live) for name, v in views.items()}


@pytest.mark.parametrize("gone", ["targets", "targets_beside"])
def test_a_target_goes_with_what_it_was_set_beside_and_others_stay(gone: str) -> None:
    """One that was set aside must not come back by itself."""
    base = make_job().role("ps", 2, least=1, most=4).role("trainer", 3, least=1, most=8).build()
    followed = replace(base.role("trainer"), declared_replicas=2)
    job = replace(base, roles=(base.role("ps"), followed))
    both = {"targets": {"trainer": 3}, "targets_beside": {"trainer": 2}}
    both[gone] = {**both[gone], "ps": 1}
    plan = finish_plan(job, JobStatus(**both), "Running", "2026-01-01T00:00:00Z", writes=(), message="")
    assert plan.status is not None
    assert (plan.status.targets, plan.status.targets_beside) == ({"trainer": 3}, {"trainer": 2})


def test_a_success_gathers_for_a_second_from_the_first_that_nobody_has_told() -> None:
    """Of two that a batch Job counts, one of which ended a second after the other."""
    pods = [
        make_pod(JOB, "trainer", i).succeeded().containers(finished_at=at).but(uncounted=True).build()
        for i, at in enumerate((ago(1), ago(0)))
    ]
    replicas = tuple(Replica("trainer", i, pod.name, 0, "succeeded", pod) for i, pod in enumerate(pods))
    old = JobStatus(phase="Running", last_reconcile_time=ago(60))
    new = old.model_copy(update={"replicas": 2})
    for of, want in ((replicas, 0.0), (replicas[1:], 0.75)):
        view = replace(_view("succeeded"), replicas=of)
        assert gather_seconds(old, new, {"trainer": view}, NOW + 0.25) == want
