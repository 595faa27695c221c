"""Drivers, timers, the work queue of one machine, and the informer's caches."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from localcluster.client import ApiError
from localcluster.driver import AsyncDriver, NotIdleError, ThreadDriver, VirtualClock, VirtualDriver
from localcluster.informer import Informers
from localcluster.machine import KeyedMachine, Timers
from localcluster.wire import Json
from localcluster_tests.support.waiting import PATIENCE_SECONDS


class Recording(KeyedMachine):
    name = "recording"

    def __init__(self, fail: Callable[[int], Exception | None] = lambda _: None) -> None:
        super().__init__()
        self.ran: list[tuple[str, float]] = []
        self._fail = fail

    def reconcile(self, key: str, now: float) -> None:
        self.ran.append((key, now))
        error = self._fail(len(self.ran))
        if error is not None:
            raise error


def test_a_key_queued_twice_runs_once() -> None:
    machine = Recording()
    machine.enqueue("a")
    machine.enqueue("a")
    machine.step(0.0)
    assert machine.ran == [("a", 0.0)]


def test_a_conflict_is_tried_again_at_once_and_then_with_growing_delay() -> None:
    machine = Recording(lambda n: ApiError(409, "Conflict", "") if n <= 6 else None)
    machine.enqueue("a")
    clock = VirtualClock(0.0)
    driver = VirtualDriver([], [machine], clock)
    driver.run_until_idle()
    assert len(machine.ran) == 4
    driver.advance(60)
    times = [t for _, t in machine.ran]
    gaps = [b - a for a, b in itertools.pairwise(times[3:])]
    assert len(times) == 7
    assert gaps == sorted(gaps)
    assert gaps[0] > 0


def test_a_machine_that_never_rests_is_named() -> None:
    class Restless(Recording):
        name = "restless"

        def step(self, now: float) -> bool:
            return True

    with pytest.raises(NotIdleError, match="restless"):
        VirtualDriver([], [Restless()], VirtualClock()).run_until_idle()


def test_the_earliest_wish_for_a_key_wins() -> None:
    timers = Timers()
    timers.at("a", 5.0)
    timers.at("a", 3.0)
    timers.at("a", 9.0)
    timers.at("b", 4.0)
    assert timers.next_due() == 3.0
    assert timers.due(3.5) == ["a"]
    assert timers.due(10.0) == ["b"]
    assert timers.next_due() is None


def test_a_machine_that_raises_does_not_stop_the_others_in_real_time() -> None:
    done = threading.Event()

    class Broken(Recording):
        name = "broken"

        def step(self, now: float) -> bool:
            raise RuntimeError("a bug")

    class Other(Recording):
        def reconcile(self, key: str, now: float) -> None:
            done.set()
            driver.stop()

    other = Other()
    other.enqueue("a")
    driver = ThreadDriver([], [Broken(), other])
    thread = threading.Thread(target=driver.run)
    thread.start()
    assert done.wait(PATIENCE_SECONDS)
    thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive()


def test_the_async_driver_wakes_for_another_thread() -> None:
    async def main() -> list[tuple[str, float]]:
        machine = Recording()
        driver = AsyncDriver([], [machine])
        running = asyncio.create_task(driver.run())
        await asyncio.sleep(0)

        def from_outside() -> None:
            machine.enqueue("a")
            driver.wake()

        await asyncio.to_thread(from_outside)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not machine.ran:
                await asyncio.sleep(0)
        running.cancel()
        return machine.ran

    assert [key for key, _ in asyncio.run(main())] == ["a"]


def test_waking_a_driver_whose_loop_is_being_closed_breaks_nothing() -> None:
    """A process ends, and its thread reports it, while the cluster stops."""

    def closed(_: object) -> None:
        raise RuntimeError("Event loop is closed")

    driver = AsyncDriver([], [])
    loop: Any = SimpleNamespace(is_closed=lambda: False, call_soon_threadsafe=closed)
    driver._loop = loop
    driver.wake()


class ScriptedEvents:
    def __init__(self, events: list[Json]) -> None:
        self.closed = False
        self.wake: Callable[[], None] | None = None
        self._events = events

    def poll(self) -> list[Json]:
        taken, self._events = self._events, []
        return taken

    def close(self) -> None:
        self.closed = True


def thing(name: str, version: int, uid: str = "") -> Json:
    return {"metadata": {"name": name, "uid": uid or name, "resourceVersion": str(version)}}


class ScriptedClient:
    """Answers lists and watches from scripts."""

    def __init__(self, lists: list[list[Json]], watches: list[list[Json] | ApiError]) -> None:
        self.lists, self.watches = lists, watches
        self.asked: list[str] = []

    def get(self, path: str, **query: str) -> Json:
        items = self.lists.pop(0)
        return {"apiVersion": "v1", "kind": "ThingList", "metadata": {"resourceVersion": "100"}, "items": items}

    def watch(self, path: str, resource_version: str, **query: str) -> ScriptedEvents:
        self.asked.append(resource_version)
        answer = self.watches.pop(0) if self.watches else []
        if isinstance(answer, ApiError):
            raise answer
        return ScriptedEvents(answer)

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"the informer called {name}")


def informed(client: ScriptedClient, pumps: int = 3) -> tuple[dict[str, str], list[str]]:
    informers = Informers(client)
    informer = informers.get("/things")
    calls: list[str] = []
    informer.subscribe(
        lambda old, new: calls.append(
            f"{'-' if new is None else '+' if old is None else '~'}{(new or old or {})['metadata']['name']}"
        )
    )
    for _ in range(pumps):
        informers.pump()
        informers._woken.append(informer)
    return {k: v["metadata"]["resourceVersion"] for k, v in informer.store.items()}, calls


def test_events_keep_the_store_and_tell_each_change() -> None:
    client = ScriptedClient(
        [[thing("a", 1)]],
        [
            [
                {"type": "ADDED", "object": thing("b", 101)},
                {"type": "MODIFIED", "object": thing("a", 102)},
                {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "103"}}},
                {"type": "DELETED", "object": thing("b", 104)},
            ]
        ],
    )
    assert informed(client) == ({"a": "102"}, ["+a", "+b", "~a", "-b"])


def test_410_relists_and_tells_only_the_differences() -> None:
    gone = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "metadata": {}}}
    client = ScriptedClient(
        [[thing("a", 1), thing("b", 2), thing("c", 3)], [thing("a", 1), thing("c", 9), thing("d", 8)]], [[gone]]
    )
    assert informed(client, 4) == ({"a": "1", "c": "9", "d": "8"}, ["+a", "+b", "+c", "-b", "~c", "+d"])


def test_410_at_the_opening_of_the_watch_relists_too() -> None:
    client = ScriptedClient([[thing("a", 1)], [thing("a", 2)]], [ApiError(410, "Expired", "too old")])
    assert informed(client, 4) == ({"a": "2"}, ["+a", "~a"])


def test_an_object_made_again_under_its_name_is_a_deletion_and_an_addition() -> None:
    client = ScriptedClient([[thing("a", 1, "u1")]], [[{"type": "MODIFIED", "object": thing("a", 101, "u2")}]])
    assert informed(client) == ({"a": "101"}, ["+a", "-a", "+a"])


class Failing(ScriptedClient):
    """Cannot be watched for so many times."""

    def __init__(self, times: int) -> None:
        super().__init__([[thing("a", 1)], [thing("b", 1)]], [])
        self.times = times

    def watch(self, path: str, resource_version: str, **query: str) -> ScriptedEvents:
        self.asked.append(path)
        if path == "/away" and self.times > 0:
            self.times -= 1
            raise ApiError(503, "ServiceUnavailable", "away")
        return ScriptedEvents([])


def test_an_informer_that_fails_is_asked_at_each_pump_until_it_works_and_the_others_are_not() -> None:
    client = Failing(2)
    informers = Informers(client)
    for path in ("/away", "/things"):
        informers.get(path)
    failing = []
    for _ in range(5):
        informers.pump()
        failing.append(informers.failing)
    assert failing == [True, True, False, False, False]
    assert client.asked == ["/away", "/things", "/away", "/away"]


def test_an_informer_that_is_taken_away_while_it_fails_is_not_waited_for() -> None:
    informers = Informers(Failing(9))
    informers.get("/away")
    informers.pump()
    informers.remove("/away")
    assert not informers.failing
    assert not informers.pump()
