"""Connections to one API server, kept for the next request: a small pool over http.client.

http.client and not urllib3: half of what a worker does is requests, and one costs 0.13 ms of CPU instead of 0.29 ms.

Thread-safe; made after a fork. Never retries. Raises OSError or HTTPException when a connection fails.
"""

from __future__ import annotations

import select
import socket
import ssl
from collections import deque
from collections.abc import Iterable, Mapping
from http.client import HTTPConnection, HTTPResponse
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from kubernetes.client import Configuration
from kubernetes.client.rest import should_bypass_proxies

from tjworker.base import Terminal

CONNECT_TIMEOUT_SECONDS = 5.0
_PORTS = {"https": 443, "http": 80}
_KEEP_ALIVE_SECONDS = 30
"""As client-go has it: the kernel notices a half-open connection, and not the next request's time-out."""


class Exchange(NamedTuple):
    """A request that has been sent, and its answer, of which the body is still to be read."""

    connection: Connection
    socket: socket.socket
    """http.client forgets the socket of an answer that ends with its connection."""
    response: HTTPResponse


class Connection(HTTPConnection):
    def __init__(
        self, server: SplitResult, proxy: SplitResult | None, configuration: Configuration, timeout_seconds: float
    ) -> None:
        address = proxy or server
        super().__init__(str(address.hostname), address.port or _PORTS[address.scheme], timeout=timeout_seconds)
        self._configuration = configuration
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
            self.sock = _tls(self._configuration).wrap_socket(self.sock, server_hostname=self._server_name)

    def is_reusable(self) -> bool:
        """The server has neither closed it nor sent anything that no request asked for."""
        poll = select.poll()
        poll.register(self.sock, select.POLLIN)
        return not poll.poll(0)


class ConnectionPool:
    """Raises Terminal for the address of a server or proxy that it cannot use."""

    def __init__(self, configuration: Configuration, size: int) -> None:
        self._configuration = configuration
        self._size = size
        self._idle: deque[Connection] = deque()
        self._closed = False
        host = str(configuration.host).rstrip("/")
        self._server = _address("server", host if "://" in host else f"http://{host}", _PORTS)
        self._proxy = None
        if configuration.proxy and not should_bypass_proxies(host, configuration.no_proxy or ""):
            self._proxy = _address("proxy", configuration.proxy, ["http"])
        # A proxy wants the whole URL; inside a tunnel the server only the path.
        whole_url = self._proxy is not None and self._server.scheme == "http"
        self._prefix = self._server.geturl() if whole_url else self._server.path

    def send(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str], timeout_seconds: float | None
    ) -> Exchange:
        """`timeout_seconds`: for each wait for the server. The caller gives the connection back or closes it."""
        connection = self._take(min(CONNECT_TIMEOUT_SECONDS, timeout_seconds or CONNECT_TIMEOUT_SECONDS))
        try:
            connection.sock.settimeout(timeout_seconds)
            connection.request(method, self._prefix + path, body, headers)
            return Exchange(connection, connection.sock, connection.getresponse())
        except BaseException:
            connection.close()
            raise

    def give_back(self, connection: Connection) -> None:
        """After the whole answer has been read."""
        if self._closed or connection.sock is None or len(self._idle) >= self._size:
            connection.close()
        else:
            self._idle.append(connection)

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
        fresh = Connection(self._server, self._proxy, self._configuration, connect_seconds)
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


def _tls(configuration: Configuration) -> ssl.SSLContext:
    """Made for each connection: the certificates may have been rotated in their files."""
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, configuration.key_file)
    return context


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
