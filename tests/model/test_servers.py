"""The model and parameter servers: what the restarts of one, of all of them, and a trainer's failure beside them come
to. Lives in which the limits are met to the number, as the operator lives them and with a mistake."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.model.judge import Judgement
from tests.simulation.faults.histories import lived
from tests.simulation.histories import Act, History
from tests.simulation.quiet import quiet
from tests.simulation.scenarios import trainingjob
from tests.simulation.scripts import Wish
from tests.simulation.spoilt_writes import Mistake
from tjworker.api.observed import PodRecord
from tjworker.reconcile.one_pass import Pass
from tjworker.reconcile.policies import controller_managed
from tjworker.reconcile.replicas import RoleView

Json = dict[str, Any]
FIRST, SECOND, TRAINER = 1, 2, 3
"""By name: after the master."""
SUMMED, REASON = "restarts of parameter servers are summed", "an end has its reason"


def _life(*whose: int, **run_policy: int) -> History:
    """Each of these pods exits in turn, when the one before it runs again: a kubelet waits longer each time."""
    made = trainingjob(Wish(run_seconds=1_000_000), pservers=2, fault_tolerant=True)
    if run_policy:
        made["spec"]["runPolicy"] = run_policy
    moments = (5, 20, 40, 75, 125)
    return History(1, made, tuple(Act(at, "pod exits", who, 1) for at, who in zip(moments, whose, strict=False)))


def _no_limit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(controller_managed, "_propose_end", lambda p, managed: p)


def _restarts_of_all(patch: pytest.MonkeyPatch) -> None:
    """Of each server the restarts of all of its role, when they are held against the limit."""
    propose, servers = controller_managed._propose_end, controller_managed._servers

    def together(view: RoleView) -> list[PodRecord]:
        pods = servers(view)
        count = sum(map(controller_managed._restarts, pods))
        return [replace(pod, containers=tuple(replace(c, restarts=count) for c in pod.containers)) for pod in pods]

    def spoilt(p: Pass, managed: Iterable[RoleView]) -> Pass:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(controller_managed, "_servers", together)
            return propose(p, managed)

    patch.setattr(controller_managed, "_propose_end", spoilt)


def _servers_are_not_counted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(controller_managed, "_count_restarts", lambda status, managed: status)


@dataclass(frozen=True)
class Case:
    life: History
    want_end: bool
    """Of the operator as it is."""
    mistake: Mistake
    want_broken: str


CASES: Mapping[str, Case] = {
    "one server is restarted as often as the limit, and a mistake ends nothing": Case(
        _life(FIRST, FIRST, FIRST, FIRST, FIRST), True, _no_limit, SUMMED
    ),
    "two are together, and a mistake ends the job for it": Case(
        _life(FIRST, SECOND, FIRST, SECOND, FIRST), False, _restarts_of_all, REASON
    ),
    "a trainer fails when servers have used up backoffLimit, and a mistake counts none of theirs": Case(
        _life(FIRST, SECOND, TRAINER, backoffLimit=2), True, _servers_are_not_counted, SUMMED
    ),
    "servers are restarted more often than backoffLimit, and a mistake counts none of theirs": Case(
        _life(FIRST, SECOND, FIRST, backoffLimit=1), False, _servers_are_not_counted, SUMMED
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_operator_as_it_is_lives_it_without_a_word_of_the_model(name: str) -> None:
    said = _said(CASES[name].life)
    assert said.wrong == ()
    assert bool(said.reached[REASON]) == CASES[name].want_end


@pytest.mark.parametrize("name", CASES)
def test_a_mistake_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    CASES[name].mistake(monkeypatch)
    said = _said(CASES[name].life)
    assert said.broken[CASES[name].want_broken], said.wrong


def _said(history: History) -> Judgement:
    with quiet():
        return lived(history)[1]
