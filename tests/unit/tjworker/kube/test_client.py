"""KubeClient: paths, queries and bodies as the API server wants them, answers as the operator wants them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
import pytest

from tests.support.kinds import AITRAININGJOBS
from tjworker.api.resources import BATCH_JOBS, NODES, PODS, SERVICES
from tjworker.base import Conflict, Transient
from tjworker.kube.client import KubeClient
from tjworker.kube.port import HttpResponse, Stream

POD = {"metadata": {"name": "a", "uid": "u1", "resourceVersion": "5"}}


@dataclass
class Wire:
    """A Transport that answers with what it is given and remembers the last request."""

    answer: HttpResponse = field(default_factory=lambda: HttpResponse(200, orjson.dumps(POD)))
    last: tuple[str, str, dict[str, str], Any, str] = ("", "", {}, None, "")

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout_seconds: float | None = None,
    ) -> HttpResponse:
        self.last = (method, path, dict(query or {}), orjson.loads(body) if body else None, content_type)
        if self.answer.status == 0:
            raise Transient("connection refused")
        return self.answer

    def stream(self, path: str, *, query: Mapping[str, str], read_timeout_seconds: float) -> Stream:
        raise NotImplementedError

    def close(self) -> None: ...


def failure(code: int, reason: str, message: str = "no", **details: Any) -> HttpResponse:
    return HttpResponse(
        code, orjson.dumps({"kind": "Status", "reason": reason, "message": message, "details": details})
    )


@dataclass(frozen=True)
class Case:
    call: Callable[[KubeClient], Any]
    want_method: str
    want_path: str
    want_query: dict[str, str] = field(default_factory=dict)
    want_body: Any = None
    want_type: str = "application/json"


CASES: dict[str, Case] = {
    "A pod is read by name.": Case(lambda c: c.get(PODS, "team", "a"), "GET", "/api/v1/namespaces/team/pods/a"),
    "A job is read in its group.": Case(
        lambda c: c.get(AITRAININGJOBS, "team", "a"),
        "GET",
        "/apis/elasticdeeplearning.ai/v1/namespaces/team/aitrainingjobs/a",
    ),
    "A node has no namespace.": Case(lambda c: c.get(NODES, "", "n1"), "GET", "/api/v1/nodes/n1"),
    "A list asks for pages.": Case(
        lambda c: c.list_page(PODS, limit=500, label_selector="a=b"),
        "GET",
        "/api/v1/pods",
        {"limit": "500", "labelSelector": "a=b"},
    ),
    "A further page repeats no resourceVersion.": Case(
        lambda c: c.list_page(PODS, limit=5, token="t"), "GET", "/api/v1/pods", {"limit": "5", "continue": "t"}
    ),
    "A create posts to the collection.": Case(
        lambda c: c.create(SERVICES, "team", {"metadata": {"name": "a"}}),
        "POST",
        "/api/v1/namespaces/team/services",
        want_body={"metadata": {"name": "a"}},
    ),
    "What is made of a user's template is to be refused where a field is unknown, not pruned.": Case(
        lambda c: c.create(BATCH_JOBS, "team", {"metadata": {"name": "a"}}),
        "POST",
        "/apis/batch/v1/namespaces/team/jobs",
        {"fieldValidation": "Strict"},
        {"metadata": {"name": "a"}},
    ),
    "A status has its own path.": Case(
        lambda c: c.update_status(AITRAININGJOBS, "team", "a", POD),
        "PUT",
        "/apis/elasticdeeplearning.ai/v1/namespaces/team/aitrainingjobs/a/status",
        want_body=POD,
    ),
    "A patch is a merge patch.": Case(
        lambda c: c.merge_patch(PODS, "team", "a", {"metadata": {"labels": {"x": None}}}),
        "PATCH",
        "/api/v1/namespaces/team/pods/a",
        want_body={"metadata": {"labels": {"x": None}}},
        want_type="application/merge-patch+json",
    ),
    "A delete names the UID.": Case(
        lambda c: c.delete(PODS, "team", "a", uid="u1"),
        "DELETE",
        "/api/v1/namespaces/team/pods/a",
        want_body={
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": "u1"},
            "propagationPolicy": "Background",
        },
    ),
    "A forced delete has no grace.": Case(
        lambda c: c.delete(PODS, "team", "a", uid="u1", grace_seconds=0, propagation="Foreground"),
        "DELETE",
        "/api/v1/namespaces/team/pods/a",
        want_body={
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": "u1"},
            "propagationPolicy": "Foreground",
            "gracePeriodSeconds": 0,
        },
    ),
    "The end of a log is bounded.": Case(
        lambda c: c.log_tail("team", "a", "main", lines=20, limit_bytes=2048, timeout_seconds=2),
        "GET",
        "/api/v1/namespaces/team/pods/a/log",
        {"container": "main", "tailLines": "20", "limitBytes": "2048"},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_request(name: str) -> None:
    case, wire = CASES[name], Wire()
    case.call(KubeClient(wire))
    assert wire.last == (case.want_method, case.want_path, case.want_query, case.want_body, case.want_type)


def test_an_object_that_is_not_there_is_none() -> None:
    assert KubeClient(Wire(failure(404, "NotFound", name="a", kind="pods"))).get(PODS, "team", "a") is None


def test_a_delete_of_what_is_gone_is_none() -> None:
    assert KubeClient(Wire(failure(404, "NotFound", name="a", kind="pods"))).delete(PODS, "team", "a", uid="u") is None


def test_a_delete_of_what_is_another_object_now_is_a_conflict_and_taken_for_nothing_done() -> None:
    with pytest.raises(Conflict):
        KubeClient(Wire(failure(409, "Conflict", "Precondition failed: UID"))).delete(PODS, "team", "a", uid="u")


def test_a_taken_name_is_told_from_other_conflicts() -> None:
    for reason in ("AlreadyExists", "Conflict"):
        with pytest.raises(Conflict) as caught:
            KubeClient(Wire(failure(409, reason))).create(PODS, "team", POD)
        assert caught.value.reason == reason


def test_a_page_gives_its_items_revision_and_token() -> None:
    body = {"metadata": {"resourceVersion": "77", "continue": "next"}, "items": [POD]}
    page = KubeClient(Wire(HttpResponse(200, orjson.dumps(body)))).list_page(PODS)
    assert (page.items, page.resource_version, page.next_token) == ([POD], 77, "next")


def test_a_body_that_was_cut_may_be_whole_the_next_time() -> None:
    with pytest.raises(Transient):
        KubeClient(Wire(HttpResponse(200, b'{"items": ['))).list_page(PODS)


def test_no_answer_names_the_request() -> None:
    with pytest.raises(Transient, match="get pods team/a: connection refused"):
        KubeClient(Wire(HttpResponse(0, b""))).get(PODS, "team", "a")


def test_alive_is_false_without_an_answer_and_true_for_a_refusal() -> None:
    assert [KubeClient(Wire(HttpResponse(code, b""))).alive() for code in (0, 500, 200, 403)] == [
        False,
        False,
        True,
        True,
    ]
