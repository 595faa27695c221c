"""The inbox between the informers and the writer: what a busy moment gathers, and what ends the gathering."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from watcher.inbox import Batch, Inbox

FOR_EVER = 60.0
DEADLINE_SECONDS = 5.0


def taken(inbox: Inbox, end: Callable[[], None], *, gather_seconds: float) -> list[str]:
    """The sources of what one `take` gives, `end` being called over and over until it does."""
    got: list[Batch] = []
    thread = threading.Thread(target=lambda: got.extend(inbox.take(0, gather_seconds=gather_seconds)))
    thread.start()
    deadline = time.monotonic() + DEADLINE_SECONDS
    while thread.is_alive() and time.monotonic() < deadline:
        end()
        thread.join(0.005)
    assert not thread.is_alive(), "take did not return"
    return [batch.source for batch in got]


def test_what_comes_while_it_gathers_is_taken_together() -> None:
    inbox = Inbox()
    inbox.put(Batch("first"))
    got = taken(inbox, lambda: inbox.put(Batch("later")), gather_seconds=0.05)
    assert got[0] == "first"
    assert set(got[1:]) == {"later"}


@pytest.mark.parametrize("how", ["wake", "close"])
def test_gathering_ends_at_once_when_it_is_woken_or_closed(how: str) -> None:
    inbox = Inbox()
    inbox.put(Batch("first"))
    assert taken(inbox, getattr(inbox, how), gather_seconds=FOR_EVER) in (["first"], [])


def test_nothing_is_gathered_while_there_is_nothing() -> None:
    assert Inbox().take(0, gather_seconds=FOR_EVER) == []


def test_without_gathering_the_first_one_leaves_at_once() -> None:
    inbox = Inbox()
    inbox.put(Batch("first"))
    assert [batch.source for batch in inbox.take(0)] == ["first"]
