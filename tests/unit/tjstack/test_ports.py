"""Ports: a chosen one is kept or refused, a usual one may give way, no two services and no two stacks get the same."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator

import pytest

from tjstack.ports import Claims
from tjworker.cli.errors import UserError


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield int(server.getsockname()[1])


@pytest.fixture
def claims() -> Iterator[Claims]:
    with Claims() as one:
        yield one


@pytest.fixture
def free() -> int:
    with Claims() as other:
        return other.choose("a test", "", None, 0)[0]


def test_a_chosen_port_that_is_taken_is_refused_with_the_option_to_change(claims: Claims, taken: int) -> None:
    with pytest.raises(UserError, match=f"port {taken} for Flower is taken; choose another with --flower-port PORT"):
        claims.choose("Flower", "--flower-port", taken, 5555)


def test_a_usual_port_that_is_taken_gives_way_and_says_so(claims: Claims, taken: int) -> None:
    port, note = claims.choose("Flower", "--flower-port", None, taken)
    assert port != taken
    assert note == f"port {taken} is taken: Flower listens on {port} (choose one with --flower-port PORT)"


def test_two_services_never_get_the_same_port(claims: Claims, free: int) -> None:
    assert claims.choose("Redis", "--redis-port", free, 0) == (free, "")
    assert claims.choose("Flower", "--flower-port", None, free)[0] != free
    with pytest.raises(UserError, match="is taken"):
        claims.choose("Flower", "--flower-port", free, 0)


@pytest.mark.skipif(sys.platform != "linux", reason="claims are seen by others on Linux only")
def test_two_stacks_that_start_together_never_get_the_same_port_though_none_listens_yet(
    claims: Claims, free: int
) -> None:
    assert claims.choose("Flower", "--flower-port", None, free) == (free, "")
    with Claims() as other:
        assert other.choose("Flower", "--flower-port", None, free)[0] != free
    claims.__exit__(None, None, None)
    with Claims() as later:
        assert later.choose("Flower", "--flower-port", None, free) == (free, ""), "a stack that has ended holds none"
