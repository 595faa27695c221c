"""The pool of connections, without a network: which one a request takes, how long it waits, and which are kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from kubernetes.client import Configuration

from tjworker.kube import connections
from tjworker.kube.connections import CONNECT_TIMEOUT_SECONDS, ConnectionPool, Exchange

STAYS = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


@dataclass
class Socket:
    """On which a server answers each request."""

    made: Made
    timeout: float | None = -1
    answers: list[bytes] = field(default_factory=list)

    def settimeout(self, seconds: float | None) -> None:
        self.timeout = seconds

    def sendall(self, request: bytes) -> None:
        self.made.asked.append((request.split()[1].decode(), self.timeout))
        self.answers.append(self.made.answer)

    def recv(self, _most: int) -> bytes:
        if self.made.breaks:
            raise OSError("reset")
        return self.answers.pop(0)


@dataclass
class Made:
    """In the place of a connection."""

    connect_seconds: float
    refuses: bool = False
    sock: Socket | None = None
    reusable: bool = True
    closed: int = 0
    asked: list[tuple[str, float | None]] = field(default_factory=list)
    breaks: bool = False
    answer: bytes = STAYS

    def connect(self) -> None:
        if self.refuses:
            raise OSError("refused")
        self.sock = Socket(self)

    def is_reusable(self) -> bool:
        return self.reusable

    def close(self) -> None:
        self.closed += 1
        self.sock = None


class Network:
    def __init__(self) -> None:
        self.made: list[Made] = []
        self.refuses = False
        self.breaks = False
        self.answer = STAYS

    def __call__(self, server: Any, proxy: Any, configuration: Any, tls: Any, timeout_seconds: float) -> Made:
        self.made.append(Made(timeout_seconds, self.refuses, breaks=self.breaks, answer=self.answer))
        return self.made[-1]


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> Network:
    made = Network()
    monkeypatch.setattr(connections, "Connection", made)
    return made


def pool(size: int = 2) -> ConnectionPool:
    configuration = Configuration()
    configuration.host = "http://server:8080/base/"
    return ConnectionPool(configuration, size)


def ask(of: ConnectionPool, path: str = "/x", timeout_seconds: float | None = 15.0, *, read: bool = True) -> Exchange:
    exchange = of.send("GET", path, None, {}, timeout_seconds)
    if read:
        assert list(exchange.answer.pieces()) == [b"{}"]
    return exchange


def made_of(exchange: Exchange) -> Made:
    connection: Any = exchange.connection
    assert isinstance(connection, Made)
    return connection


@pytest.mark.parametrize("first", [15.0, 0.5, 60.0, None])
@pytest.mark.parametrize("second", [15.0, 0.5, 60.0, None])
def test_each_request_waits_for_as_long_as_it_says_whoever_had_the_connection(
    first: float | None, second: float | None, network: Network
) -> None:
    """A watch waits longer than a request, and a lease's renewal shorter."""
    one = pool()
    for number, seconds in enumerate((first, second, first)):
        one.give_back(ask(one, f"/{number}", seconds))
    (made,) = network.made
    assert made.asked == [("/base/0", first), ("/base/1", second), ("/base/2", first)]


@pytest.mark.parametrize(("seconds", "want"), [(15.0, 5.0), (5.0, 5.0), (0.5, 0.5), (None, 5.0)])
def test_to_connect_takes_no_longer_than_the_request_and_never_more_than_five_seconds(
    seconds: float | None, want: float, network: Network
) -> None:
    ask(pool(), timeout_seconds=seconds)
    assert [made.connect_seconds for made in network.made] == [want]
    assert CONNECT_TIMEOUT_SECONDS == 5.0


@pytest.mark.parametrize("size", [0, 1, 2, 3])
@pytest.mark.parametrize("used", [1, 2, 3, 4])
def test_as_many_are_kept_as_the_pool_holds(size: int, used: int, network: Network) -> None:
    one = pool(size)
    taken = [ask(one) for _ in range(used)]
    for exchange in taken:
        one.give_back(exchange)
    assert sum(made.closed for made in network.made) == max(0, used - size)
    again = [ask(one) for _ in range(used)]
    assert len(network.made) == used + max(0, used - size)
    assert len({id(made_of(exchange)) for exchange in again}) == used, "no two requests at once on one connection"


def test_one_that_the_server_has_closed_is_closed_and_the_next_is_taken(network: Network) -> None:
    one = pool(3)
    good, stale = ask(one), ask(one)
    one.give_back(good)
    one.give_back(stale)
    made_of(stale).reusable = False
    assert made_of(ask(one)) is made_of(good)
    assert (made_of(stale).closed, made_of(good).closed) == (1, 0)


def test_one_that_cannot_connect_or_breaks_is_closed_and_told(network: Network) -> None:
    one = pool()
    network.refuses = True
    with pytest.raises(OSError, match="refused"):
        ask(one)
    network.refuses, network.breaks = False, True
    with pytest.raises(OSError, match="reset"):
        ask(one)
    network.breaks = False
    assert [made.closed for made in network.made] == [1, 1]
    assert made_of(ask(one)) is network.made[2]
