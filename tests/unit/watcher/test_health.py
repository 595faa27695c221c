"""Health: the judgement as a table, and the server once."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from watcher.health import Pulse, WatcherReport


@dataclass(frozen=True)
class Case:
    report: WatcherReport
    want_alive: bool
    want_ready: bool


def leading(
    *, synced: bool = True, state: str = "watching", age: float = 1, away: bool = False, writer: float = 0
) -> WatcherReport:
    return WatcherReport(True, synced, away, writer, {"pods": Pulse(state, synced, age)})


CASES: dict[str, Case] = {
    "A leader that watches and has everything is alive and ready.": Case(leading(), True, True),
    "A leader that still lists is alive and not ready.": Case(leading(synced=False, state="listing"), True, False),
    "A leader that goes on where the last one stopped is ready while it lists.": Case(
        replace(leading(synced=False, state="listing"), resumed=True), True, True
    ),
    "A watch without any sign for 90 s is dead, and what it shows is old.": Case(leading(age=91), False, False),
    "A kind that is not installed is no reason to be restarted.": Case(leading(state="missing", age=900), True, True),
    "An API server that is away is no reason to be restarted; what is known grows old.": Case(
        leading(state="waiting", age=900), True, False
    ),
    "A watch that is opened again in a moment makes nothing old.": Case(leading(state="waiting", age=5), True, True),
    "A Redis that is away is no reason to be restarted; nothing is written.": Case(
        leading(age=900, away=True), True, False
    ),
    "A writer that does not move is dead.": Case(leading(writer=900), False, True),
}


@pytest.mark.parametrize("name", CASES)
def test_judgement(name: str) -> None:
    case = CASES[name]
    assert (not case.report.problems(), case.report.ready) == (case.want_alive, case.want_ready)


@pytest.mark.parametrize("away", [False, True])
@pytest.mark.parametrize("leads", [False, True])
@pytest.mark.parametrize("writer", [0, 179, 180, 181])
def test_a_writer_that_hangs_is_dead_wherever_redis_is_and_a_standby_has_none(
    writer: float, leads: bool, away: bool
) -> None:
    """Who waits for Redis tries again and again, and each try is a move."""
    report = WatcherReport(leads, True, away, writer, {"pods": Pulse("watching", True, 1)})
    assert bool(report.problems()) is (leads and writer > 180)


def test_the_report_counts_what_is_skipped_and_names_the_first_of_it() -> None:
    skipped = {f"default/{n:02}": "ValueError: made up" for n in range(12)}
    report = WatcherReport(
        True, True, reflectors={"pods": Pulse("watching", True, 1, "", skipped, 40)}, unserved=frozenset("ab")
    )
    body = report.body()
    told = body["reflectors"]["pods"]["skipped"]
    assert (told["objects"], told["times"], list(told["first"])) == (12, 40, [f"default/{n:02}" for n in range(10)])
    assert body["unserved_namespaces"] == ["a", "b"]
    assert report.ready
    assert report.problems() == []
