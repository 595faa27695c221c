"""The interface between `client.py` and the network: a `Transport`. `transport.py` has the real one. Tests give the
same client a transport to an API server in their own process.
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
    """Thread-safe. Raises Transient if no answer came (refused, reset, timed out). Never maps status codes."""

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
        """Open a watch. Raises Transient if it cannot be opened. `Stream.status` may be other than 200."""
        ...

    def close(self) -> None: ...


class Stream(Protocol):
    """One open watch. Not thread-safe, but `close` may be called from another thread to end it."""

    status: int
    headers: Mapping[str, str]
    """Lower-case names."""

    def lines(self) -> Iterator[list[bytes]]:
        """Batches of whole lines: at least one, and all that have arrived. Ends when the server ends the watch. Raises
        Transient on a time-out or a broken connection."""
        ...

    def body(self) -> bytes:
        """The whole body. Call it only if the status is not 200."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class ListPage:
    items: Sequence[JsonDict]
    resource_version: int
    """The version of the whole list: each page has the same."""
    next_token: str = ""
