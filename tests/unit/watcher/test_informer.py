"""The informer against a scripted API server in virtual time."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

import orjson
import pytest

from tests.unit.watcher.scripted import (
    Clock,
    Script,
    Server,
    World,
    answers,
    broken,
    half_open,
    hanging,
    line,
    pod,
    quiet,
    random_session,
    refused,
    status,
)
from tjworker.kube.client import KubeClient
from tjworker.kube.port import HttpResponse
from watcher.inbox import Inbox
from watcher.informer import Informer
from watcher.projection import Projected

SESSIONS = 1_000


@dataclass
class Seen:
    """What came out of an informer, and the pods as its reader knows them."""

    stream: list[tuple[str, int, bool]] = field(default_factory=list)
    pods: dict[str, int] = field(default_factory=dict)
    newest: dict[str, int] = field(default_factory=dict)
    position: int = 0

    def take(self, change: Projected) -> None:
        name, rv, gone = change.change.name, change.change.rv, change.change.record is None
        self.stream.append((name, rv, gone))
        assert rv > self.newest.get(name, 0), f"{name} at {rv} is old news: {self.newest[name]} has been passed on"
        self.newest[name] = rv
        if gone:
            assert name in self.pods, f"{name} is deleted twice"
            del self.pods[name]
        else:
            self.pods[name] = rv


class Bench:
    """An informer on a scripted server. Nothing waits; the clock is moved instead."""

    def __init__(self, world: World | None = None, *, seed: int = 1, page_size: int = 500) -> None:
        self.clock = Clock()
        self.server = Server(self.clock, world)
        self.seed = seed
        self.page_size = page_size
        self.seen = Seen()
        self.restart()

    def restart(self) -> None:
        """A new watcher process; what the store knows stays."""
        self.inbox = Inbox()
        self.informer = Informer("pods", KubeClient(self.server), self.inbox, now=self.clock.now, page_size=self.page_size,
                                 rng=random.Random(self.seed))

    def step(self) -> float:
        wait_seconds = self.informer.step()
        self.read()
        return wait_seconds

    def read(self) -> None:
        while batches := self.inbox.take(0):
            for batch in batches:
                for change in batch.changes:
                    self.seen.take(change)
                self.seen.position = max(self.seen.position, batch.position)

    def steps(self, count: int) -> None:
        for _ in range(count):
            self.clock.advance(self.step())

    def run_for(self, seconds: float) -> None:
        end = self.clock.now() + seconds
        while self.clock.now() < end:
            self.clock.advance(self.step())

    @property
    def truth(self) -> dict[str, int]:
        return {name: int(obj["metadata"]["resourceVersion"]) for name, obj in self.server.world.pods.items()
                if obj["metadata"].get("ownerReferences")}


def mutation(rng: random.Random) -> Callable[[World], None]:
    def mutate(world: World) -> None:
        for _ in range(rng.randint(0, 4)):
            name = f"p{rng.randint(0, 7)}"
            if name in world.pods and rng.random() < 0.35:
                world.remove(name)
            else:
                world.put(name, ours=rng.random() < 0.9, note=rng.choice(("", "läuft", "訓練中", "🚀")))
        if rng.random() < 0.1:
            world.compact()

    return mutate


def test_a_thousand_random_sessions_give_an_ordered_unique_complete_and_resumable_stream() -> None:
    first = random.randrange(1 << 30)
    done, number = 0, 0
    while done < SESSIONS:
        seed = first + number
        number += 1
        try:
            done += one_life(seed)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error


def one_life(seed: int) -> int:
    """A life of an informer. Gives the number of watch sessions in it."""
    rng = random.Random(seed)
    bench = Bench(seed=seed, page_size=rng.choice((1, 3, 500)))
    mutate = mutation(rng)
    mutate(bench.server.world)
    for _ in range(20):
        roll = rng.random()
        if roll < 0.1:
            bench.server.lists.append(rng.choice((
                broken, answers(429, status(429, "TooManyRequests"), retry_after="1"), answers(503, b"unavailable"),
                lambda server: None)))
        elif roll < 0.15:
            bench.server.lists.append(compacting_between_pages)
        bench.server.watches.append(random_session(rng, mutate))
        bench.steps(1)
        if rng.random() < 0.1:
            mutate(bench.server.world)
    sessions = bench.server.count("watch")
    # The storm is over: two quiet sessions, and the reader knows exactly what is.
    bench.server.watches.clear()
    bench.server.lists.clear()
    bench.run_for(120)
    assert bench.seen.pods == bench.truth
    assert bench.seen.position == bench.server.world.rv or bench.seen.position >= max(
        [rv for rv, _, _ in bench.server.world.events], default=0)
    return sessions


def compacting_between_pages(server: Server) -> HttpResponse | None:
    server.world.put("p0")
    server.world.compact()
    return None


def test_without_a_relist_each_single_event_is_passed_on_once() -> None:
    seed = random.randrange(1 << 30)
    rng = random.Random(seed)
    bench = Bench(seed=seed)
    for number in range(200):
        bench.server.world.put(f"p{number % 5}", note=str(number))
    bench.steps(1)
    listed_at = bench.server.world.rv
    for number in range(300):
        bench.server.world.put(f"p{number % 5}", note="ü" * number)

    def cut(server: Server, start: int):  # type: ignore[no-untyped-def]
        text = b"".join(line(kind, obj) for _, kind, obj in server.since(start))
        yield text[:rng.randint(1, len(text))] if text else b""

    bench.server.watches = [cut] * 10
    bench.run_for(300)
    events = [rv for _, rv, _ in bench.seen.stream if rv > listed_at]
    assert events == [rv for rv, _, _ in bench.server.world.events if rv > listed_at], f"seed {seed}"
    assert bench.server.count("list") == 1


def test_a_restarted_watcher_lists_and_the_sweep_is_told_what_exists() -> None:
    bench = Bench()
    bench.server.world.put("a")
    bench.server.world.put("b")
    bench.steps(1)
    bench.restart()
    bench.informer.step()
    existing = [batch.existing for batch in bench.inbox.take(0) if batch.existing is not None]
    assert [sorted(name for _, name in names) for names in existing] == [["a", "b"]]


@dataclass(frozen=True)
class Case:
    sessions: list[Script]
    want_lists: int
    """Lists within the two minutes after the first."""
    want_watches_at_least: int = 2


def error_event(code: int, reason: str) -> Script:
    def script(server: Server, start: int):  # type: ignore[no-untyped-def]
        server.clock.advance(2)
        yield line("ERROR", orjson.loads(status(code, reason)))

    return script


def garbage(server: Server, start: int):  # type: ignore[no-untyped-def]
    server.clock.advance(2)
    yield b"\xff\xfe not json\n"


def empty(server: Server, start: int):  # type: ignore[no-untyped-def]
    yield from ()


def strange_object(server: Server, start: int):  # type: ignore[no-untyped-def]
    made = pod("strange", server.world.rv)
    made["metadata"]["resourceVersion"] = str(server.world.rv + 1)
    made["status"] = {"containerStatuses": ["this is no container"]}
    server.world.rv += 1
    yield line("ADDED", made)
    server.world.put("after")
    yield from quiet(server, server.world.rv - 1)


CASES: dict[str, Case] = {
    "A watch that ends in order is opened again where it stopped, without a list.": Case([quiet, quiet], 0),
    "A half-open connection is opened again, without a list.": Case([half_open], 0),
    "An ERROR event 410 makes a new list.": Case([error_event(410, "Expired")], 1),
    "An ERROR event 500 opens the watch again, without a list.": Case([error_event(500, "InternalError")], 0),
    "Three ERROR events in a row at one place make a new list.": Case([error_event(500, "InternalError")] * 3, 1),
    "Garbage opens the watch again, without a list.": Case([garbage], 0),
    "Garbage at one place again and again makes a new list.": Case([garbage] * 3, 1),
    "A server that ends each watch at once is not asked in a tight loop.": Case([empty] * 3, 0),
    "An object that cannot be read does not stop the stream.": Case([strange_object], 0),
}


@pytest.mark.parametrize("name", CASES)
def test_session(name: str) -> None:
    case = CASES[name]
    bench = Bench()
    bench.server.world.put("a")
    bench.server.watches = list(case.sessions)
    bench.steps(1)
    bench.server.world.put("b")
    bench.run_for(120)
    assert bench.server.count("list") - 1 == case.want_lists
    assert case.want_watches_at_least <= bench.server.count("watch") <= 12
    assert bench.seen.pods == bench.truth


def test_a_half_open_connection_is_noticed_within_90_seconds() -> None:
    bench = Bench()
    bench.steps(1)
    bench.server.watches = [half_open]
    bench.server.requests.clear()
    bench.steps(2)
    first, second = [at for at, kind in bench.server.requests if kind == "watch"]
    assert second - first < 90


DEAD: dict[str, Callable[[Server], HttpResponse]] = {
    "A server that refuses connections": refused,
    "A server that takes requests and never answers": hanging,
    "A server that answers everything with 500": broken,
    "A server that has no history and answers everything with 503": answers(503, b"upstream connect error"),
}


@pytest.mark.parametrize("name", DEAD)
@pytest.mark.parametrize("known", [True, False])
def test_a_dead_server_gets_at_most_one_list_in_30_seconds(name: str, known: bool) -> None:
    bench = Bench()
    if known:
        bench.server.world.put("a")
        bench.steps(1)
        bench.server.world.compact()
    bench.server.dead = DEAD[name]
    bench.server.requests.clear()
    bench.run_for(600)
    lists = [at for at, kind in bench.server.requests if kind == "list"]
    assert all(later - earlier >= 30 for earlier, later in pairwise(lists)), lists
    assert len(bench.server.requests) < 100, "it asks too often"
    bench.server.dead = None
    bench.server.world.put("b")
    bench.run_for(61)
    assert bench.seen.pods == bench.truth, "it does not come back within a minute"


def test_history_that_is_gone_at_once_again_does_not_make_lists_in_a_tight_loop() -> None:
    bench = Bench()
    bench.server.default = error_event(410, "Expired")
    bench.run_for(300)
    assert bench.server.count("list") <= 11


def test_the_wait_that_the_server_names_is_kept_for_lists_and_watches() -> None:
    bench = Bench()
    told = answers(429, status(429, "TooManyRequests", "storage is (re)initializing", retryAfterSeconds=3))
    bench.server.lists = [told]
    wait_seconds = bench.step()
    assert 3 <= wait_seconds <= 4
    bench.clock.advance(wait_seconds)
    assert bench.step() == 0
    assert bench.server.count("list") == 2


def test_a_kind_that_is_not_installed_counts_as_listed_and_is_found_when_it_comes() -> None:
    bench = Bench()
    bench.server.dead = answers(404, b"404 page not found\n")
    bench.informer.step()
    assert [batch.listed for batch in bench.inbox.take(0)] == [True]
    assert bench.informer.vitals.state == "missing"
    bench.run_for(60)
    bench.server.dead = None
    bench.server.world.put("a")
    bench.run_for(11)
    assert bench.seen.pods == bench.truth


def test_a_forbidden_kind_that_is_needed_is_not_taken_for_an_empty_one() -> None:
    bench = Bench()
    bench.server.dead = answers(403, status(403, "Forbidden", 'pods is forbidden: User "x" cannot list resource "pods"'))
    bench.run_for(60)
    assert not bench.informer.vitals.synced
    bench.server.dead = None
    bench.run_for(40)
    assert bench.informer.vitals.synced


def test_a_lost_projection_is_given_again_whole_under_its_epoch() -> None:
    bench = Bench()
    bench.server.world.put("a")
    bench.steps(2)
    bench.seen = Seen()
    bench.informer.relist(1)
    bench.informer.relist(2)
    assert bench.informer.step() == 0, "it does not wait for the time between two lists"
    batches = bench.inbox.take(0)
    assert {batch.epoch for batch in batches} == {2}
    assert [change.change.name for batch in batches for change in batch.changes] == ["a"]


def test_a_server_that_is_behind_its_own_watch_is_listed_anew() -> None:
    """Restored from a backup, it takes the watch from a version in its future, and is silent."""
    bench = Bench()
    bench.server.world.put("p0")
    bench.step()
    bench.server.world = World(rv=5)
    bench.server.world.put("p1")
    bench.server.watches.append(silent)
    bench.informer.step()
    bench.clock.advance(60)
    bench.inbox.take(0)
    bench.informer.step()
    listed = [batch for batch in bench.inbox.take(0) if batch.list_version]
    assert (listed[0].list_version, [p.change.name for p in listed[0].changes]) == (6, ["p1"])


def silent(server: Server, start: int):  # type: ignore[no-untyped-def]
    server.clock.advance(server.timeout_seconds)
    yield from ()


def test_a_list_says_when_it_shows_an_object_older_than_it_was() -> None:
    bench = Bench()
    bench.server.world.put("p0", note="lost")
    bench.step()
    older = World(rv=5)
    older.put("p0")
    older.rv = 900
    bench.server.world = older
    bench.server.watches.append(error_event(410, "Expired"))
    rewound: list[bool] = []
    for _ in range(2):
        bench.informer.step()
        bench.clock.advance(60)
        rewound += [batch.rewound for batch in bench.inbox.take(0) if batch.list_version]
    assert rewound == [True]


def test_a_pod_that_changes_hands_is_deleted_for_the_job_that_had_it() -> None:
    bench = Bench()
    bench.server.world.put("a")
    bench.steps(1)
    bench.server.world.put("a", ours=False)
    bench.run_for(120)
    assert [(name, gone) for name, _, gone in bench.seen.stream] == [("a", False), ("a", True)]
