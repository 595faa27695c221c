"""The model bites: with a mistake put into the operator, it says by itself which rule of the contract is broken."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.simulation.oracles import live
from tests.simulation.quiet import quiet
from tests.simulation.scenarios import SCENARIOS
from tests.support.memory_work_queue import MemoryWorkQueue
from tjworker.reconcile import conditions
from tjworker.reconcile.policies.restart import RESTART_POLICIES, never

Patch = Callable[[pytest.MonkeyPatch], None]


def _no_restarts(patch: pytest.MonkeyPatch) -> None:
    for policy in RESTART_POLICIES:
        patch.setitem(RESTART_POLICIES, policy, never.refuse)


def _no_timers(patch: pytest.MonkeyPatch) -> None:
    finish = MemoryWorkQueue.finish

    def without(queue, claim, *args, **told):  # type: ignore[no-untyped-def]
        if not told.get("failed"):
            told["after_seconds"] = None
        return finish(queue, claim, *args, **told)

    patch.setattr(MemoryWorkQueue, "finish", without)


def _moving_times(patch: pytest.MonkeyPatch) -> None:
    """lastTransitionTime moves with the reason: as if the condition of before had had another status."""
    get = conditions.get_condition
    patch.setattr(
        conditions,
        "get_condition",
        lambda status, kind: (old := get(status, kind)) and old.model_copy(update={"status": "Unknown"}),
    )


BUGS: dict[str, tuple[Patch, str, str]] = {
    "restarts are switched off": (_no_restarts, "ai-pod-restarts", "an end has its reason"),
    "timers after a clean pass are dropped": (_no_timers, "ai-pod-times-out", "an end that is due comes"),
    "lastTransitionTime moves with the reason": (_moving_times, "ai-pod-succeeds", "lastTransitionTime moves"),
}
"""A mistake -> how it is put in, a life that shows it, how the rule begins that is broken."""


@pytest.mark.parametrize(("mistake", "name", "rule"), BUGS.values(), ids=BUGS)
def test_the_model_notices(mistake: Patch, name: str, rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mistake(monkeypatch)
    with quiet():
        said = live(SCENARIOS[name], more_seconds=900).unlike_the_model
    assert any(one.startswith(rule) for one in said), said


@pytest.mark.parametrize("name", sorted({name for _, name, _ in BUGS.values()}))
def test_it_says_nothing_of_the_operator_as_it_is(name: str) -> None:
    with quiet():
        assert live(SCENARIOS[name], more_seconds=0).unlike_the_model == ()
