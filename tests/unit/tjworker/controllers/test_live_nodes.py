"""Nodes as the API server has them: how often it is asked, and what no answer means."""

from __future__ import annotations

import pytest

from tests.support.waiting import until
from tests.unit.tjworker.execution.executing import Room, refusal
from tjworker.base import Transient
from tjworker.controllers.live_nodes import MOST_ASKED, read_nodes
from tjworker.kube.port import HttpResponse


def test_each_node_is_asked_for_once_and_one_that_there_is_not_is_told_as_such() -> None:
    room = Room()
    there = room.world.cluster.client.get("/api/v1/nodes")["items"][0]["metadata"]["name"]
    room.api.asked.clear()
    found = read_nodes(room.client, [there, "nowhere"], room.lease)
    assert found["nowhere"] is None
    record = found[there]
    assert record is not None
    assert (record.name, record.ready) == (there, "True")
    assert room.api.asked == [f"GET /api/v1/nodes/{there}", "GET /api/v1/nodes/nowhere"]


NO_ANSWERS = {
    "it may read no nodes": refusal(403, "Forbidden"),
    "it has an error": refusal(500, "InternalError"),
    "it does not answer": Transient("timed out"),
}


@pytest.mark.parametrize("answer", NO_ANSWERS.values(), ids=NO_ANSWERS.keys())
def test_an_api_server_that_says_nothing_of_a_node_is_not_asked_for_the_next_one(
    answer: HttpResponse | Transient,
) -> None:
    room = Room()
    room.api.asked.clear()
    room.api.instead["GET /api/v1/nodes/b"] = answer
    assert read_nodes(room.client, ["a", "b", "c"], room.lease) == {"a": None}
    assert len(room.api.asked) == 2


def test_of_too_many_nodes_each_has_its_turn() -> None:
    """Else those with the last names would never be asked for, while the view of the first ones is wrong."""
    room = Room()
    names = [f"n{i}" for i in range(MOST_ASKED + 20)]
    room.api.asked.clear()
    until("each was asked for", lambda: read_nodes(room.client, names, room.lease) and set(names) <= asked(room))


def asked(room: Room) -> set[str]:
    return {call.rpartition("/")[2] for call in room.api.asked}
