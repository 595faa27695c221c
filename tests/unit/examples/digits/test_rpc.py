"""Servers bind where others look for them; clients come back, wait, and stop waiting when told."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from benchmarks.support.valkey import free_port
from examples.digits.env import Address, Place
from examples.digits.rpc import CannotListen, Client, Refused, Server, Session, Stopped, Unreachable, listen
from examples.digits.wire import Message
from tests.support.waiting import PATIENCE_SECONDS


class Echo:
    """Answers with what it got; `refuse` makes it say no."""

    def __init__(self, refuse: Callable[[int], Refused | None] = lambda _: None) -> None:
        self.calls = 0
        self.closed_sessions: list[int] = []
        self._refuse = refuse

    def handle(self, session: Session, request: Message) -> Message:
        self.calls += 1
        if no := self._refuse(self.calls):
            raise no
        return Message("ok", request.fields)

    def closed(self, session: Session) -> None:
        self.closed_sessions.append(session.number)


def place(service: str = "", pod_ip: str = "", port: int | None = None) -> Place:
    return Place("digits", "pserver-0", 0, service, pod_ip, port, (), ())


@contextmanager
def serving(service: Echo, port: int = 0) -> Iterator[Server]:
    server = Server(service, socket.create_server(("127.0.0.1", port)))
    try:
        yield server
    finally:
        server.close()


def client(address: Address, patience_seconds: float = PATIENCE_SECONDS, stop: threading.Event | None = None) -> Client:
    return Client("pserver-0", address, patience_seconds=patience_seconds, stop=stop)


def test_a_client_waits_for_a_server_that_is_not_there_yet() -> None:
    port, answers = free_port(), []
    caller = threading.Thread(target=lambda: answers.append(client(Address("127.0.0.1", port)).call("hello", n=1)))
    caller.start()
    with serving(Echo(), port):
        caller.join(PATIENCE_SECONDS)
    assert answers == [Message("ok", {"n": 1})]


def test_a_client_comes_back_to_a_server_that_was_started_again() -> None:
    with serving(Echo(), free_port()) as first:
        mine = client(first.address)
        mine.call("hello")
        mine.close()
    with serving(Echo(), first.address.port):
        assert mine.call("hello", n=2).fields == {"n": 2}
        mine.close()


def test_an_answer_of_not_yet_is_asked_again_and_no_is_told() -> None:
    later = Echo(lambda call: Refused("not yet", retry=True) if call < 3 else Refused("never"))
    with serving(later) as server, pytest.raises(Refused, match=r"pserver-0 at .* refused hello: never"):
        client(server.address).call("hello")
    assert later.calls == 3


def test_patience_ends_with_the_name_the_address_and_the_reason() -> None:
    with pytest.raises(Unreachable, match=r"pserver-0 at 127\.0\.0\.1:\d+ does not answer.*refused"):
        client(Address("127.0.0.1", free_port()), patience_seconds=0.1).call("hello")


def test_a_name_that_does_not_resolve_is_waited_for_and_then_told() -> None:
    with pytest.raises(Unreachable, match=r"no-such-host\.invalid:7000"):
        client(Address("no-such-host.invalid", 7000), patience_seconds=0.1).call("hello")


def test_waiting_ends_at_once_when_the_process_is_asked_to_end() -> None:
    stop = threading.Event()
    threading.Timer(0.1, stop.set).start()
    with pytest.raises(Stopped):
        client(Address("127.0.0.1", free_port()), stop=stop).call("hello")


def test_a_peer_that_speaks_something_else_is_disconnected_and_others_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    echo = Echo()
    with serving(echo) as server:
        with socket.create_connection((server.address.host, server.address.port)) as stranger:
            stranger.settimeout(PATIENCE_SECONDS)
            stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
            # It may see an end or, as bytes of its own were never read, a reset.
            with suppress(ConnectionResetError):
                assert stranger.recv(1) == b""
        with socket.create_connection((server.address.host, server.address.port)) as greedy:
            greedy.settimeout(PATIENCE_SECONDS)
            greedy.sendall(struct.pack("!4sII", b"DGT1", 2, 2**32 - 1))
            assert greedy.recv(1) == b""
        assert client(server.address).call("hello", n=3).fields == {"n": 3}
    said = capsys.readouterr().out
    assert "another program's" in said
    assert "body of 4294967295 bytes, at most 8388608 are allowed" in said


def test_a_request_that_the_service_cannot_read_is_refused_and_the_connection_stays() -> None:
    class Strict(Echo):
        def handle(self, session: Session, request: Message) -> Message:
            return Message("ok", {"n": int(request.fields["n"])})

    with serving(Strict()) as server:
        mine = client(server.address)
        with pytest.raises(Refused, match="malformed: KeyError"):
            mine.call("hello")
        assert mine.call("hello", n="4").fields == {"n": 4}
        mine.close()


LISTEN: dict[str, tuple[Place, str]] = {
    "the pod's IP comes first": (place(service="localhost", pod_ip="127.0.0.9"), "127.0.0.9"),
    "the service's own name when there is no IP": (place(service="localhost"), "127.0.0.1"),
    "the name when the IP is another machine's": (place(service="localhost", pod_ip="192.0.2.1"), "127.0.0.1"),
    "the pod's IP when the name does not resolve": (place(service="none.invalid", pod_ip="127.0.0.1"), "127.0.0.1"),
    "all addresses when nothing is known": (place(), "0.0.0.0"),
    "all addresses when nothing that is known is this machine's": (place(service="192.0.2.1"), "0.0.0.0"),
}


@pytest.mark.parametrize("name", LISTEN)
def test_listen_on(name: str) -> None:
    where, want_host = LISTEN[name]
    with listen(where, free_port(), patience_seconds=0.2) as listener:
        assert listener.getsockname()[0] == want_host


def test_a_port_that_becomes_free_is_taken() -> None:
    port = free_port()
    holder = socket.create_server(("127.0.0.1", port))
    threading.Timer(0.3, holder.close).start()
    with listen(place(service="127.0.0.1", port=port), 1, patience_seconds=PATIENCE_SECONDS) as listener:
        assert listener.getsockname() == ("127.0.0.1", port)


def test_a_port_that_stays_taken_is_told_and_never_taken_on_another_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = int(holder.getsockname()[1])
        with pytest.raises(CannotListen, match=rf"pserver-0 cannot listen on 127\.0\.0\.1, port {port}: .*in use"):
            listen(place(service="127.0.0.1", port=port), 1, patience_seconds=0.3)


def test_an_ip_whose_port_is_taken_is_not_exchanged_for_another_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = int(holder.getsockname()[1])
        with pytest.raises(CannotListen, match="in use"):
            listen(place(service="127.0.0.9", pod_ip="127.0.0.1", port=port), 1, patience_seconds=0.1)
