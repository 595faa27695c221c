"""A value of a store that may be silent: one reading for all who ask, and an answer for each of them in time."""

from __future__ import annotations

import asyncio
import gc
import threading

import pytest

from tests.support.waiting import PATIENCE_SECONDS
from tjworker.base import Transient
from tjworker.page.shared import Shared


class Store:
    """Silent until `speaks` is set. Answers with the number of the reading, or with `failure`."""

    def __init__(self) -> None:
        self.speaks = threading.Event()
        self.reads = 0
        self.failure: Transient | None = None

    def read(self) -> int:
        self.reads += 1
        assert self.speaks.wait(PATIENCE_SECONDS)
        if self.failure is not None:
            raise self.failure
        return self.reads


def test_while_a_store_is_silent_each_caller_gets_an_error_and_afterwards_the_value() -> None:
    store = Store()
    shared = Shared(store.read, "Redis", first_seconds=0.01)
    for _ in range(3):
        with pytest.raises(Transient, match=r"Redis has not answered within 0\.01 s; trying again"):
            shared.wait()
    under_way = shared.begin()
    store.speaks.set()
    assert (under_way.result(PATIENCE_SECONDS), store.reads) == (1, 1)
    patient = Shared(store.read, "Redis", wait_seconds=0.01, first_seconds=PATIENCE_SECONDS)
    assert patient.wait() == 2
    store.speaks.clear()
    with pytest.raises(Transient, match="has not answered"):
        patient.wait()  # there is a value to be shown meanwhile
    store.speaks.set()


def test_all_who_ask_while_a_reading_lasts_share_its_value_or_its_failure() -> None:
    store = Store()
    shared = Shared(store.read, "Redis", wait_seconds=PATIENCE_SECONDS, first_seconds=PATIENCE_SECONDS)

    async def ask(count: int) -> list[object]:
        asked = [asyncio.create_task(shared.arrive()) for _ in range(count)]
        await asyncio.sleep(0)
        store.speaks.set()
        return list(await asyncio.gather(*asked, return_exceptions=True))

    assert asyncio.run(ask(500)) == [1] * 500
    store.speaks.clear()
    store.failure = Transient("away")
    assert asyncio.run(ask(20)) == [store.failure] * 20


def test_a_reading_that_fails_after_its_callers_have_given_up_is_no_error_of_the_server() -> None:
    """Python 3.14 reports it for a shielded reading, earlier ones for one that is only awaited."""
    store, reported = Store(), list[object]()
    store.failure = Transient("away")
    shared = Shared(store.read, "Redis", first_seconds=0.01)

    async def ask() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
        with pytest.raises(Transient, match="has not answered"):
            await shared.arrive()
        reading = shared.begin()
        store.speaks.set()
        assert reading.exception(PATIENCE_SECONDS) is store.failure
        del reading
        await asyncio.sleep(0)
        shared.begin()  # lets the earlier reading go, and asyncio reports what was never asked for
        gc.collect()

    asyncio.run(ask())
    assert reported == []
