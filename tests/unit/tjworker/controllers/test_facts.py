"""The facts that a plan needs: which kind is read first, and what a pass does with the answers."""

from __future__ import annotations

import pytest

from tests.support.builders import make_node
from tests.unit.tjworker.execution.executing import Room, refusal
from tjworker.api.needs import ALL_PODS, ChildNow, EveryNode, Need, NodeNow
from tjworker.api.observed import Observed
from tjworker.api.resources import PODS
from tjworker.base import Transient
from tjworker.controllers.facts import Facts
from tjworker.controllers.jobs import FACT_ROUNDS
from tjworker.controllers.observing import JobObservation
from tjworker.reconcile import Plan

POD = ChildNow(PODS, "p")
NODES = (NodeNow("a"), NodeNow("b"))
FIRST: dict[str, tuple[tuple[Need, ...], set[Need]]] = {
    "nodes come first: a healthy node often makes the rest unnecessary": ((*NODES, EveryNode(), POD), set(NODES)),
    "the projection comes before the API server": ((EveryNode(), POD), {EveryNode()}),
    "children come last, all at once": ((POD, ALL_PODS), {POD, ALL_PODS}),
}


@pytest.mark.parametrize("sentence", FIRST)
def test_one_kind_of_fact_is_read_at_a_time(sentence: str) -> None:
    needs, want = FIRST[sentence]
    room = Room()
    observed, read = _facts(room).read(needs, room.job, Observed(), room.lease)
    assert read == want
    assert set(observed.nodes_now) == {need.name for need in want if isinstance(need, NodeNow)}
    assert (observed.every_node is not None) == (EveryNode() in want)
    assert {need for need in want if isinstance(need, ChildNow)} <= observed.confirmed


def test_a_node_that_cannot_be_read_is_asked_for_once_a_pass() -> None:
    room = Room()
    room.api.asked.clear()
    room.api.instead["GET /api/v1/nodes/a"] = refusal(403, "Forbidden")
    plan = Plan(needs=(NodeNow("a"),))
    assert _read_and_decide(room, [plan]) == plan, "the node counts as healthy"
    assert room.api.asked == ["GET /api/v1/nodes/a"]


def test_a_plan_that_always_needs_another_child_is_not_executed() -> None:
    plans = [Plan(needs=(ChildNow(PODS, f"p{n}"),)) for n in range(FACT_ROUNDS + 1)]
    with pytest.raises(Transient, match="faster than they can be looked at"):
        _read_and_decide(Room(), plans)


def _facts(room: Room) -> Facts:
    return Facts(room.client, lambda: {"a": make_node("a").build()}, page_size=500)


def _read_and_decide(room: Room, plans: list[Plan]) -> Plan:
    """The plan that a pass executes which decides on these, one after the other; the last one from then on."""
    worker = room.world.worker
    worker._facts = _facts(room)
    later = iter(plans[1:])
    worker._decide = lambda found: next(later, plans[-1])  # type: ignore[method-assign]
    found = JobObservation(room.job, Observed())
    return worker._read_and_decide(room.lease, found, plans[0])[1]
