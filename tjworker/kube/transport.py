"""The real Transport: sends requests with the kubernetes package's credentials over a `ConnectionPool`.

Thread-safe; one per process, created after the fork. Never maps a status to an error and never logs a header. Never
retries, because each caller does that in its own way, except once after a 401. The kubernetes package renews
credentials (exec plug-ins, projected tokens).
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
"""The answer to a write is then the metadata alone: the writer of an object does not need it back."""
DISCOVERY_PATH = "/apis"
DISCOVERY = f"{JSON};g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,{JSON}"
"""Every group with its resources in one answer; an API server older than 1.30 answers with the list of groups."""
_RELOAD_SECONDS = 10.0
"""The least time between two readings of the configuration: an API server that refuses every token would cause one with
each request."""
_CREDENTIALS_SECONDS = 1.0
"""How long credentials are used before the kubernetes package is asked for new ones. Asking costs as much CPU as
sending a request."""


class KubeTransport:
    """A Transport over HTTP(S). Raises Terminal if the configuration cannot be used."""

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
        """`answered` is called after each request with its verb (WATCH for a watch), the status of the answer (0 if
        none came) and the seconds that it took. It must neither wait nor raise. `user_agent`: the API server names the
        manager of fields after it. `metadata_only`: ask for the metadata alone of an object that was written. `dated`
        is called with the header `Date` of each answer; '' if it has none."""
        self._answered = answered
        self._dated = dated
        self._written_accept = METADATA if metadata_only else JSON
        self._user_agent = user_agent
        self._given = configuration is not None
        self._pool_size = pool_size
        self._lock = threading.Lock()
        self._loaded_at = monotonic()
        self._loads = 0
        """How often the configuration has been read again."""
        self._use_configuration(configuration or load_configuration())

    def _use_configuration(self, configuration: Configuration) -> None:
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
        answer = self._send(method, _build_target(path, query), body, content_type, timeout_seconds)
        return HttpResponse(answer.status, answer.body(), answer.headers)

    def stream(self, path: str, *, query: Mapping[str, str], read_timeout_seconds: float) -> HttpStream:
        return self._send("GET", _build_target(path, query), None, "", read_timeout_seconds, verb="WATCH")

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
                with _as_transient():
                    pool, headers = self._pool, self._build_headers(content_type if body is not None else "")
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
        # Only a 401 shows that a token was rotated in a kubeconfig. A request that was refused this way had no effect,
        # so a second one does no harm.
        if answer.status == 401 and self._reload_configuration(loads):
            answer.close()
            answer = send()
        return answer

    def _build_headers(self, content_type: str) -> dict[str, str]:
        if monotonic() >= self._credentials_until:
            self._renew_credentials()
        # A client that does not name a coding accepts any. A proxy may ask for gzip and pass it on.
        headers = {"user-agent": self._user_agent, "accept-encoding": "identity", **self._credentials}
        return {**headers, "content-type": content_type} if content_type else headers

    def _renew_credentials(self) -> None:
        headers: dict[str, str] = {}
        # Under the lock: the package's refresh hook changes the configuration, and a reload may replace it.
        with self._lock:
            settings: Mapping[str, Any] = self._configuration.auth_settings()
            for auth in settings.values():
                if auth.get("in") == "header" and auth.get("value"):
                    headers[str(auth["key"])] = str(auth["value"])
            self._credentials = headers
            self._credentials_until = monotonic() + _CREDENTIALS_SECONDS

    def _reload_configuration(self, loads: int) -> bool:
        """Read the configuration again. Returns True if there are new credentials. `loads`: `self._loads` before the
        request that was refused."""
        with self._lock:
            # Another thread was refused at the same time, and has read it already.
            if self._loads != loads:
                return True
            # A second reading after so short a time would find the same token, and the refusal has another reason.
            if self._given or monotonic() - self._loaded_at < _RELOAD_SECONDS:
                return False
            self._loaded_at = monotonic()
            old = self._pool
            try:
                self._use_configuration(load_configuration())
            except Terminal:
                # The file may be half written. The old credentials stay, and the caller gets the 401.
                return False
            old.close()
            self._loads += 1
            return True


class HttpStream:
    """One answer as it arrives. A Stream if it is the answer to a watch."""

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
        """The whole body. Raises Transient if it breaks off."""
        try:
            with _as_transient():
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
            while chunk := self._read_piece():
                if lines := splitter.feed(chunk):
                    yield lines
        finally:
            self._release()

    def close(self) -> None:
        """Close the connection. A read in another thread ends."""
        if self._closed:
            return
        self._closed = True
        if self._reading:
            # The blocked reader wakes up and closes the connection. Closing it here would free its file number, and the
            # reader could read from a new connection with that number. Not `SSLSocket.shutdown`, which takes the TLS
            # session away from under the reader.
            with contextlib.suppress(OSError):
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
        else:
            self._release()

    def _read_piece(self) -> bytes:
        try:
            with _as_transient("watch broke off: "):
                return b"" if self._closed else next(self._pieces, b"")
        except Transient:
            # `close` broke the connection on purpose.
            if self._closed:
                return b""
            raise

    def _release(self) -> None:
        # Not given back to the pool: the server may still be sending events.
        self._exchange.connection.close()


class LineSplitter:
    """Splits bytes into whole lines as they arrive. A chunk may end anywhere, even inside a UTF-8 character. A line
    without a newline at the end of the stream was cut off, and is dropped."""

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


def _build_target(path: str, query: Mapping[str, str] | None) -> str:
    return f"{path}?{urlencode(query)}" if query else path


@contextlib.contextmanager
def _as_transient(prefix: str = "") -> Iterator[None]:
    try:
        yield
    # ConfigException: the credentials cannot be renewed now, for instance because an exec plug-in is offline.
    except (HTTPException, OSError, ConfigException) as error:
        raise Transient(f"{prefix}{type(error).__name__}: {error}") from error
