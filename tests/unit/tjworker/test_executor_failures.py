"""The executor when a request is refused or fails: what is told first, what is kept back, what is accounted for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.tjworker.executing import Room, refusal, status_of
from tjworker.api.resources import PODS, SERVICES
from tjworker.api.status import Condition
from tjworker.base import Terminal, Transient
from tjworker.executor import REFUSED_CREATES_A_PASS
from tjworker.kube.port import HttpResponse
from tjworker.reconcile.plan import Create, Delete, Patch


def owned(room: Room) -> dict[str, Any]:
    return {
        "ownerReferences": [
            {
                "apiVersion": "elasticdeeplearning.ai/v1",
                "kind": "AITrainingJob",
                "name": "digits",
                "uid": room.job.uid,
                "controller": True,
            }
        ]
    }


def test_an_own_pod_that_is_there_already_counts_as_created() -> None:
    room = Room()
    room.apply(room.pod("a", **owned(room)))
    before = room.world.uids()
    done = room.apply(room.pod("a", **owned(room)))
    assert (done.creates, done.create_error, room.world.uids()) == (1, None, before)


def test_the_version_of_a_pod_that_was_there_already_is_no_echo_of_ours() -> None:
    """A kubelet may have changed it since: that it runs must wake the job."""
    room = Room()
    room.apply(room.pod("a", **owned(room)))
    room.world.patch_pod("a", {"metadata": {"labels": {"changed": "by-others"}}})
    room.lease.versions.clear()
    room.apply(room.pod("a", **owned(room)))
    newest = int(room.world.get(PODS, "a")["metadata"]["resourceVersion"])
    assert (room.lease.versions, room.lease.gone) == ([], [(PODS, newest)])


def test_a_namesake_of_another_owner_is_refused_with_its_kind_and_name() -> None:
    room = Room()
    room.apply(room.pod("a"))
    done = room.apply(room.pod("a", **owned(room)))
    assert done.creates == 0
    assert done.create_error is not None
    assert done.create_error.message == (
        'Pod "a" exists already and does not belong to this job: delete it, or rename the job'
    )
    assert (done.create_error.status, done.create_error.reason) == (409, "AlreadyExists")


def test_a_namesake_of_another_job_is_refused_with_that_jobs_name() -> None:
    room = Room()
    other = {"apiVersion": "elasticdeeplearning.ai/v1", "kind": "AITrainingJob", "name": "bert", "uid": "u-2"}
    room.apply(room.pod("a", ownerReferences=[{**other, "controller": True}]))
    done = room.apply(room.pod("a", **owned(room)))
    assert done.create_error is not None
    assert done.create_error.message == (
        'Pod "a" exists already and belongs to AITrainingJob bert: rename this job or its role, or delete that one'
    )


def test_after_a_refused_create_no_further_create_is_tried_but_deletes_are() -> None:
    room = Room()
    room.apply(room.pod("old"))
    room.api.instead["POST pods"] = refusal(403, "Forbidden")
    room.api.asked.clear()
    done = room.apply(room.pod("a"), room.pod("b"), room.kill("old", grace_seconds=0))
    assert [a for a in room.api.asked if not a.startswith("GET")] == ["POST pods", "DELETE pods/old"]
    assert done.create_error is not None
    assert (done.invalid_child, done.deletes) == (None, 1)


def test_an_invalid_child_is_told_from_a_refused_one() -> None:
    room = Room()
    room.api.instead["POST pods"] = refusal(422, "Invalid")
    done = room.apply(room.pod("a"), room.pod("b"))
    assert done.invalid_child is not None
    assert "made up: Invalid" in done.invalid_child.message
    assert (done.create_error, done.creates, room.api.asked.count("POST pods")) == (None, 0, 2)


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
    assert (done.creates, room.names()) == (3, ["a", "c", "d"])
    assert (done.create_error is None) != (done.invalid_child is None)


def test_a_template_that_is_refused_for_each_of_its_pods_costs_a_pass_a_few_requests_and_then_come_the_others() -> None:
    room = Room()
    for name in "abcde":
        room.api.refused[name] = refusal(422, "Invalid")
    wanted = [room.pod(name) for name in "abcdefg"]
    assert room.apply(*wanted).creates == 0
    assert room.api.asked.count("POST pods") == REFUSED_CREATES_A_PASS
    assert (room.apply(*wanted).creates, room.names()) == (2, ["f", "g"]), "what has failed comes last"


def test_a_quota_that_is_used_up_costs_one_request_however_many_pods_are_missing() -> None:
    room = Room()
    room.api.instead["POST pods"] = refusal(403, "Forbidden", 'pods "a" is forbidden: exceeded quota: gpus')
    room.apply(*(room.pod(name) for name in "abcd"))
    assert room.api.asked.count("POST pods") == 1


@pytest.mark.parametrize("code", [403, 422, 500])
@pytest.mark.parametrize("width", [1, 4])
def test_a_refused_create_of_what_stands_beside_the_job_keeps_nothing_back(code: int, width: int) -> None:
    room = Room(width=width)
    room.api.instead["POST services"] = refusal(code, "Refused")
    board = Create(SERVICES, "s", {"kind": "Service", "metadata": {"name": "s"}}, optional=True)
    done = room.apply(board, *(room.pod(name) for name in ("a", "b")))
    assert (done.create_error, done.invalid_child, done.creates, room.names()) == (None, None, 2, ["a", "b"])
    assert done.optional_error is not None
    assert "a create of an optional object was refused" in done.summary()


def test_what_stands_beside_the_job_never_comes_before_what_was_kept_back() -> None:
    """Else it would take the quota that the job waits for."""
    room = Room()
    room.api.instead["POST pods"] = refusal(403, "Forbidden")
    board = replace(room.pod("board"), optional=True)
    room.apply(room.pod("a"), board)
    room.api.instead.clear()
    room.apply(room.pod("a"), board)
    uids = {name: int(room.world.get(PODS, name)["metadata"]["resourceVersion"]) for name in ("a", "board")}
    assert uids["a"] < uids["board"]


def test_of_several_refusals_the_first_is_told() -> None:
    room = Room(width=2)
    room.api.instead = {"POST pods": refusal(403, "Forbidden"), "POST services": refusal(429, "TooManyRequests")}
    service = Create(SERVICES, "s", {"kind": "Service", "metadata": {"name": "s"}})
    done = room.apply(room.pod("a"), service)
    assert done.create_error is not None
    assert "Forbidden" in done.create_error.message


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
    assert (done.creates, done.patches) == (1, 1)
    assert room.lease.versions == [
        (PODS, int(room.world.get(PODS, name)["metadata"]["resourceVersion"])) for name in ("a", "b")
    ]


def test_a_delete_that_fails_ends_the_pass() -> None:
    room = Room()
    room.apply(room.pod("a"))
    room.api.instead["DELETE"] = refusal(500, "InternalError")
    done = room.apply(room.kill("a"), room.pod("b"))
    assert (type(done.delete_error), room.names()) == (Transient, ["a"])


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
    assert (done.deletes, done.creates, room.names()) == (2, 1, ["a", "d"])
    assert done.delete_error is not None
    assert "pods default/a" in done.delete_error.message
    assert "a delete has failed" in done.summary()


def test_a_permission_that_is_missing_is_not_asked_for_again_with_every_object() -> None:
    room = Room()
    room.api.instead["DELETE"] = refusal(403, "Forbidden", 'pods "a" is forbidden: User "x" cannot delete it')
    done = room.apply(*(room.kill(one, "uid") for one in ("a", "b", "c")))
    assert isinstance(done.delete_error, Terminal)
    assert len([asked for asked in room.api.asked if asked.startswith("DELETE")]) == 1


def test_what_was_written_beside_a_delete_that_fails_is_accounted_for() -> None:
    room = Room(width=2)
    room.api.instead = {"DELETE pods/b": refusal(503, "ServiceUnavailable")}
    room.lease.versions.clear()
    assert room.apply(Delete(PODS, "b", "uid-of-b"), room.pod("a")).delete_error is not None
    assert room.lease.versions == [(PODS, int(room.world.get(PODS, "a")["metadata"]["resourceVersion"]))]


def test_a_status_that_fails_keeps_every_other_write_back() -> None:
    room = Room()
    room.api.instead["PUT"] = refusal(500, "InternalError")
    with pytest.raises(Transient):
        room.apply(room.pod("a"), status=status_of(room))
    assert (room.names(), room.lease.versions) == ([], [])


def test_a_job_that_is_known_to_be_refused_gets_one_create_at_a_time() -> None:
    room = Room(width=4)
    room.api.instead["POST pods"] = refusal(403, "Forbidden")
    room.apply(*(room.pod(f"a{n}") for n in range(8)))
    assert room.api.asked.count("POST pods") == 4, "as many as are under way at once"
    condition = Condition(
        type="Running",
        status="False",
        observed_generation=1,
        last_transition_time="2026-01-01T00:00:00Z",
        reason="FailedCreate",
        message="over quota",
    )
    room.api.asked.clear()
    room.apply(
        *(room.pod(f"a{n}") for n in range(8)), status=room.job.status.model_copy(update={"conditions": (condition,)})
    )
    assert room.api.asked.count("POST pods") == 1


@pytest.mark.parametrize("answer", REFUSED_ALONE.values(), ids=REFUSED_ALONE.keys())
def test_a_pod_that_is_made_after_one_that_is_refused_for_itself_is_not_remembered_as_failed(
    answer: HttpResponse,
) -> None:
    room = Room()
    room.api.refused["a"] = answer
    room.apply(room.pod("a"), room.pod("b"))
    assert not room.executor._stragglers.has((room.lease.key, PODS, ""))
