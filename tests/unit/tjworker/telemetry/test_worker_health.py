"""When a worker, or beat, is alive and when it is ready."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tjworker.telemetry.worker_health import IgnoredMessages, Lasting, WorkerReport
from tjworker.worker import beat


@dataclass(frozen=True)
class Case:
    report: WorkerReport | beat.BeatReport
    want_alive: bool
    want_ready: bool


def worker(
    age: float = 1,
    *,
    reaching: bool = False,
    consuming: bool = True,
    ignoring: float = 0,
    redis_answers_seconds: float = 1_000,
) -> WorkerReport:
    return WorkerReport(age, reaching, consuming, "tj", ignoring, redis_answers_seconds)


CASES = {
    "A worker that consumes its queue is alive and ready.": Case(worker(), True, True),
    "One that waits for Redis is alive: a restart would cure nothing.": Case(
        worker(reaching=True, consuming=False), True, False
    ),
    "One that consumes nothing is not alive.": Case(worker(consuming=False), False, False),
    "One whose loop hangs is not alive.": Case(worker(61), False, False),
    "One whose loop hangs while it reaches for Redis is not alive either.": Case(
        worker(61, reaching=True), False, False
    ),
    "One whose loop hangs in a call of a Redis that is silent is alive: a restart would cure nothing.": Case(
        worker(61, redis_answers_seconds=0), True, False
    ),
    "One whose loop still hangs a moment after Redis has come back is alive.": Case(
        worker(61, redis_answers_seconds=5), True, True
    ),
    "One whose Redis does not answer is not ready, though its loop has not noticed yet.": Case(
        worker(redis_answers_seconds=0), True, False
    ),
    "One that takes none of the messages that wait is not alive.": Case(worker(ignoring=61), False, False),
    "A beat that cannot send is alive: it waits for Redis.": Case(beat.BeatReport(5, sends=False), True, False),
    "A beat that does not tick is not alive.": Case(beat.BeatReport(61, sends=True), False, False),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_judgement(case: Case) -> None:
    assert (not case.report.problems(), case.report.ready) == (case.want_alive, case.want_ready)


LOOKS = {
    "messages wait, it is free and takes none": ([(5, True, 3), (5, True, 3), (9, True, 3)], 20.0),
    "it takes one between": ([(5, True, 3), (5, True, 4), (5, True, 4)], 0.0),
    "it is busy": ([(5, True, 3), (5, False, 3), (5, True, 3)], 0.0),
}


@pytest.mark.parametrize(("looks", "want"), LOOKS.values(), ids=LOOKS)
def test_since_when_messages_are_ignored(looks: list[tuple[int, bool, int]], want: float) -> None:
    ignored = IgnoredMessages()
    ignored.look(0.0, 5, True, 3)
    said = [ignored.look(10.0 * (n + 1), *look) for n, look in enumerate(looks)]
    assert said[-1] == want


def test_for_how_long_something_has_been_so_at_every_look() -> None:
    lasting = Lasting(gap_seconds=20)
    assert lasting.seconds(0.0) == 0, "nobody has looked"
    assert [lasting.look(at, True) for at in (0.0, 10.0, 30.0)] == [0.0, 10.0, 30.0]
    assert (lasting.seconds(40.0), lasting.seconds(50.1)) == (40.0, 0.0), "the last look is too long ago"
    assert lasting.look(60.0, True) == 0.0, "a process that was stopped has not looked"
    assert [lasting.look(61.0, False), lasting.seconds(61.0), lasting.look(62.0, True)] == [0.0, 0.0, 0.0]
    assert lasting.seconds(62.0) > 0, "it is so from the first look on"
