"""A job's pods and workloads as the API server has them: what is asked for, and what the answers do to a view."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.queueing import finish_one
from tests.unit.tjworker.execution.executing import Room, refusal
from tjworker.api.labels import JOB_UID
from tjworker.api.needs import ALL_PODS, ChildNow
from tjworker.api.observed import Observed, PodRecord
from tjworker.api.resources import PODS
from tjworker.base import OperatorError, Transient
from tjworker.controllers.live_children import MOST_GETS, read_children
from tjworker.execution.lease import Lease
from tjworker.kube.port import HttpResponse

RUNNING = "digits-trainer-0"
EARLIER, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:00:30Z"


@pytest.fixture
def room() -> Room:
    room = Room()
    finish_one(room.world.store.queue, room.claim)
    room.world.queue.publish(room.world.store.queue.add([room.claim.key]))
    room.world.run()
    room.world.store.queue.add([room.claim.key])
    room.claim = room._claim()
    room.lease = Lease(room.world.store.queue, room.claim, 30.0, room.world.clock)
    room.api.asked.clear()
    return room


def read(room: Room, observed: Observed, *needs: ChildNow, page_size: int = 500) -> Observed:
    name, uid = room.job.name, room.job.uid
    return read_children(room.client, name, uid, observed, needs, room.lease, page_size)


def old(name: str, **fields: object) -> PodRecord:
    return replace(PodRecord(name, "an older one's", 1, owner_uid="uid-of-digits", phase="Failed"), **fields)  # type: ignore[arg-type]


def test_what_is_asked_for_is_as_the_api_server_has_it(room: Room) -> None:
    found = read(room, Observed(pods=(old(RUNNING),)), ChildNow(PODS, RUNNING))
    (pod,) = found.pods
    assert (pod.uid, pod.phase) == (room.world.uids()[RUNNING], "Running")
    assert found.confirmed == {ChildNow(PODS, RUNNING)}
    assert room.api.asked == [f"GET pods/{RUNNING}"]


def test_what_there_is_not_goes_and_what_was_missing_comes(room: Room) -> None:
    found = read(room, Observed(pods=(old("gone"),)), ChildNow(PODS, "gone"), ChildNow(PODS, RUNNING))
    assert [pod.name for pod in found.pods] == [RUNNING]


@pytest.mark.parametrize("asked", [ChildNow(PODS, RUNNING), ALL_PODS])
def test_what_the_watcher_has_seen_of_a_deletion_stays_with_the_answer(room: Room, asked: ChildNow) -> None:
    """The API server forgets that a grace period was granted when the kubelet confirms the deletion."""
    room.world.hold_pod(RUNNING).delete_pod(RUNNING, grace_seconds=0)
    uid = room.world.uids()[RUNNING]
    view = old(RUNNING, uid=uid, deleted_at=LATER, deletion_asked_at=EARLIER, was_told_to_go=True)
    (pod,) = (pod for pod in read(room, Observed(pods=(view,)), asked).pods if pod.name == RUNNING)
    assert (pod.deletion_asked_at, pod.deletion_grace_seconds, pod.was_told_to_go) == (EARLIER, 0, True)
    assert pod.deleted_at != LATER


def test_a_list_comes_in_pages(room: Room) -> None:
    found = read(room, Observed(), ALL_PODS, page_size=1)
    assert [pod.name for pod in found.pods] == [RUNNING, "digits-trainer-1"]
    assert room.api.asked == ["GET pods"] * 2


def test_a_pod_of_another_job_is_none_of_this_one(room: Room) -> None:
    """Though it has this job's label: a copied template."""
    owner = {"apiVersion": "elasticdeeplearning.ai/v1", "kind": "AITrainingJob", "name": "other", "uid": "u-2"}
    made = room.pod("stranger", labels={JOB_UID: room.job.uid}, ownerReferences=[owner | {"controller": True}])
    room.world.create_pod(dict(made.body))
    assert read(room, Observed(pods=(old("stranger"),)), ChildNow(PODS, "stranger")).pods == ()


def test_many_pods_are_asked_for_by_one_list(room: Room) -> None:
    found = read(room, Observed(), *(ChildNow(PODS, f"p{n}") for n in range(MOST_GETS + 1)))
    assert ALL_PODS in found.confirmed
    assert room.api.asked == ["GET pods"]


def test_a_pod_whose_label_somebody_took_away_is_asked_for_by_name(room: Room) -> None:
    room.world.patch_pod(RUNNING, {"metadata": {"labels": {JOB_UID: None}}})
    found = read(room, Observed(pods=(old(RUNNING),)), ALL_PODS)
    assert [pod.name for pod in found.pods] == [RUNNING, "digits-trainer-1"]
    assert room.api.asked == ["GET pods", f"GET pods/{RUNNING}"]


@pytest.mark.parametrize("answer", [refusal(500, "InternalError"), Transient("timed out")], ids=["error", "silence"])
def test_without_an_answer_nothing_is_decided(answer: HttpResponse | OperatorError, room: Room) -> None:
    room.api.instead["GET pods"] = answer
    with pytest.raises(Transient):
        read(room, Observed(pods=(old(RUNNING),)), ChildNow(PODS, RUNNING))
