"""The inbox between the informers and the writer: what a busy moment gathers, and what ends the gathering."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.waiting import PATIENCE_SECONDS, until
from watcher.inbox import Batch, Inbox

FOR_EVER = 3600.0


def taken(inbox: Inbox, *while_it_gathers: Callable[[], None]) -> list[str]:
    """The sources of what a `take` gives that gathers for ever: each call is made once it does."""
    got: list[Batch] = []
    thread = threading.Thread(target=lambda: got.extend(inbox.take(0, gather_seconds=FOR_EVER)))
    thread.start()
    waiters: Any = inbox._gathered
    until("it gathers", lambda: waiters._waiters)
    for call in while_it_gathers:
        call()
    thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive(), "take did not return"
    return [batch.source for batch in got]


def test_what_comes_while_it_gathers_is_taken_together() -> None:
    inbox = Inbox()
    inbox.put(Batch("first"))
    assert taken(inbox, lambda: inbox.put(Batch("second")), lambda: inbox.put(Batch("third")), inbox.wake) == [
        "first",
        "second",
        "third",
    ]


def test_gathering_ends_by_itself() -> None:
    inbox = Inbox()
    inbox.put(Batch("first"))
    assert [batch.source for batch in inbox.take(0, gather_seconds=0.01)] == ["first"]


@pytest.mark.parametrize("how", ["wake", "close"])
def test_gathering_ends_at_once_when_it_is_woken_or_closed(how: str) -> None:
    inbox = Inbox()
    inbox.put(Batch("first"))
    assert taken(inbox, getattr(inbox, how)) == {"wake": ["first"], "close": []}[how]


def test_nothing_is_gathered_while_there_is_nothing() -> None:
    assert Inbox().take(0, gather_seconds=FOR_EVER) == []


def test_without_gathering_the_first_one_leaves_at_once() -> None:
    inbox = Inbox()
    inbox.put(Batch("first"))
    assert [batch.source for batch in inbox.take(0)] == ["first"]
