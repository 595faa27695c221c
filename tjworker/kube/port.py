"""The API server as the operator sees it: raw JSON (dicts) in and out, errors of the four classes, nothing cached.

`client.py` implements it over a `Transport`; `transport.py` is the real transport (the kubernetes client's own connection
pool and authentication). Tests put a transport to an in-process API server under the same client.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class HttpResponse:
    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    """Lower-case names."""


class Transport(Protocol):
    """Thread-safe. Raises Transient when no answer came (refused, reset, timed out); never maps status codes."""

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout_seconds: float | None = None,
    ) -> HttpResponse: ...

    def stream(self, path: str, *, query: Mapping[str, str], read_timeout_seconds: float) -> Stream:
        """Open a watch. Raises Transient when it cannot be opened; a status other than 200 is given in `Stream.status`."""
        ...

    def close(self) -> None: ...


class Stream(Protocol):
    """One open watch. Not thread-safe, but `close` may be called from another thread to end it."""

    status: int
    headers: Mapping[str, str]
    """Lower-case names."""

    def lines(self) -> Iterator[list[bytes]]:
        """Batches of whole lines, as many as have already arrived (at least one a batch). Ends when the server ends the
        watch. Raises Transient on a time-out or a broken connection."""
        ...

    def body(self) -> bytes:
        """The whole body; only for a status other than 200."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class ListPage:
    items: Sequence[Json]
    resource_version: int
    """Of the list, the same on each page."""
    next_token: str = ""


class KubeApi(Protocol):
    """Every method raises Transient, Conflict, Invalid or Terminal (`tjworker.base`). `resource` is the plural of a row in
    `kube.resources.RESOURCES`."""

    def get(self, resource: str, namespace: str, name: str) -> Json | None:
        """The object, None when there is none."""
        ...

    def list_page(
        self,
        resource: str,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 0,
        token: str = "",
        resource_version: str = "",
    ) -> ListPage: ...

    def create(self, resource: str, namespace: str, body: Mapping[str, Any]) -> Json:
        """Raises Conflict with reason AlreadyExists when the name is taken."""
        ...

    def update(self, resource: str, namespace: str, name: str, body: Mapping[str, Any]) -> Json: ...

    def update_status(self, resource: str, namespace: str, name: str, body: Mapping[str, Any]) -> Json:
        """PUT on /status. `body.metadata` carries uid and resourceVersion."""
        ...

    def merge_patch(
        self, resource: str, namespace: str, name: str, body: Mapping[str, Any], *, subresource: str = ""
    ) -> Json: ...

    def delete(
        self,
        resource: str,
        namespace: str,
        name: str,
        *,
        uid: str,
        grace_seconds: int | None = None,
        propagation: str = "Background",
    ) -> Json | None:
        """None when it was gone already. Raises Conflict when the name now is another object's (the UID differs)."""
        ...

    def delete_collection(
        self, resource: str, namespace: str, *, label_selector: str, grace_seconds: int | None = None
    ) -> None: ...

    def log_tail(self, namespace: str, pod: str, container: str, *, lines: int, limit_bytes: int) -> str: ...

    def watch(
        self,
        resource: str,
        namespace: str = "",
        *,
        resource_version: int,
        timeout_seconds: int,
        label_selector: str = "",
    ) -> Stream:
        """An open watch with bookmarks. Raises as the others; 410 is Conflict with reason Expired."""
        ...

    def alive(self) -> bool:
        """Whether the API server answers at all: a cheap request, never a list. Does not raise."""
        ...

    def close(self) -> None: ...
