"""What `client.py` sends its requests over: a `Transport`. `transport.py` is the real one; tests put a transport to an
in-process API server under the same client.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tjworker.base import JsonDict


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
        """Open a watch. Raises Transient when it cannot be opened; a status other than 200 is given in
        `Stream.status`."""
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
    items: Sequence[JsonDict]
    resource_version: int
    """Of the list, the same on each page."""
    next_token: str = ""
