"""The seam of the local cluster: one request in, one answer or one watch out, without sockets.

`apiserver.ApiServer.handle(Request) -> Response | Watch` is the whole API server. `http.py` puts it behind aiohttp;
tests and controllers may call it in process. Synchronous, single-threaded, deterministic: time and randomness are
injected.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from localcluster import jsontext

Json = dict[str, Any]


class Encoded:
    """A value and its JSON, which is encoded at first use and kept. The value is shared: copy it before you change
    it."""

    __slots__ = ("_data", "obj")

    def __init__(self, obj: Any) -> None:
        self.obj = obj
        self._data: bytes | None = None

    @property
    def data(self) -> bytes:
        if self._data is None:
            self._data = self._encode()
        return self._data

    def _encode(self) -> bytes:
        return jsontext.dumps(self.obj)


_NONE: Mapping[str, str] = MappingProxyType({})


class Request(NamedTuple):
    method: str
    path: str
    """Without the query, for example /api/v1/namespaces/default/pods."""
    query: Mapping[str, str] = _NONE
    body: bytes = b""
    headers: Mapping[str, str] = _NONE
    """Lower-case names."""
    user: str = "kubernetes-admin"


class Stream(NamedTuple):
    """A request for a stream with a pod (exec, portforward) that may be opened."""

    subresource: str
    namespace: str
    pod: str
    uid: str
    container: str
    query: Mapping[str, Sequence[str]]


class Response(NamedTuple):
    status: int
    content: bytes | Encoded
    content_type: str = "application/json"
    headers: Mapping[str, str] = _NONE

    @property
    def body(self) -> bytes:
        return self.content if isinstance(self.content, bytes) else self.content.data + b"\n"


class Watch:
    """An open watch. The API server pushes whole lines (JSON events, each with its newline); the reader takes them with
    `poll`, or is called back. `closed` once the server has ended it (timeoutSeconds, compaction, shutdown)."""

    def __init__(self, content_type: str = "application/json") -> None:
        self.content_type = content_type
        self.closed = False
        self.wake: Callable[[], None] | None = None
        """Called (from the API server's thread) whenever there is something new or the watch closes."""
        self.on_close: Callable[[], None] | None = None
        self._lines: deque[bytes | Encoded] = deque()

    def push(self, line: bytes | Encoded) -> None:
        if not self.closed:
            self._lines.append(line)
            if self.wake:
                self.wake()

    def poll(self) -> list[bytes]:
        """The lines that have come since the last call, oldest first."""
        return [line if isinstance(line, bytes) else line.data for line in self.take()]

    def take(self) -> list[bytes | Encoded]:
        """The same as they were pushed: an event is Encoded, shared by all watches. What was raw is bytes."""
        lines = list(self._lines)
        self._lines.clear()
        return lines

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            if self.on_close:
                self.on_close()
            if self.wake:
                self.wake()
