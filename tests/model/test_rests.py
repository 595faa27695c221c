"""Who deletes the failed pod that rests ends the rest: its own, and that of all that begin anew with it. No other pod's
deletion does, and none ends the rest of pods that are restarted alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pytest

from tests.scenarios.world import job, play, role
from tests.simulation.faults.histories import lived
from tests.simulation.histories import FOR_EVER, Act, History
from tests.simulation.quiet import quiet
from tjworker.api.model import RestartScope
from tjworker.reconcile.policies import backoff
from tjworker.reconcile.replicas import RoleView

RULE = "a program that fails again and again rests"
RESTING, RUNNING = 68.0, 55.0
"""The programs start within 1 s and fail 20 s later, four times: the third rest begins at about 64 s. Before that, all
of them run."""


def _as_it_is(patch: pytest.MonkeyPatch) -> None:
    pass


def _never_rests(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(backoff, "rest_seconds", lambda times, first_seconds=0.0: 0.0)


def _any_deletion_ends_all_rests(patch: pytest.MonkeyPatch) -> None:
    find = backoff.find_resting

    def found(views: Mapping[str, RoleView], now: float) -> backoff.Resting:
        gone = any(replica.pod is None for view in views.values() for replica in view.replicas)
        return backoff.Resting() if gone else find(views, now)

    patch.setattr("tjworker.reconcile.converge.find_resting", found)


@dataclass(frozen=True)
class Case:
    scope: RestartScope
    deleted_at: float
    operator: Callable[[pytest.MonkeyPatch], None] = _as_it_is
    flagged: bool = False


CASES: Mapping[str, Case] = {
    "restarted whole, the pod that rests is deleted": Case("All", RESTING),
    "of a role that is restarted whole, likewise": Case("Replica", RESTING),
    "restarted alone, one of two that rest is deleted": Case("Pod", RESTING),
    "restarted whole, one is deleted that runs": Case("All", RUNNING),
    "an operator that never rests": Case("All", 200.0, _never_rests, flagged=True),
    "an operator that rests no more once a running pod was deleted": Case("All", RUNNING, _never_rests, flagged=True),
    "an operator that ends the rest of pods that are restarted alone": Case(
        "Pod", RESTING, _any_deletion_ends_all_rests, flagged=True
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_deletion_ends_the_rest_of_what_begins_anew_together(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[name]
    case.operator(monkeypatch)
    does = {**FOR_EVER, "failing_attempts": 4, "failing_exit_code": 137, "failing_run_seconds": 20}
    fails = role(3, annotations=play(**does), restartPolicy="Always", restartScope=case.scope)
    history = History(1, job({"ps": fails}), (Act(case.deleted_at, "pod deleted", 0),))
    with quiet():
        verdict, said = lived(history)
    assert said.reached[RULE]
    about_it = [one for one in said.wrong if one.startswith(RULE)]
    assert bool(about_it) == case.flagged, f"{said.wrong}\n{verdict.trace}"
