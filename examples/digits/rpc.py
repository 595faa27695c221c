"""Request and answer over one TCP connection: a threaded server, and a client that comes back by itself.

The server binds to the address by which the other replicas know it, so that two pods on one machine may use one port.
The client retries for as long as its patience lasts: names do not resolve yet, a peer is being replaced. A request may
therefore arrive twice; every operation of this example bears that. Knows nothing of training.
"""

from __future__ import annotations

import errno
import itertools
import signal
import socket
import socketserver
import threading
import time
from collections.abc import Callable
from io import BufferedIOBase
from typing import Any, Protocol

from examples.digits.env import Address, Place
from examples.digits.wire import Array, Message, ProtocolError, encode, read_message

CALL_TIMEOUT_SECONDS = 5.0
BACKOFF_SECONDS = (0.05, 0.5)
"""The first pause between two tries, and the longest."""


class Refused(Exception):
    """The peer's answer is no. `retry`: it may be yes later."""

    def __init__(self, message: str, *, retry: bool = False) -> None:
        super().__init__(message)
        self.retry = retry


class Unreachable(Exception):
    """No answer within the patience."""


class Stopped(Exception):
    """This process was asked to end while it waited."""


class CannotListen(Exception):
    """No address of this replica can be bound."""


class Session:
    """One connection, seen from the server. `name` is what the peer calls itself, once it has."""

    _numbers = itertools.count(1)

    def __init__(self, peer: str) -> None:
        self.number = next(self._numbers)
        self.peer = peer
        self.name = ""


class Service(Protocol):
    """What a server serves. Called from one thread for each connection."""

    def handle(self, session: Session, request: Message) -> Message: ...

    def closed(self, session: Session) -> None: ...


class Server:
    """Serves `service` in threads of their own, from construction until `close`."""

    def __init__(self, service: Service, listener: socket.socket) -> None:
        class Connection(socketserver.StreamRequestHandler):
            disable_nagle_algorithm = True

            def handle(self) -> None:
                self.request.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                _serve(service, Session(str(self.client_address[0])), self.rfile, self.wfile.write)

        self._server = socketserver.ThreadingTCPServer(("", 0), Connection, bind_and_activate=False)
        self._server.daemon_threads = True
        # Or closing would wait for peers that keep their connection open.
        self._server.block_on_close = False
        self._server.socket.close()
        self._server.socket = listener
        self.address = Address(*listener.getsockname()[:2])
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True, name="server").start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _serve(service: Service, session: Session, stream: BufferedIOBase, write: Callable[[bytes], object]) -> None:
    try:
        while (request := read_message(stream)) is not None:
            try:
                answer = service.handle(session, request)
            except Refused as no:
                answer = Message("error", {"message": str(no), "retry": no.retry})
            except (KeyError, TypeError, ValueError) as error:
                say(f"refused {request.op} of {session.name or session.peer}: {error!r}")
                answer = Message("error", {"message": f"request is malformed: {error!r}", "retry": False})
            write(encode(answer))
    except ProtocolError as error:
        say(f"closed the connection of {session.name or session.peer}: {error}")
    except OSError:
        pass  # The peer is gone; `closed` below says all that there is to say about it.
    finally:
        service.closed(session)


def listen(place: Place, default_port: int, patience_seconds: float = 10.0) -> socket.socket:
    """A listening socket: on the pod's IP, else on the address of the replica's own service name if that is one of this
    machine's, else on all. Names appear and ports become free a moment after a pod starts, so it tries for a while.
    Raises CannotListen."""
    port = place.port or default_port
    deadline = time.monotonic() + patience_seconds
    # The name second: for a moment it may still lead to the pod that this one replaces, and where pods have loopback
    # addresses that one could be bound too.
    hosts = [host for host in (place.pod_ip, place.service) if host]
    while True:
        reason: OSError = OSError("neither POD_IP nor TRAININGJOB_SERVICE is set")
        taken = False
        for host in hosts:
            try:
                return _bind(host, port)
            except OSError as error:
                reason = error
                taken = error.errno == errno.EADDRINUSE
                if taken:
                    # It is our address. On the next one we would serve where nobody looks, and whoever has this port
                    # would be taken for us.
                    break
        if not taken and (not hosts or time.monotonic() > deadline - patience_seconds / 2):
            # A container has an address of its own that neither variable need tell.
            try:
                return _bind("0.0.0.0", port)
            except OSError as error:
                reason = error
        if time.monotonic() > deadline:
            raise CannotListen(
                f"{place.name} cannot listen on {' or '.join(hosts) or 'any address'}, port {port}: {reason}. "
                "Free the port, or give the role another containerPort."
            )
        time.sleep(0.2)


def _bind(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(64)
    except OSError:
        listener.close()
        raise
    return listener


class Client:
    """Calls one peer, over a connection that is made and made again as needed. For one thread."""

    def __init__(
        self,
        peer: str,
        address: Address,
        *,
        patience_seconds: float,
        stop: threading.Event | None = None,
        while_waiting: Callable[[], None] = lambda: None,
    ) -> None:
        self.peer = peer
        self.address = address
        self._patience_seconds = patience_seconds
        self._stop = stop or threading.Event()
        self._while_waiting = while_waiting
        """Called between two tries."""
        self._connection: tuple[socket.socket, BufferedIOBase] | None = None

    def call(self, op: str, arrays: dict[str, Array] | None = None, **fields: Any) -> Message:
        """The peer's answer. Raises Refused, Unreachable after the patience, Stopped, ProtocolError."""
        frame = encode(Message(op, fields, arrays or {}))
        begin = time.monotonic()
        pause, told = BACKOFF_SECONDS[0], False
        while True:
            try:
                answer = self._exchange(frame)
                if answer.op != "error":
                    return answer
                message, retry = str(answer.fields.get("message")), bool(answer.fields.get("retry"))
                if not retry:
                    raise Refused(f"{self.peer} at {self.address} refused {op}: {message}")
                reason = message
            except (OSError, EOFError) as error:
                self.close()
                reason = str(error) or type(error).__name__
            except ProtocolError:
                self.close()
                raise
            waited = time.monotonic() - begin
            if waited >= self._patience_seconds:
                raise Unreachable(f"{self.peer} at {self.address} does not answer ({op}, {waited:.0f} s): {reason}")
            if waited > 3 and not told:
                told = True
                say(f"waiting for {self.peer} at {self.address}: {reason}")
            if self._stop.wait(pause):
                raise Stopped
            self._while_waiting()
            pause = min(pause * 2, BACKOFF_SECONDS[1])

    def close(self) -> None:
        if self._connection is not None:
            connection, stream = self._connection
            self._connection = None
            stream.close()
            connection.close()

    def _exchange(self, frame: bytes) -> Message:
        if self._connection is None:
            connection = socket.create_connection((self.address.host, self.address.port), CALL_TIMEOUT_SECONDS)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._connection = connection, connection.makefile("rb")
        connection, stream = self._connection
        connection.sendall(frame)
        answer = read_message(stream)
        if answer is None:
            raise EOFError("it closed the connection")
        return answer


def on_asked_to_end(act: Callable[[], None]) -> None:
    """Calls `act` on SIGTERM and on Ctrl-C. For the main thread."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: act())


def say(line: str) -> None:
    """One line for people, at once: a pod's log is read while it runs."""
    print(line, flush=True)
