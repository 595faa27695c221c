"""A small pool of connections to one API server: 0.09 ms of CPU per request, where urllib3 takes 0.55.

http.client connects, through a proxy if the configuration names one; `http1` writes requests and reads answers
(ADR 29).

Thread-safe. Create it after the fork: two processes must not share a connection. Never retries. Raises OSError or
HTTPException if a connection fails.
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
"""The value of client-go. The kernel finds a half-open connection before the next request runs into its time-out."""


class Exchange(NamedTuple):
    """A connection with the answer to its request. The body has not been read yet."""

    connection: Connection
    answer: Answer


class Tls:
    """The certificates of a configuration. They are read again only when their files have changed: reading the system's
    authorities takes 17 ms of CPU, and a worker opens tens of connections."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._lock = threading.Lock()
        self._read: list[tuple[str, int, int, int]] = []
        self._context: ssl.SSLContext | None = None

    def wrap(self, connected: socket.socket, server_name: str) -> ssl.SSLSocket:
        """Raises OSError if a file cannot be read, or if the server cannot prove its identity."""
        # Under the lock, so that of many threads that connect at the same time only one reads the files.
        with self._lock:
            files = [_file_version(file) for file in self._certificate_files()]
            if self._context is None or files != self._read:
                self._context, self._read = self._make_context(), files
            context = self._context
        # Outside: the handshake waits for the server.
        return context.wrap_socket(connected, server_hostname=server_name)

    def _certificate_files(self) -> list[str]:
        given = self._configuration
        authority = given.ssl_ca_cert or ssl.get_default_verify_paths().cafile
        return [file for file in (authority, given.cert_file, given.key_file) if file]

    def _make_context(self) -> ssl.SSLContext:
        given = self._configuration
        context = ssl.create_default_context(cafile=given.ssl_ca_cert)
        if not given.verify_ssl:
            # In this order: Python refuses CERT_NONE while the host name is checked.
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if given.cert_file:
            context.load_cert_chain(given.cert_file, given.key_file)
        return context


def _file_version(file: str) -> tuple[str, int, int, int]:
    """A value that changes with the file's content."""
    now = Path(file).stat()
    # The inode, since Kubernetes replaces a mounted file; size and time, since other tools write into it.
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
        # macOS has TCP_KEEPALIVE, Linux the others.
        for option in ("TCP_KEEPIDLE", "TCP_KEEPALIVE", "TCP_KEEPINTVL"):
            if hasattr(socket, option):
                self.sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), _KEEP_ALIVE_SECONDS)
        if self._server_name:
            self.sock = self._tls.wrap(self.sock, self._server_name)

    def is_reusable(self) -> bool:
        """True if the server has neither closed the connection nor sent anything since the last answer."""
        # A closed connection is readable, too: its end of file waits to be read. A request on it would fail, and
        # nothing here retries. Not `select`, which fails for a file number above 1,023.
        poll = select.poll()
        poll.register(self.sock, select.POLLIN)
        return not poll.poll(0)


class ConnectionPool:
    """Raises Terminal if the address of the server or the proxy cannot be used."""

    def __init__(self, configuration: Configuration, size: int) -> None:
        self._configuration = configuration
        self._tls = Tls(configuration)
        self._size = size
        self._idle: deque[Connection] = deque()
        self._closed = False
        host = str(configuration.host).rstrip("/")
        self._server = _parse_address("server", host if "://" in host else f"http://{host}", _PORTS)
        self._proxy = None
        if configuration.proxy and not should_bypass_proxies(host, configuration.no_proxy or ""):
            self._proxy = _parse_address("proxy", configuration.proxy, ["http"])
        self._host = self._server.netloc.rpartition("@")[2]
        # A proxy needs the whole URL. Inside a tunnel the server itself reads the request, and needs the path.
        whole_url = self._proxy is not None and self._server.scheme == "http"
        self._prefix = self._server.geturl() if whole_url else self._server.path

    def send(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str], timeout_seconds: float | None
    ) -> Exchange:
        """`timeout_seconds`: for each wait for the server. The caller gives the connection back or closes it."""
        connection = self._take_connection(min(CONNECT_TIMEOUT_SECONDS, timeout_seconds or CONNECT_TIMEOUT_SECONDS))
        try:
            connection.sock.settimeout(timeout_seconds)
            request = http1.build_request(method, self._prefix + path, {"host": self._host} | headers, body)
            connection.sock.sendall(request)
            return Exchange(connection, Answer(connection.sock))
        except BaseException:
            # Also for the soft time limit, which may interrupt the wait: an answer that comes later belongs to this
            # request, and the next one on the connection would take it for its own.
            connection.close()
            raise

    def give_back(self, exchange: Exchange) -> None:
        """Keep the connection for another request. Call it when the whole answer has been read."""
        if self._closed or not exchange.answer.reusable or len(self._idle) >= self._size:
            exchange.connection.close()
        else:
            self._idle.append(exchange.connection)

    def close(self) -> None:
        """Close the idle connections. Those in use are closed when they are given back."""
        self._closed = True
        while idle := self._pop_idle():
            idle.close()

    def _take_connection(self, connect_seconds: float) -> Connection:
        while idle := self._pop_idle():
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

    def _pop_idle(self) -> Connection | None:
        # The one that was used last, which the server is the least likely to have closed. No look at the length first:
        # another thread may take the last connection in between.
        try:
            return self._idle.pop()
        except IndexError:
            return None


def _parse_address(what: str, url: str, schemes: Iterable[str]) -> SplitResult:
    address = urlsplit(url)
    try:
        usable = address.scheme in schemes and address.hostname and address.port != 0
    except ValueError:
        # The port is not a number.
        usable = False
    if not usable:
        # The part before the @ may be a password.
        shown = url.rpartition("@")[2]
        wanted = " or ".join(f"{scheme}://host:port" for scheme in schemes)
        raise Terminal(f"the {what} {shown!r} of the Kubernetes configuration cannot be used: it must be {wanted}")
    return address
