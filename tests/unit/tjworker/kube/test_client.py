"""KubeClient: paths, queries and bodies as the API server wants them, answers as the operator wants them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
import pytest

from tests.support.kinds import AITRAININGJOBS
from tjworker.api.resources import BATCH_JOBS, PODS, SERVICES
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


def test_a_delete_of_what_is_another_object_now_is_a_conflict_and_taken_for_nothing_done() -> None:
    with pytest.raises(Conflict):
        KubeClient(Wire(failure(409, "Conflict", "Precondition failed: UID"))).delete(PODS, "team", "a", uid="u")


def test_a_taken_name_is_told_from_other_conflicts() -> None:
    for reason in ("AlreadyExists", "Conflict"):
        with pytest.raises(Conflict) as caught:
            KubeClient(Wire(failure(409, reason))).create(PODS, "team", POD)
        assert caught.value.reason == reason
