"""The executor: what it does with a Plan, seen in the world (the real client on the in-process cluster). What comes of
it when it is cut off or put to sleep at any write is played in rows 1 and 7 of `tests/simulation`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.scenarios.world import job, role
from tests.support.kinds import AITRAININGJOBS
from tests.unit.tjworker.execution.executing import Room, count, status_of
from tjworker.api.resources import PODS
from tjworker.base import Conflict, Fenced
from tjworker.kube.port import HttpResponse
from tjworker.reconcile.plan import Event

# -- the order, and what proves that the view was fresh --------------------------------------------


def test_what_was_written_is_told_to_the_lease_as_the_least_that_later_views_must_show() -> None:
    room = Room()
    room.apply(room.pod("a"), status=status_of(room))
    versions = [
        (AITRAININGJOBS, int(room.world.get(AITRAININGJOBS, "digits")["metadata"]["resourceVersion"])),
        (PODS, int(room.world.get(PODS, "a")["metadata"]["resourceVersion"])),
    ]
    assert room.lease.versions == versions


@dataclass(frozen=True, slots=True)
class Old:
    """What happens between the view and the pass."""

    meanwhile: Callable[[Room], object]
    with_status: bool


def _edit(room: Room) -> None:
    room.world.patch_job("digits", {"metadata": {"annotations": {"a": "b"}}})


def _again(room: Room) -> None:
    room.world.delete("digits").cluster.run_until_idle()
    room.world.apply(job({"trainer": role(2)}))


OLD = {
    f"{what}, {how}": Old(meanwhile, with_status)
    for what, meanwhile in {
        "the job was edited": _edit,
        "the job was deleted": lambda room: room.world.delete("digits"),
        "the job was deleted and created again": _again,
    }.items()
    for how, with_status in {"and the pass writes a status": True, "and the pass only creates": False}.items()
}


@pytest.mark.parametrize("case", OLD.values(), ids=OLD.keys())
def test_a_pass_on_an_old_view_writes_nothing(case: Old) -> None:
    room = Room()
    status = status_of(room)
    case.meanwhile(room)
    before = room.world.get(AITRAININGJOBS)["items"]
    with pytest.raises(Conflict) as refused:
        room.apply(
            room.pod("a"), status=status if case.with_status else None, events=(Event("Normal", "Pending", "made up"),)
        )
    assert case.with_status or refused.value.reason == "StaleView"
    assert (room.names(), room.world.get(AITRAININGJOBS)["items"], room.world.events()) == ([], before, {})


def test_a_holder_that_has_lost_its_key_writes_nothing() -> None:
    room = Room()
    room.world.cluster.advance(31)
    with pytest.raises(Fenced):
        room.apply(room.pod("a"), status=status_of(room))
    with pytest.raises(Fenced):
        room.apply(room.pod("a"))
    assert (room.names(), room.world.phase()) == ([], "")


# -- the writes ------------------------------------------------------------------------------------


def test_a_delete_names_the_uid_that_was_seen() -> None:
    room = Room()
    room.apply(room.pod("a"))
    first = room.kill("a")
    room.world.delete_pod("a", 0)
    room.apply(room.pod("a"))
    successor = room.world.uids()
    with pytest.raises(Conflict):
        room.apply(first)
    assert room.world.uids() == successor


def test_a_delete_leaves_the_object_its_own_grace_unless_told_otherwise() -> None:
    room = Room()
    room.apply(room.pod("a"), room.pod("b"))
    room.world.cluster.run_until_idle()
    room.apply(room.kill("a"), room.kill("b", grace_seconds=0))
    assert room.names() == ["a"]
    assert room.world.pods()["a"]["metadata"]["deletionGracePeriodSeconds"] == 30


def test_the_deletion_of_an_object_that_is_gone_at_once_is_told_apart_because_the_next_pass_waits_for_its_event() -> (
    None
):
    room = Room()
    room.apply(room.pod("a"), room.pod("b"))
    room.world.cluster.run_until_idle()
    before = len(room.lease.versions)
    room.apply(room.kill("a", grace_seconds=0))
    assert (len(room.lease.versions), [resource for resource, _ in room.lease.gone]) == (before, [PODS])
    assert room.lease.gone[0][1] > max(rv for _, rv in room.lease.versions)
    room.apply(room.kill("b"))
    assert room.lease.versions[before:] == [(PODS, int(room.world.get(PODS, "b")["metadata"]["resourceVersion"]))]


def test_writes_of_one_pass_are_under_way_at_once() -> None:
    """Each waits at the API server for another one: one after the other they would never meet."""
    room = Room(width=2)
    meeting, alone, plain = threading.Barrier(2, timeout=60), threading.Lock(), room.api.request

    def request(method: str, path: str, **more: Any) -> HttpResponse:
        if method == "POST":
            meeting.wait()
        with alone:
            return plain(method, path, **more)

    room.api.request = request  # type: ignore[method-assign]
    assert count(room.apply(*(room.pod(f"a{n}") for n in range(4)), status=status_of(room)), "created") == 4
    assert room.names() == ["a0", "a1", "a2", "a3"]
