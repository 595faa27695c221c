"""The executor when a request is refused or fails: what is told first, what is kept back, what is accounted for."""

from __future__ import annotations

import pytest

from tests.unit.tjworker.execution.executing import Room, count, refusal, status_of
from tjworker.api.resources import PODS, SERVICES
from tjworker.base import Transient
from tjworker.execution.executor import REFUSED_CREATES_A_PASS
from tjworker.kube.port import HttpResponse
from tjworker.reconcile.plan import Create, Patch


def test_after_a_refused_create_no_further_create_is_tried_but_deletes_are() -> None:
    room = Room()
    room.apply(room.pod("old"))
    room.api.instead["POST pods"] = refusal(403, "Forbidden")
    room.api.asked.clear()
    done = room.apply(room.pod("a"), room.pod("b"), room.kill("old", grace_seconds=0))
    assert [a for a in room.api.asked if not a.startswith("GET")] == ["POST pods", "DELETE pods/old"]
    assert done.create_error is not None
    assert (done.invalid_child, count(done, "deleted")) == (None, 1)


def test_a_namesake_of_another_job_is_refused_with_that_jobs_name() -> None:
    room = Room()
    owner = {"apiVersion": "elasticdeeplearning.ai/v1", "kind": "AITrainingJob", "controller": True}
    room.apply(room.pod("a", ownerReferences=[{**owner, "name": "bert", "uid": "u-2"}]))
    done = room.apply(room.pod("a", ownerReferences=[{**owner, "name": "digits", "uid": room.job.uid}]))
    assert done.create_error is not None
    assert done.create_error.message == (
        'Pod "a" exists already and belongs to AITrainingJob bert: rename this job or its role, or delete that one'
    )


REFUSED_ALONE = {
    "it is invalid": refusal(422, "Invalid"),
    "admission denies it": refusal(403, "Forbidden", 'admission webhook "w" denied the request: no'),
}


@pytest.mark.parametrize("width", [1, 4])
@pytest.mark.parametrize("answer", REFUSED_ALONE.values(), ids=REFUSED_ALONE.keys())
def test_a_pod_that_is_refused_for_itself_keeps_no_other_from_being_made(answer: HttpResponse, width: int) -> None:
    room = Room(width=width)
    room.api.refused["b"] = answer
    done = room.apply(*(room.pod(name) for name in "abcd"))
    assert (count(done, "created"), room.names()) == (3, ["a", "c", "d"])
    assert (done.create_error is None) != (done.invalid_child is None)


def test_a_template_that_is_refused_for_each_of_its_pods_costs_a_pass_a_few_requests_and_then_come_the_others() -> None:
    room = Room()
    for name in "abcde":
        room.api.refused[name] = refusal(422, "Invalid")
    wanted = [room.pod(name) for name in "abcdefg"]
    assert count(room.apply(*wanted), "created") == 0
    assert room.api.asked.count("POST pods") == REFUSED_CREATES_A_PASS
    assert (count(room.apply(*wanted), "created"), room.names()) == (2, ["f", "g"]), "what has failed comes last"


def test_a_quota_that_is_used_up_costs_one_request_however_many_pods_are_missing() -> None:
    room = Room()
    room.api.instead["POST pods"] = refusal(403, "Forbidden", 'pods "a" is forbidden: exceeded quota: gpus')
    room.apply(*(room.pod(name) for name in "abcd"))
    assert room.api.asked.count("POST pods") == 1


def test_what_was_written_beside_a_refused_create_is_accounted_for() -> None:
    """Else its event would be taken for news, and the next pass would trust a view that does not show it."""
    room = Room(width=3)
    room.apply(room.pod("b"))
    room.api.instead = {"POST services": refusal(403, "Forbidden")}
    body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}
    room.lease.versions.clear()
    done = room.apply(
        Create(SERVICES, "s", body), room.pod("a"), Patch(PODS, "b", {"metadata": {"labels": {"x": "1"}}})
    )
    assert done.create_error is not None
    assert (count(done, "created"), count(done, "patched")) == (1, 1)
    assert room.lease.versions == [
        (PODS, int(room.world.get(PODS, name)["metadata"]["resourceVersion"])) for name in ("a", "b")
    ]


def test_a_delete_that_the_api_server_has_no_time_for_is_raised_with_the_wait_it_asks_for() -> None:
    room = Room()
    room.apply(room.pod("a"))
    room.api.instead["DELETE"] = HttpResponse(429, b"{}", {"retry-after": "7"})
    with pytest.raises(Transient) as raised:
        room.apply(room.kill("a"), room.pod("b"))
    assert (raised.value.retry_after_seconds, room.names()) == (7, ["a"])


DENIED = 'admission webhook "protect" denied the request: no'
ABOUT_ONE: dict[str, HttpResponse] = {
    "admission denied it": refusal(403, "Forbidden", DENIED),
    "it is invalid": refusal(422, "Invalid"),
    "the webhook for such objects is away": refusal(500, "InternalError", 'failed calling webhook "protect": EOF'),
}


@pytest.mark.parametrize("name", ABOUT_ONE)
@pytest.mark.parametrize("width", [1, 4])
def test_a_delete_that_is_refused_for_what_its_object_is_keeps_nothing_else_back(name: str, width: int) -> None:
    room = Room(width=width)
    for one in ("a", "b", "c"):
        room.apply(room.pod(one))
    room.api.instead["DELETE pods/a"] = ABOUT_ONE[name]
    done = room.apply(*(room.kill(one, grace_seconds=0) for one in ("a", "b", "c")), room.pod("d"))
    assert (count(done, "deleted"), count(done, "created"), room.names()) == (2, 1, ["a", "d"])
    assert done.delete_error is not None
    assert "pods default/a" in done.delete_error.message
    assert "a delete has failed" in done.summary()


def test_a_status_that_fails_keeps_every_other_write_back() -> None:
    room = Room()
    room.api.instead["PUT"] = refusal(500, "InternalError")
    with pytest.raises(Transient):
        room.apply(room.pod("a"), status=status_of(room))
    assert (room.names(), room.lease.versions) == ([], [])


@pytest.mark.parametrize("answer", REFUSED_ALONE.values(), ids=REFUSED_ALONE.keys())
def test_a_pod_that_is_made_after_one_that_is_refused_for_itself_is_not_remembered_as_failed(
    answer: HttpResponse,
) -> None:
    room = Room()
    room.api.refused["a"] = answer
    room.apply(room.pod("a"), room.pod("b"))
    assert not room.executor._stragglers.has((room.lease.key, PODS, ""))
