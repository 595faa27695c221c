"""The real Transport: the kubernetes package's credentials over a connection pool of our own; raw bytes in and out.

Made after a fork, one a process; thread-safe. Never retries (its callers do, each in its own way), never maps a status
to an error, never logs a header. The kubernetes package renews credentials (exec plug-ins, projected tokens). After a
401 the configuration is read once more, and the request sent again: a token that was rotated in a kubeconfig is noticed
no other way.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from http.client import HTTPException
from time import monotonic
from typing import Any
from urllib.parse import urlencode

from kubernetes.client import Configuration
from kubernetes.config import ConfigException

from tjworker.base import Terminal, Transient
from tjworker.kube.configuration import load_configuration
from tjworker.kube.connections import ConnectionPool, Exchange
from tjworker.kube.port import HttpResponse

USER_AGENT = "trainingjob-operator/0.1"
JSON = "application/json"
METADATA = f"{JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=v1,{JSON}"
"""Else the whole object, which nobody who has just written it needs."""
DISCOVERY_PATH = "/apis"
DISCOVERY = f"{JSON};g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,{JSON}"
"""Every group with its resources in one answer; an API server older than 1.30 answers with the list of groups."""
_RELOAD_SECONDS = 10.0
_CREDENTIALS_SECONDS = 1.0
"""For how long credentials are used before the kubernetes package is asked again whether they are still good: asking
costs as much as sending."""


class KubeTransport:
    """A Transport over HTTP(S). Raises Terminal for a configuration that cannot be used."""

    def __init__(
        self,
        configuration: Configuration | None = None,
        *,
        pool_size: int = 10,
        user_agent: str = USER_AGENT,
        metadata_only: bool = False,
        answered: Callable[[str, int, float], None] = lambda verb, status, seconds: None,
        dated: Callable[[str], None] = lambda date: None,
    ) -> None:
        """`answered` is told of each request: its verb (WATCH for a watch), the answer's status (0 when none came), and
        how long that took. It must neither wait nor raise. `user_agent`: the API server names the manager of fields
        after it. `metadata_only`: a write is answered with the metadata of the object, where the server can do that.
        `dated` gets the header `Date` of each answer, '' where it has none."""
        self._answered = answered
        self._dated = dated
        self._written_accept = METADATA if metadata_only else JSON
        self._user_agent = user_agent
        self._given = configuration is not None
        self._pool_size = pool_size
        self._lock = threading.Lock()
        self._loaded_at = monotonic()
        self._loads = 0
        """How often the configuration has been read anew."""
        self._use(configuration or load_configuration())

    def _use(self, configuration: Configuration) -> None:
        self._pool = ConnectionPool(configuration, self._pool_size)
        self._configuration = configuration
        self._credentials: dict[str, str] = {}
        self._credentials_until = 0.0

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
        answer = self._send(method, _target(path, query), body, content_type, timeout_seconds)
        return HttpResponse(answer.status, answer.body(), answer.headers)

    def stream(self, path: str, *, query: Mapping[str, str], read_timeout_seconds: float) -> HttpStream:
        return self._send("GET", _target(path, query), None, "", read_timeout_seconds, verb="WATCH")

    def close(self) -> None:
        self._pool.close()

    def _send(
        self,
        method: str,
        target: str,
        body: bytes | None,
        content_type: str,
        timeout_seconds: float | None,
        *,
        verb: str = "",
    ) -> HttpStream:
        def send() -> HttpStream:
            status, began = 0, monotonic()
            try:
                with _transient():
                    pool, headers = self._pool, self._headers(content_type if body is not None else "")
                    read = DISCOVERY if target == DISCOVERY_PATH else JSON
                    headers["accept"] = read if method == "GET" else self._written_accept
                    answer = HttpStream(pool, pool.send(method, target, body, headers, timeout_seconds))
                status = answer.status
                self._dated(answer.headers.get("date", ""))
            finally:
                self._answered(verb or method, status, monotonic() - began)
            return answer

        loads = self._loads
        answer = send()
        if answer.status == 401 and self._reload(loads):
            answer.close()
            answer = send()
        return answer

    def _headers(self, content_type: str) -> dict[str, str]:
        if monotonic() >= self._credentials_until:
            self._renew_credentials()
        # Who does not say so takes any coding: a proxy may ask for gzip, and hand on what it gets.
        headers = {"user-agent": self._user_agent, "accept-encoding": "identity", **self._credentials}
        return {**headers, "content-type": content_type} if content_type else headers

    def _renew_credentials(self) -> None:
        headers: dict[str, str] = {}
        # Locked: the package's refresh hook changes the configuration, and `_reload` may replace it.
        with self._lock:
            settings: Mapping[str, Any] = self._configuration.auth_settings()
            for auth in settings.values():
                if auth.get("in") == "header" and auth.get("value"):
                    headers[str(auth["key"])] = str(auth["value"])
            self._credentials = headers
            self._credentials_until = monotonic() + _CREDENTIALS_SECONDS

    def _reload(self, loads: int) -> bool:
        """Read the configuration anew, unless another thread has since `loads` was read. False when the configuration
        was given, or when reading it a moment ago did not help."""
        with self._lock:
            if self._loads != loads:
                return True
            if self._given or monotonic() - self._loaded_at < _RELOAD_SECONDS:
                return False
            self._loaded_at = monotonic()
            old = self._pool
            try:
                self._use(load_configuration())
            except Terminal:
                return False
            old.close()
            self._loads += 1
            return True


class HttpStream:
    """One answer as it arrives; a Stream when it is a watch's."""

    def __init__(self, pool: ConnectionPool, exchange: Exchange) -> None:
        self._pool = pool
        self._exchange = exchange
        self._socket = exchange.connection.sock
        self.status = exchange.answer.status
        self.headers: Mapping[str, str] = exchange.answer.headers
        self._pieces = exchange.answer.pieces()
        self._closed = False
        self._reading = False

    def body(self) -> bytes:
        """The whole body. Raises Transient when it breaks off."""
        try:
            with _transient():
                body = b"".join(self._pieces)
        except Transient:
            self.close()
            raise
        self._closed = True
        self._pool.give_back(self._exchange)
        return body

    def lines(self) -> Iterator[list[bytes]]:
        splitter = LineSplitter()
        self._reading = True
        try:
            while chunk := self._read():
                if lines := splitter.feed(chunk):
                    yield lines
        finally:
            self._release()

    def close(self) -> None:
        """Ends a read in another thread."""
        if self._closed:
            return
        self._closed = True
        if self._reading:
            # The blocked reader wakes up and closes the connection. Not `SSLSocket.shutdown`, which takes the TLS
            # session away from under the reader.
            with contextlib.suppress(OSError):
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
        else:
            self._release()

    def _read(self) -> bytes:
        try:
            with _transient("watch broke off: "):
                return b"" if self._closed else next(self._pieces, b"")
        except Transient:
            if self._closed:
                return b""
            raise

    def _release(self) -> None:
        self._exchange.connection.close()


class LineSplitter:
    """Bytes as they arrive, into whole lines. A chunk may end anywhere, even inside a UTF-8 character; a line that has
    no newline when the stream ends was cut off, and is dropped."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that this chunk completes, without newline and without empty ones."""
        if b"\n" not in chunk:
            # Joined once the line is whole: joining at each chunk would copy a line of 1 MiB in 8 KiB chunks 128 times.
            if chunk:
                self._rest.append(chunk)
            return []
        lines = b"".join((*self._rest, chunk)).split(b"\n")
        rest = lines.pop()
        self._rest = [rest] if rest else []
        return [line for line in lines if line.strip()]


def _target(path: str, query: Mapping[str, str] | None) -> str:
    return f"{path}?{urlencode(query)}" if query else path


@contextlib.contextmanager
def _transient(prefix: str = "") -> Iterator[None]:
    try:
        yield
    except (HTTPException, OSError, ConfigException) as error:  # the last: credentials that cannot be renewed now
        raise Transient(f"{prefix}{type(error).__name__}: {error}") from error
