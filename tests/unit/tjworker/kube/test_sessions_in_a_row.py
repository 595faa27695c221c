"""Sessions of a watch that fail in a row: when the reflector lists again, and when it must not.

A list is the one expensive request. A server that is away, or silent, has lost nothing: the watch goes on where it
stopped, however long that takes. One that answers, and again and again brings nothing but an error from there, is
listed anew after three.
"""

from __future__ import annotations

from itertools import product

import pytest

from tests.support.reflector_bench import Bench
from tests.support.scripted_api import Script, Server, half_open, line
from tests.unit.tjworker.kube.test_reflector import error_event, garbage
from tjworker.base import Transient


def away(server: Server, start: int):  # type: ignore[no-untyped-def]
    server.clock.advance(2)
    yield from ()
    raise Transient("connection refused")


def news(server: Server, start: int):  # type: ignore[no-untyped-def]
    """One event, and the end in order."""
    server.clock.advance(2)
    server.world.put("news")
    yield line("MODIFIED", server.world.pods["news"])


KINDS: dict[str, tuple[Script, bool]] = {
    # what happens: (the session, did the server answer with something wrong)
    "a": (away, False),
    "h": (half_open, False),
    "e": (error_event(500, "InternalError"), True),
    "g": (garbage, True),
}


def lists_again(sessions: str) -> list[bool]:
    """After which of them a list is due."""
    due, failed = [], 0
    for kind in sessions:
        failed = 0 if kind == "n" else failed + 1
        due.append(failed >= 3 and KINDS[kind][1])
        if due[-1]:
            failed = 0
    return due


def played(sessions: str) -> list[bool]:
    bench = Bench()
    bench.steps(1)
    bench.server.watches = [news if kind == "n" else KINDS[kind][0] for kind in sessions]
    found = []
    for _ in sessions:
        bench.clock.advance(100)
        bench.steps(1)
        found.append(bench.reflector.needs_list)
    assert not bench.server.watches
    return found


@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_every_row_of_failures(length: int) -> None:
    for kinds in product("ahe", repeat=length):
        sessions = "".join(kinds)
        assert played(sessions) == lists_again(sessions), sessions


@pytest.mark.parametrize("sessions", ["een", "eene", "eenee", "eeneee", "aanee", "nnnnn", "en" * 4])
def test_news_between_failures_begins_the_row_anew(sessions: str) -> None:
    assert played(sessions) == lists_again(sessions)


@pytest.mark.parametrize("sessions", ["a" * 12, "h" * 6, "ah" * 4])
def test_a_server_that_is_away_is_not_listed_however_long_it_takes(sessions: str) -> None:
    assert played(sessions) == [False] * len(sessions)
