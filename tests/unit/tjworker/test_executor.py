"""The executor: what it does with a Plan, seen in the world (the real client on the in-process cluster). What comes of
it when it is cut off or put to sleep at any write is played in rows 1 and 7 of `tests/simulation`."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.scenarios.world import job, role
from tests.support.kinds import AITRAININGJOBS
from tests.unit.tjworker.executing import Room, status_of
from tjworker.api.model import TrainingJob
from tjworker.api.resources import PODS
from tjworker.base import Conflict, Fenced, Transient
from tjworker.executor import Outcome
from tjworker.kube.port import HttpResponse
from tjworker.reconcile.plan import Event, Patch

# -- the order, and what proves that the view was fresh --------------------------------------------


def test_the_status_goes_first_then_the_writes_in_their_order_then_the_events() -> None:
    room = Room()
    done = room.apply(
        room.pod("b"), room.pod("a"), status=status_of(room), events=(Event("Normal", "Pending", "made up"),)
    )
    assert room.api.asked == ["PUT aitrainingjobs/digits/status", "POST pods", "POST pods", "POST events"]
    assert (done.status_writes, done.creates, done.deletes, done.patches) == (1, 2, 0, 0)
    assert (room.world.phase(), room.names()) == ("Pending", ["a", "b"])


def test_the_outcome_has_the_job_as_it_stands_after_the_status_write() -> None:
    room = Room()
    done = room.apply(status=status_of(room))
    assert done.job == room.read()


def test_what_was_written_is_told_to_the_lease_as_the_least_that_later_views_must_show() -> None:
    room = Room()
    room.apply(room.pod("a"), status=status_of(room))
    versions = [
        (AITRAININGJOBS, int(room.world.get(AITRAININGJOBS, "digits")["metadata"]["resourceVersion"])),
        (PODS, int(room.world.get(PODS, "a")["metadata"]["resourceVersion"])),
    ]
    assert room.lease.versions == versions


def test_a_plan_of_nothing_asks_for_nothing() -> None:
    room = Room()
    assert room.apply() == Outcome(room.job)
    assert room.api.asked == []


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


def test_a_fresh_view_costs_one_get_when_there_is_no_status_to_prove_it() -> None:
    room = Room()
    room.apply(room.pod("a"))
    assert room.api.asked == ["GET aitrainingjobs/digits", "POST pods"]


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


def test_a_delete_of_what_is_gone_is_done() -> None:
    room = Room()
    assert room.apply(room.kill("a", "gone")).deletes == 1


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


def test_a_pod_that_a_finalizer_holds_leaves_a_minimum_observed_version() -> None:
    room = Room()
    room.apply(room.pod("a", finalizers=["example.com/hold"]))
    before = len(room.lease.versions)
    room.apply(room.kill("a", grace_seconds=0))
    assert len(room.lease.versions) == before + 1


def test_a_patch_is_a_merge_patch() -> None:
    room = Room()
    room.apply(room.pod("a", labels={"x": "1", "y": "2"}))
    done = room.apply(Patch(PODS, "a", {"metadata": {"labels": {"x": None, "z": "3"}}}))
    assert room.world.pods()["a"]["metadata"]["labels"] == {"y": "2", "z": "3"}
    assert (done.patches, done.creates, done.deletes) == (1, 0, 0)


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
    assert room.apply(*(room.pod(f"a{n}") for n in range(4)), status=status_of(room)).creates == 4
    assert room.names() == ["a0", "a1", "a2", "a3"]


# -- what Flower shows -----------------------------------------------------------------------------

SUMMARIES = {
    "a pass that did nothing says the phase": (Outcome, "Running"),
    "each kind of write is counted": (
        lambda j: Outcome(
            j,
            written=Counter(
                {("created", "pods"): 2, ("created", "services"): 1, ("deleted", "pods"): 1, ("patched", "jobs"): 1}
            ),
            status_writes=1,
        ),
        "Running, created 2 pods, 1 service, deleted 1 pod, patched 1 job",
    ),
    "a refused create is said": (lambda j: Outcome(j, create_error=Transient("x")), "Running, a create was refused"),
}


@pytest.mark.parametrize(("make", "want"), SUMMARIES.values(), ids=SUMMARIES.keys())
def test_summary(make: Callable[[TrainingJob], Outcome], want: str) -> None:
    room = Room()
    assert make(replace(room.job, status=status_of(room, "Running"))).summary() == want


def test_a_job_without_a_phase_was_accepted() -> None:
    assert Outcome(Room().job).summary() == "accepted"


SEEN = {
    "in the version in which it was seen": (0, "the job", ["DELETE pods/digits-trainer-0"], False),
    "in a later one, while it is the job's": (
        1,
        "the job",
        ["DELETE pods/digits-trainer-0", "GET pods/digits-trainer-0", "DELETE pods/digits-trainer-0"],
        False,
    ),
    "not once it was let go": (1, "", ["DELETE pods/digits-trainer-0", "GET pods/digits-trainer-0"], True),
}


@pytest.mark.parametrize("sentence", SEEN)
def test_an_object_is_deleted(sentence: str) -> None:
    changes, owner, want_asked, want_there = SEEN[sentence]
    room = Room()
    reference = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "the-job", "uid": room.job.uid, "controller": True}]
    room.world.create_pod(dict(room.pod("digits-trainer-0", ownerReferences=reference).body))
    meta = room.world.pods()["digits-trainer-0"]["metadata"]
    delete = room.kill("digits-trainer-0", rv=int(meta["resourceVersion"]), owner_uid=room.job.uid)
    for _ in range(changes):
        let_go = {} if owner else {"ownerReferences": None}
        room.world.patch_pod("digits-trainer-0", {"metadata": {"annotations": {"a": "b"}, **let_go}})
    room.api.asked.clear()
    if want_there:
        with pytest.raises(Conflict):
            room.apply(delete)
    else:
        room.apply(delete)
    assert [asked for asked in room.api.asked if "aitrainingjobs" not in asked] == want_asked
    assert ("digits-trainer-0" in room.names()) is want_there
