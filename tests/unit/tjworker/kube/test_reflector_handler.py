"""What a reflector tells its handler: which events of a watch it passes on, and from where it resumes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import pytest

from tests.support.reflector_bench import Bench
from tests.support.scripted_api import Script, Server, World, answers, line, pod, quiet
from tests.unit.tjworker.kube.test_reflector import error_event, silent
from tjworker.api.resources import PODS
from tjworker.base import JsonDict, OperatorError
from tjworker.kube.client import KubeClient
from tjworker.kube.reflector import Closed, Event, Reflector


@dataclass
class Recorder:
    """A handler that writes down what it is told."""

    told: list[str] = field(default_factory=list)

    def list_begins(self) -> None:
        self.told.append("list")

    def page(self, objects: Sequence[JsonDict], version: int) -> None:
        self.told += [_name(obj) for obj in objects]

    def list_ends(self, version: int) -> None:
        self.told.append(f"listed at {version}")

    def absent(self) -> None:
        self.told.append("absent")

    def refused(self) -> None:
        self.told.append("refused")

    def watch_begins(self) -> None:
        self.told.append("watch")

    def events(self, events: Sequence[Event], version: int) -> None:
        self.told += [f"{kind} {_name(obj)}" for kind, obj in events]

    def api_fails(self, error: OperatorError) -> None:
        self.told.append("fails")

    def api_works(self) -> None:
        self.told.append("works")


def _name(obj: JsonDict) -> str:
    return f"{obj['metadata']['name']} {obj['metadata']['resourceVersion']}"


def sends(*lines: bytes) -> Script:
    def script(server: Server, start: int):  # type: ignore[no-untyped-def]
        server.clock.advance(2)
        yield from lines

    return script


def bookmark(version: int | None) -> bytes:
    return line("BOOKMARK", {"metadata": {} if version is None else {"resourceVersion": str(version)}})


@dataclass(frozen=True)
class Told:
    sends: tuple[bytes, ...]
    """Of a watch that begins at version 10."""
    want: tuple[str, ...] = ()
    want_position: int = 10


TOLD = {
    "an event at the list's own version is in the list": Told((line("MODIFIED", pod("a", 10)),)),
    "an event that comes again is passed on once": Told(
        (line("ADDED", pod("a", 11)), line("ADDED", pod("a", 11))), ("ADDED a 11",), 11
    ),
    "events of before the position are old": Told(
        (line("MODIFIED", pod("a", 11)), line("DELETED", pod("a", 9))), ("MODIFIED a 11",), 11
    ),
    "a bookmark moves the position on": Told((bookmark(15),), want_position=15),
    "a bookmark that is behind, or names no version, does not move it back": Told(
        (bookmark(15), bookmark(12), bookmark(0), bookmark(None)), want_position=15
    ),
    "what a bookmark has told of is old": Told((bookmark(15), line("MODIFIED", pod("a", 14))), want_position=15),
    "what was whole before garbage is passed on": Told(
        (line("ADDED", pod("a", 11)) + b"garbage\n",), ("ADDED a 11", "fails"), 11
    ),
}


@pytest.mark.parametrize("case", TOLD.values(), ids=TOLD.keys())
def test_what_a_watch_passes_on(case: Told) -> None:
    bench, handler = Bench(), Recorder()
    bench.server.watches = [sends(*case.sends)]
    reflector = Reflector(KubeClient(bench.server), PODS, handler, now=bench.clock.now)
    reflector.step()
    assert handler.told == ["list", "listed at 10", "watch", "works", *case.want]
    assert reflector.position == case.want_position


RESUMED: dict[str, tuple[Callable[[Bench], None], list[str]]] = {
    "goes on from its version, without a list": (lambda bench: None, ["watch", "works", "ADDED new 11"]),
    "ends when the history from there is gone": (lambda bench: bench.server.world.compact(), ["watch"]),
    "ends when the kind is not there": (
        lambda bench: setattr(bench.server, "dead", answers(404, b"404 page not found\n")),
        ["watch"],
    ),
    "ends when the server is behind": (
        lambda bench: bench.server.watches.append(silent) or setattr(bench.server, "world", World(rv=5)),  # type: ignore[func-returns-value]
        ["watch", "works"],
    ),
}


@pytest.mark.parametrize("name", RESUMED)
def test_a_reflector_with_a_start_version(name: str) -> None:
    happens, want = RESUMED[name]
    bench, handler = Bench(), Recorder()
    bench.server.world.put("new")
    happens(bench)
    reflector = Reflector(KubeClient(bench.server), PODS, handler, now=bench.clock.now, start_version=10)
    with suppress(Closed):
        for _ in range(2):
            reflector.step()
            bench.server.default = error_event(410, "Expired") if "ends" in name else quiet
    assert handler.told[: len(want)] == want
    assert bench.server.count("list") == 0
    assert reflector.stopped is ("ends" in name)


def test_a_handler_that_is_closed_ends_the_reflector() -> None:
    bench = Bench()
    bench.server.world.put("a")
    bench.events.close()
    with pytest.raises(Closed):
        bench.reflector.step()
    assert bench.reflector.stopped
