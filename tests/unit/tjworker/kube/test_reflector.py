"""The reflector against a scripted API server in virtual time. Its random sessions are row 14 of the simulation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import orjson
import pytest

from tests.support.reflector_bench import Bench
from tests.support.scripted_api import (
    Script,
    Server,
    World,
    answers,
    broken,
    half_open,
    line,
    pod,
    quiet,
    refused,
    status,
)
from tjworker.kube.port import HttpResponse
from watcher.event_queue import ListEnd, NotInstalled, ProjectedPage


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


def test_the_wait_that_the_server_names_is_kept_for_lists_and_watches() -> None:
    bench = Bench()
    told = answers(429, status(429, "TooManyRequests", "storage is (re)initializing", retryAfterSeconds=3))
    bench.server.lists = [told]
    wait_seconds = bench.step()
    assert 3 <= wait_seconds <= 4
    bench.clock.advance(wait_seconds)
    assert bench.step() == 0
    assert bench.server.count("list") == 2


NOT_INSTALLED_SECONDS = {"for a moment": (5, 6, 9), "for a minute": (60, 7, 33), "for an hour": (3600, 130, 61)}


@pytest.mark.parametrize(
    ("missing_seconds", "most_lists", "found_seconds"), NOT_INSTALLED_SECONDS.values(), ids=NOT_INSTALLED_SECONDS.keys()
)
def test_a_kind_that_is_not_installed_counts_as_listed_and_is_found_when_it_comes(
    missing_seconds: int, most_lists: int, found_seconds: int
) -> None:
    """The longer it has not been there, the more rarely it is asked for."""
    bench = Bench()
    bench.server.dead = answers(404, b"404 page not found\n")
    bench.reflector.step()
    (batch,) = bench.events.take(0)
    assert isinstance(batch, NotInstalled)
    assert bench.reflector.vitals.state == "missing"
    bench.run_for(missing_seconds)
    assert bench.server.count("list") <= most_lists
    bench.server.dead = None
    bench.server.world.put("a")
    bench.run_for(found_seconds)
    assert bench.seen.pods == bench.truth


@pytest.mark.parametrize("remade", ["nothing", "what was there", "something else"])
def test_what_goes_with_its_kind_is_gone_when_the_kind_is_back(remade: str) -> None:
    """A CRD that is deleted takes its objects with it; no watch is there to see them go, nor those that come first."""
    bench = Bench()
    bench.server.world.put("a")
    bench.server.world.put("b")
    bench.run_for(5)
    assert sorted(bench.seen.pods) == ["a", "b"]
    bench.server.dead = answers(404, b"404 page not found\n")
    bench.run_for(120)
    assert bench.reflector.vitals.state == "missing"
    for name in ("a", "b"):
        bench.server.world.remove(name)
    gone_at = bench.server.world.rv
    for name in {"nothing": (), "what was there": ("a", "b"), "something else": ("c",)}[remade]:
        bench.server.world.put(name)
    bench.server.world.events = [one for one in bench.server.world.events if one[0] > gone_at]
    bench.server.dead = None
    bench.run_for(120)
    assert bench.seen.pods == bench.truth


def test_a_forbidden_kind_that_is_needed_is_not_taken_for_an_empty_one() -> None:
    bench = Bench()
    bench.server.dead = answers(403, status(403, "Forbidden", 'pods is forbidden: User "x" cannot list resource PODS'))
    bench.run_for(60)
    assert not bench.reflector.vitals.synced
    bench.server.dead = None
    bench.run_for(40)
    assert bench.reflector.vitals.synced


def test_a_server_that_is_behind_its_own_watch_is_listed_anew() -> None:
    """Restored from a backup, it takes the watch from a version in its future, and is silent."""
    bench = Bench()
    bench.server.world.put("p0")
    bench.step()
    bench.server.world = World(rv=5)
    bench.server.world.put("p1")
    bench.server.watches.append(silent)
    bench.reflector.step()
    bench.clock.advance(60)
    bench.events.take(0)
    bench.reflector.step()
    listed = [batch for batch in bench.events.take(0) if isinstance(batch, ProjectedPage | ListEnd)]
    assert (listed[0].version, [p.change.name for p in listed[0].changes]) == (6, ["p1"])


def silent(server: Server, start: int):  # type: ignore[no-untyped-def]
    server.clock.advance(server.timeout_seconds)
    yield from ()


def test_what_goes_while_a_list_is_begun_again_is_gone_though_its_first_page_has_shown_it() -> None:
    bench = Bench(page_size=1)
    for name in ("a", "b", "c"):
        bench.server.world.put(name)
    bench.steps(1)

    def gone_between_pages(server: Server) -> None:
        server.world.remove("a")
        server.world.compact()

    bench.server.watches.append(error_event(410, "Expired"))
    bench.server.lists = [lambda server: None, gone_between_pages]
    bench.run_for(120)
    assert bench.server.lists == [], "the second list came to its second page"
    assert bench.seen.pods == bench.truth
    assert sorted(bench.truth) == ["b", "c"]
