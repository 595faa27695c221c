"""Watches of the client over HTTP: what their reader reports, and a close at the same time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from localcluster.http_client import _HttpEvents
from localcluster_tests.support.waiting import PATIENCE_SECONDS


class Answer:
    """Gives one event, then its end."""

    def stream(self, *_: object, **__: object) -> Iterator[bytes]:
        yield b'{"type":"ADDED"}\n'

    def close(self) -> None: ...
    def shutdown(self) -> None: ...


class ClosedMeanwhile(_HttpEvents):
    """`close` takes `wake` away between any two looks at it."""

    woken: int

    @property
    def wake(self) -> Callable[[], None] | None:
        self._looks = getattr(self, "_looks", 0) + 1
        return self._count if self._looks == 1 else None

    @wake.setter
    def wake(self, _: object) -> None:
        self.woken = 0

    def _count(self) -> None:
        self.woken += 1


def test_a_watch_that_is_closed_while_its_reader_tells_of_news_breaks_nothing() -> None:
    answer: Any = Answer()
    events = ClosedMeanwhile(answer)
    events._thread.join(PATIENCE_SECONDS)
    assert (events.woken, events.closed, events.poll()) == (1, True, [{"type": "ADDED"}])
