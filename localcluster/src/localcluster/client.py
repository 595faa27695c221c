"""How controllers, scheduler and kubelet reach a Kubernetes API: the same Protocol in process and over HTTP.

They speak only the Kubernetes API, so that they serve a real control plane as well. `InProcessClient` calls
`ApiServer.handle` without a socket and belongs to that server's thread; `http_client.HttpClient` speaks HTTP.
No method retries, except that both wait out nothing: who calls decides what a refusal means.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import orjson

from localcluster import jsontext
from localcluster.wire import Encoded, Json, Request, Response, Watch


class ApiError(Exception):
    """An answer of 400 and above: its Status object. Code 0: no answer came (over HTTP only)."""

    def __init__(self, code: int, reason: str, message: str, causes: tuple[str, ...] = ()) -> None:
        super().__init__(f"{code} {reason}: {message}")
        self.code = code
        self.reason = reason
        self.message = message
        self.causes = causes
        """The `reason` of each of the Status' details.causes."""


@contextmanager
def ignoring(*codes: int) -> Iterator[None]:
    """Suppresses ApiErrors of these codes. 404: the object is gone already. 409: a successor has its name."""
    try:
        yield
    except ApiError as error:
        if error.code not in codes:
            raise


class EventSource(Protocol):
    """One open list-and-watch position. `poll` never blocks."""

    closed: bool
    wake: Callable[[], None] | None
    """Called, from any thread, when there is something to poll."""

    def poll(self) -> list[Json]: ...
    def close(self) -> None: ...


class Client(Protocol):
    """`path` is an API path such as /api/v1/namespaces/default/pods/a; answers are parsed JSON. Raises ApiError."""

    def get(self, path: str, **query: str) -> Json: ...
    def create(self, path: str, body: Json) -> Json: ...
    def update(self, path: str, body: Json) -> Json: ...
    def patch(self, path: str, body: Any, content_type: str = "application/merge-patch+json") -> Json: ...
    def delete(self, path: str, body: Json | None = None, **query: str) -> Json: ...
    def watch(self, path: str, resource_version: str, **query: str) -> EventSource: ...


def error_of(status: int, body: bytes) -> ApiError:
    """Makes the ApiError of a Status body. Any other body is quoted in the message."""
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError:
        parsed = {}
    if not isinstance(parsed, dict) or parsed.get("kind") != "Status":
        return ApiError(status, "Unknown", body[:300].decode(errors="replace"))
    causes = (parsed.get("details") or {}).get("causes") or []
    return ApiError(
        status, parsed.get("reason", ""), parsed.get("message", ""), tuple(c.get("reason", "") for c in causes)
    )


class _InProcessEvents:
    def __init__(self, watch: Watch, *, shares: bool) -> None:
        self._watch = watch
        self._shares = shares

    @property
    def closed(self) -> bool:
        return self._watch.closed

    @closed.setter
    def closed(self, value: bool) -> None:
        if value:
            self._watch.close()

    @property
    def wake(self) -> Callable[[], None] | None:
        return self._watch.wake

    @wake.setter
    def wake(self, value: Callable[[], None] | None) -> None:
        self._watch.wake = value

    def poll(self) -> list[Json]:
        if not self._shares:
            return [jsontext.loads(line) for line in self._watch.poll()]
        return [line.obj if isinstance(line, Encoded) else jsontext.loads(line) for line in self._watch.take()]

    def close(self) -> None:
        self._watch.wake = None
        self._watch.close()


class RequestClient:
    """The verbs of a Client over one `_call`, which makes the request and raises ApiError."""

    def _call(
        self, method: str, path: str, query: dict[str, str], body: Any = None, content_type: str = "application/json"
    ) -> Json:
        raise NotImplementedError

    def get(self, path: str, **query: str) -> Json:
        return self._call("GET", path, query)

    def create(self, path: str, body: Json) -> Json:
        return self._call("POST", path, {}, body)

    def update(self, path: str, body: Json) -> Json:
        return self._call("PUT", path, {}, body)

    def patch(self, path: str, body: Any, content_type: str = "application/merge-patch+json") -> Json:
        return self._call("PATCH", path, {}, body, content_type)

    def delete(self, path: str, body: Json | None = None, **query: str) -> Json:
        return self._call("DELETE", path, query, body)


class InProcessClient(RequestClient):
    """Calls a server's `handle` directly. Single-threaded, as the server is. What it answers is the caller's own,
    unless it `shares`: then answers and events are what the server has stored, which costs no decoding and may not be
    changed. For controllers and kubelets, whose caches are frozen anyway."""

    def __init__(
        self,
        handle: Callable[[Request], Response | Watch],
        user: str = "system:kube-controller-manager",
        *,
        shares: bool = False,
    ) -> None:
        self._handle = handle
        self._user = user
        self._shares = shares

    def _call(
        self, method: str, path: str, query: dict[str, str], body: Any = None, content_type: str = "application/json"
    ) -> Json:
        answer = self._handle(
            Request(
                method=method,
                path=path,
                query=query,
                body=b"" if body is None else jsontext.dumps(body),
                headers={"content-type": content_type, "accept": "application/json", "user-agent": self._user},
                user=self._user,
            )
        )
        if isinstance(answer, Watch):
            answer.close()
            raise ApiError(400, "BadRequest", f"{method} {path} opened a watch; use watch()")
        if answer.status >= 400:
            raise error_of(answer.status, answer.body)
        content = answer.content
        parsed: Json = content.obj if self._shares and isinstance(content, Encoded) else jsontext.loads(answer.body)
        return parsed

    def watch(self, path: str, resource_version: str, **query: str) -> EventSource:
        asked = {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": resource_version, **query}
        answer = self._handle(
            Request(
                method="GET",
                path=path,
                query=asked,
                user=self._user,
                headers={"accept": "application/json", "user-agent": self._user},
            )
        )
        if isinstance(answer, Response):
            raise error_of(answer.status, answer.body)
        return _InProcessEvents(answer, shares=self._shares)
