"""KubeClient's other promises: how long each request may take, what a watch asks for and how it is refused, what a
delete and a patch are bound to, answers that are none. Paths and queries: test_client.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
import pytest

from tests.support.kinds import AITRAININGJOBS
from tjworker.api.resources import PODS
from tjworker.base import Conflict, OperatorError, Terminal, Transient
from tjworker.kube.client import KubeClient
from tjworker.kube.port import HttpResponse

OBJECT = orjson.dumps({"metadata": {"name": "a", "resourceVersion": "5"}})
REQUEST_SECONDS, WATCH_SECONDS = 15.0, 60.0


@dataclass
class Opened:
    """A watch's answer."""

    status: int = 200
    text: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    closed: bool = False

    def body(self) -> bytes:
        return self.text

    def lines(self) -> Iterator[list[bytes]]:
        yield []

    def close(self) -> None:
        self.closed = True


@dataclass
class Wire:
    """A Transport that remembers how long it was given, and all of the last request."""

    answer: HttpResponse = field(default_factory=lambda: HttpResponse(200, OBJECT))
    opened: Opened = field(default_factory=Opened)
    seconds: float | None = None
    path: str = ""
    query: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    closed: bool = False

    def request(
        self,
        _method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "",
        timeout_seconds: float | None = None,
    ) -> HttpResponse:
        self.path, self.query, self.seconds = path, dict(query or {}), timeout_seconds
        self.body = orjson.loads(body) if body else None
        return self.answer

    def stream(self, path: str, *, query: Mapping[str, str], read_timeout_seconds: float) -> Opened:
        self.path, self.query, self.seconds = path, dict(query), read_timeout_seconds
        return self.opened

    def close(self) -> None:
        self.closed = True


def client(wire: Wire) -> KubeClient:
    return KubeClient(wire, request_timeout_seconds=REQUEST_SECONDS, watch_read_timeout_seconds=WATCH_SECONDS)


def log(seconds: float) -> Callable[[KubeClient], Any]:
    return lambda c: c.log_tail("team", "a", "main", lines=20, limit_bytes=2048, timeout_seconds=seconds)


Call = Callable[[KubeClient], Any]
TIMES: dict[str, tuple[Call, float]] = {
    "a get": (lambda c: c.get(PODS, "team", "a"), REQUEST_SECONDS),
    "a page of a list": (lambda c: c.list_page(PODS), REQUEST_SECONDS),
    "a create": (lambda c: c.create(PODS, "team", {}), REQUEST_SECONDS),
    "an update": (lambda c: c.update(PODS, "team", "a", {}), REQUEST_SECONDS),
    "a status": (lambda c: c.update_status(AITRAININGJOBS, "team", "a", {}), REQUEST_SECONDS),
    "a patch": (lambda c: c.merge_patch(PODS, "team", "a", {}), REQUEST_SECONDS),
    "a delete": (lambda c: c.delete(PODS, "team", "a", uid="u"), REQUEST_SECONDS),
    "a log, which has less": (log(2), 2),
    "a log that would have more": (log(100), REQUEST_SECONDS),
    "the question whether it lives": (lambda c: c.alive(), 5),
    "a watch, which is silent for long": (
        lambda c: c.watch(PODS, resource_version=1, timeout_seconds=45),
        WATCH_SECONDS,
    ),
}


@pytest.mark.parametrize(("call", "want"), TIMES.values(), ids=TIMES.keys())
def test_how_long_a_request_may_take(call: Call, want: float) -> None:
    wire = Wire()
    call(client(wire))
    assert wire.seconds == want


REFUSED: dict[str, tuple[int, type[OperatorError], str]] = {
    "history that is gone": (410, Conflict, "Expired"),
    "too many requests": (429, Transient, "TooManyRequests"),
    "no permission": (403, Terminal, "Forbidden"),
}


@pytest.mark.parametrize(("code", "want", "reason"), REFUSED.values(), ids=REFUSED.keys())
def test_a_watch_that_is_refused_is_closed_and_tells_why(code: int, want: type[OperatorError], reason: str) -> None:
    status = {"kind": "Status", "code": code, "reason": reason, "message": 'User "a" cannot watch'}
    wire = Wire(opened=Opened(code, orjson.dumps(status), {"retry-after": "7"}))
    with pytest.raises(want, match=r"watch pods team: .* cannot watch") as caught:
        client(wire).watch(PODS, "team", resource_version=1, timeout_seconds=1)
    assert (caught.value.status, caught.value.reason, caught.value.retry_after_seconds) == (code, reason, 7)
    assert wire.opened.closed


DELETES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "of one version": ({"version": 9}, {"preconditions": {"uid": "u", "resourceVersion": "9"}}),
    "of one version, at once": (
        {"version": 9, "grace_seconds": 0},
        {"preconditions": {"uid": "u", "resourceVersion": "9"}, "gracePeriodSeconds": 0},
    ),
    "with a grace": ({"grace_seconds": 5}, {"preconditions": {"uid": "u"}, "gracePeriodSeconds": 5}),
}


@pytest.mark.parametrize(("options", "want"), DELETES.values(), ids=DELETES.keys())
def test_what_a_delete_is_bound_to(options: dict[str, Any], want: dict[str, Any]) -> None:
    wire = Wire()
    client(wire).delete(PODS, "team", "a", uid="u", **options)
    plain = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
    assert wire.body == plain | want


def refusal(code: int, **details: str) -> HttpResponse:
    return HttpResponse(code, orjson.dumps({"kind": "Status", "code": code, "details": details}))


MISSING: dict[str, tuple[HttpResponse, type[OperatorError] | None]] = {
    "the object": (refusal(404, name="a", kind="pods"), None),
    "its namespace": (refusal(404, name="team", kind="namespaces"), Transient),
    "its kind": (refusal(404), Transient),
    "its history": (refusal(410), Conflict),
}


@pytest.mark.parametrize(("answer", "want"), MISSING.values(), ids=MISSING.keys())
def test_only_an_object_that_is_not_there_is_none(answer: HttpResponse, want: type[OperatorError] | None) -> None:
    if want is None:
        assert client(Wire(answer)).get(PODS, "team", "a") is None
        return
    with pytest.raises(want):
        client(Wire(answer)).get(PODS, "team", "a")


ODD_PAGES: dict[str, tuple[bytes, type[OperatorError]]] = {
    "a version that is no number": (b'{"metadata": {"resourceVersion": "x"}, "items": []}', Terminal),
    "no object": (b"[]", Terminal),
    "a body that was cut": (b'{"items": [', Transient),
}


@pytest.mark.parametrize(("body", "want"), ODD_PAGES.values(), ids=ODD_PAGES.keys())
def test_an_answer_that_is_no_list(body: bytes, want: type[OperatorError]) -> None:
    with pytest.raises(want, match="list pods"):
        client(Wire(HttpResponse(200, body))).list_page(PODS)


@pytest.mark.parametrize(
    ("code", "want"), [(200, True), (401, True), (404, True), (499, True), (500, False), (503, False)]
)
def test_whether_it_lives(code: int, want: bool) -> None:
    wire = Wire(HttpResponse(code, b""))
    assert client(wire).alive() is want
    assert wire.path == "/version", "never a list"
