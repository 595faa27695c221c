"""Beat, as its probes and its metrics see it: when it last ticked, and whether Redis takes its tasks."""

from __future__ import annotations

import signal
import time
from typing import Any, ClassVar

import celery.beat
import pytest
from celery.beat import ScheduleEntry

from tjworker.app import make_app
from tjworker.settings import Settings
from tjworker.telemetry.metrics import BEAT_SENT, BEAT_TICK, REGISTRY
from tjworker.worker import beat


class Schedule(beat.Scheduler):
    clock: ClassVar[list[float]] = [0.0]
    now = staticmethod(lambda: Schedule.clock[0])


@pytest.fixture
def scheduler() -> Schedule:
    Schedule.clock[0] = 100.0
    return Schedule(make_app(Settings()), lazy=True)


def entry(name: str) -> ScheduleEntry:
    return ScheduleEntry(name=name, task="tjworker.resync", schedule=1.0, app=make_app(Settings()))


def of_sent(name: str) -> float:
    return REGISTRY.get_sample_value(BEAT_SENT.name, {"task": name}) or 0.0


@pytest.mark.parametrize(
    ("age", "sends", "alive", "ready"),
    [
        (0, True, True, True),
        (60, True, True, True),
        (60.1, True, False, False),
        (5, False, True, False),
        (61, False, False, False),
    ],
)
def test_alive_while_it_ticks_and_ready_while_it_sends(age: float, sends: bool, alive: bool, ready: bool) -> None:
    told = beat.BeatReport(age, sends)
    assert (not told.problems(), told.ready) == (alive, ready)
    body = told.body()
    assert (body["sends"], body["tick_age_seconds"], bool(body["problems"])) == (sends, age, not alive)


def test_it_sends_while_the_last_task_was_taken_and_counts_each_by_its_row(
    scheduler: Schedule, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[Any] = [None, OSError("away"), None]

    def answer(*_: Any, **__: Any) -> None:
        told = answers.pop(0)
        if told is not None:
            raise told

    monkeypatch.setattr(celery.beat.Scheduler, "apply_async", answer)
    before = of_sent("resync")
    scheduler.apply_async(entry("resync"))
    assert (scheduler.report().ready, of_sent("resync") - before) == (True, 1)
    with pytest.raises(OSError, match="away"):
        scheduler.apply_async(entry("resync"))
    assert (scheduler.report().ready, of_sent("resync") - before) == (False, 1)
    scheduler.apply_async(entry("resync"))
    assert (scheduler.report().ready, of_sent("resync") - before) == (True, 2)


def test_while_it_reaches_for_redis_it_is_alive_and_not_ready_and_waits_stay_short(
    scheduler: Schedule, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []

    class Connection:
        def ensure_connection(self, errback: Any, max_retries: Any = None, **options: Any) -> str:
            asked.append({"max_retries": max_retries, **options})
            scheduler.clock[0] = 500.0
            errback(OSError("refused"), 2.0)
            return "connected"

    monkeypatch.setattr(Schedule, "connection", Connection())
    scheduler.sends = True
    assert scheduler._ensure_connected() == "connected"
    assert (scheduler.report().problems(), scheduler.report().ready) == ([], False)
    assert asked == [{"max_retries": None, "interval_max": beat.RECONNECT_MOST_SECONDS}]
    assert beat.RECONNECT_MOST_SECONDS < beat.TICK_LIMIT_SECONDS / 10


class Redis:
    """Takes tasks, or refuses them."""

    def __init__(self) -> None:
        self.away = True
        self.asked: list[str] = []

    def take(self, entry: ScheduleEntry) -> None:
        self.asked.append(entry.name)
        if self.away:
            raise OSError("away")


def test_what_could_not_be_sent_is_sent_within_a_second_of_redis_return_whatever_its_period(
    scheduler: Schedule, monkeypatch: pytest.MonkeyPatch
) -> None:
    redis = Redis()
    monkeypatch.setattr(celery.beat.Scheduler, "apply_async", lambda _, one, **__: redis.take(one))
    monkeypatch.setattr(celery.beat.Scheduler, "tick", lambda *_: 5.0)  # no row is due for long
    monkeypatch.setattr(Schedule, "producer", None)
    for name in ("resync", "autoscale"):
        scheduler.apply_entry(entry(name))
    redis.asked.clear()
    for _ in range(600):
        wait = scheduler.tick()
        assert 0 < wait <= beat.SEND_AGAIN_SECONDS, "Celery sleeps for as long"
        scheduler.clock[0] += wait
    assert len(redis.asked) <= 600, "one try a tick: each may wait for its time-outs"
    assert set(redis.asked) == {"resync", "autoscale"}
    redis.away, redis.asked = False, []
    waits = [scheduler.tick() for _ in range(3)]
    assert (sorted(redis.asked), waits[:1], waits[-1]) == (["autoscale", "resync"], [0.0], 5.0), "and only once"


@pytest.mark.parametrize(("sends", "want"), [(True, 1_767_268_800.0), (False, 1_767_260_000.0)])
def test_what_the_alert_goes_by_stands_still_while_redis_takes_no_task(
    sends: bool, want: float, scheduler: Schedule, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The probe does not: a restart would not help."""
    monkeypatch.setattr(celery.beat.Scheduler, "tick", lambda *_: 5.0)
    monkeypatch.setattr(time, "time", lambda: 1_767_268_800.0)
    scheduler.sends, scheduler.worked_at = sends, 1_767_260_000.0
    scheduler.clock[0] = 300.0
    scheduler.tick()
    assert scheduler.samples() == [(BEAT_TICK, {}, want)]
    assert scheduler.report().sign_age_seconds == 0


def test_it_ticks_often_enough_for_every_row_and_for_its_own_probe() -> None:
    conf = make_app(Settings()).conf
    assert conf.beat_scheduler == "tjworker.worker.beat:Scheduler"
    assert conf.beat_max_loop_interval <= min(Settings().autoscale_seconds, beat.TICK_LIMIT_SECONDS / 10)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_beat_even_where_every_error_is_caught(number: signal.Signals) -> None:
    """As in a call of Redis, which catches SystemExit and tells of another error."""
    before = {one: signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGINT)}
    codes: list[int] = []
    try:
        beat.leave_at_signals(codes.append)
        try:
            signal.raise_signal(number)
        except BaseException:  # noqa: BLE001  what a library catches
            pytest.fail("the signal was an error, which a library may catch")
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
    assert codes == [0]
