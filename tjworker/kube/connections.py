"""Connections to one API server, kept for the next request: a small pool.

http.client connects, through a proxy where need be; requests and answers are `http1`'s. Half of what a worker does is
requests, and urllib3 takes three times the CPU for one.

Thread-safe; made after a fork. Never retries. Raises OSError or HTTPException when a connection fails.
"""

from __future__ import annotations

import select
import socket
import ssl
import threading
from collections import deque
from collections.abc import Iterable
from http.client import HTTPConnection
from pathlib import Path
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from kubernetes.client import Configuration
from kubernetes.client.rest import should_bypass_proxies

from tjworker.base import Terminal
from tjworker.kube import http1
from tjworker.kube.http1 import Answer

CONNECT_TIMEOUT_SECONDS = 5.0
_PORTS = {"https": 443, "http": 80}
_KEEP_ALIVE_SECONDS = 30
"""As client-go has it: the kernel notices a half-open connection, and not the next request's time-out."""


class Exchange(NamedTuple):
    """A request that has been sent, and its answer, of which the body is still to be read."""

    connection: Connection
    answer: Answer


class Tls:
    """The certificates of a configuration, read anew only when their files have changed: the system's own take 17 ms of
    CPU, and a worker opens tens of connections."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._lock = threading.Lock()
        self._read: list[tuple[str, int, int, int]] = []
        self._context: ssl.SSLContext | None = None

    def wrap(self, connected: socket.socket, server_name: str) -> ssl.SSLSocket:
        """Raises OSError for files that cannot be read, and for a server that cannot prove who it is."""
        with self._lock:  # else all that connect at the same time would read them
            files = [_version(file) for file in self._files()]
            if self._context is None or files != self._read:
                self._context, self._read = self._made(), files
            context = self._context
        return context.wrap_socket(connected, server_hostname=server_name)

    def _files(self) -> list[str]:
        given = self._configuration
        authority = given.ssl_ca_cert or ssl.get_default_verify_paths().cafile
        return [file for file in (authority, given.cert_file, given.key_file) if file]

    def _made(self) -> ssl.SSLContext:
        given = self._configuration
        context = ssl.create_default_context(cafile=given.ssl_ca_cert)
        if not given.verify_ssl:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if given.cert_file:
            context.load_cert_chain(given.cert_file, given.key_file)
        return context


def _version(file: str) -> tuple[str, int, int, int]:
    """Kubernetes replaces mounted files, others write into them."""
    now = Path(file).stat()
    return file, now.st_ino, now.st_size, now.st_mtime_ns


class Connection(HTTPConnection):
    def __init__(
        self,
        server: SplitResult,
        proxy: SplitResult | None,
        configuration: Configuration,
        tls: Tls,
        timeout_seconds: float,
    ) -> None:
        address = proxy or server
        super().__init__(str(address.hostname), address.port or _PORTS[address.scheme], timeout=timeout_seconds)
        self._tls = tls
        self._server_name = ""
        if server.scheme == "https":
            self._server_name = configuration.tls_server_name or str(server.hostname)
            if proxy:
                self.set_tunnel(str(server.hostname), server.port or _PORTS["https"], configuration.proxy_headers)

    def connect(self) -> None:
        super().connect()
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option in ("TCP_KEEPIDLE", "TCP_KEEPALIVE", "TCP_KEEPINTVL"):  # macOS has the second, Linux the others
            if hasattr(socket, option):
                self.sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), _KEEP_ALIVE_SECONDS)
        if self._server_name:
            self.sock = self._tls.wrap(self.sock, self._server_name)

    def is_reusable(self) -> bool:
        """The server has neither closed it nor sent anything that no request asked for."""
        poll = select.poll()
        poll.register(self.sock, select.POLLIN)
        return not poll.poll(0)


class ConnectionPool:
    """Raises Terminal for the address of a server or proxy that it cannot use."""

    def __init__(self, configuration: Configuration, size: int) -> None:
        self._configuration = configuration
        self._tls = Tls(configuration)
        self._size = size
        self._idle: deque[Connection] = deque()
        self._closed = False
        host = str(configuration.host).rstrip("/")
        self._server = _address("server", host if "://" in host else f"http://{host}", _PORTS)
        self._proxy = None
        if configuration.proxy and not should_bypass_proxies(host, configuration.no_proxy or ""):
            self._proxy = _address("proxy", configuration.proxy, ["http"])
        self._host = self._server.netloc.rpartition("@")[2]
        # A proxy wants the whole URL; inside a tunnel the server only the path.
        whole_url = self._proxy is not None and self._server.scheme == "http"
        self._prefix = self._server.geturl() if whole_url else self._server.path

    def send(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str], timeout_seconds: float | None
    ) -> Exchange:
        """`timeout_seconds`: for each wait for the server. The caller gives the connection back or closes it."""
        connection = self._take(min(CONNECT_TIMEOUT_SECONDS, timeout_seconds or CONNECT_TIMEOUT_SECONDS))
        try:
            connection.sock.settimeout(timeout_seconds)
            connection.sock.sendall(http1.request(method, self._prefix + path, {"host": self._host} | headers, body))
            return Exchange(connection, Answer(connection.sock))
        except BaseException:
            connection.close()
            raise

    def give_back(self, exchange: Exchange) -> None:
        """After the whole answer has been read."""
        if self._closed or not exchange.answer.reusable or len(self._idle) >= self._size:
            exchange.connection.close()
        else:
            self._idle.append(exchange.connection)

    def close(self) -> None:
        """Connections in use are closed when they are given back."""
        self._closed = True
        while idle := self._pop():
            idle.close()

    def _take(self, connect_seconds: float) -> Connection:
        while idle := self._pop():
            if idle.is_reusable():
                return idle
            idle.close()
        fresh = Connection(self._server, self._proxy, self._configuration, self._tls, connect_seconds)
        try:
            fresh.connect()
        except BaseException:
            fresh.close()
            raise
        return fresh

    def _pop(self) -> Connection | None:
        """The one that was used last: its server is the least likely to have closed it."""
        try:
            return self._idle.pop()
        except IndexError:
            return None


def _address(what: str, url: str, schemes: Iterable[str]) -> SplitResult:
    address = urlsplit(url)
    try:
        usable = address.scheme in schemes and address.hostname and address.port != 0
    except ValueError:  # the port is no number
        usable = False
    if not usable:
        shown = url.rpartition("@")[2]  # without a password
        wanted = " or ".join(f"{scheme}://host:port" for scheme in schemes)
        raise Terminal(f"the {what} {shown!r} of the Kubernetes configuration cannot be used: it must be {wanted}")
    return address
