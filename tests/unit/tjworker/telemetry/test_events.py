"""The event recorder: what lands in the cluster, and that it never gets in the way."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from benchmarks.support.in_turn import EventsAtOnce
from tests.support.kinds import AITRAININGJOBS
from tests.support.waiting import PATIENCE_SECONDS
from tjworker.api.model import InvalidJob
from tjworker.api.status import JobStatus
from tjworker.base import Conflict, JobName, OperatorError, Terminal, Transient
from tjworker.telemetry.events import BURST, REFILL_SECONDS, SIMILAR_MESSAGES, SIMILAR_SECONDS, EventRecorder


def job(name: str = "digits", uid: str = "u1") -> InvalidJob:
    return InvalidJob(
        JobName(AITRAININGJOBS, "team", name), "elasticdeeplearning.ai/v1", "AITrainingJob", uid, 7, 1, JobStatus(), ()
    )


class Cluster:
    """The API server's Events. `fails` is raised by every call while it is set."""

    def __init__(self) -> None:
        self.events: dict[tuple[str, str], dict[str, Any]] = {}
        self.fails: OperatorError | None = None
        self.gate: threading.Event | None = None

    def get(self, resource: str, namespace: str, name: str) -> dict[str, Any] | None:
        return self.events.get((namespace, name))

    def create(self, resource: str, namespace: str, body: Mapping[str, Any]) -> dict[str, Any]:
        if self.gate:
            self.gate.wait(PATIENCE_SECONDS)
        if self.fails:
            raise self.fails
        where = (namespace, str(body["metadata"]["name"]))
        if where in self.events:
            raise Conflict("exists", reason="AlreadyExists")
        self.events[where] = dict(body)
        return self.events[where]

    def merge_patch(self, resource: str, namespace: str, name: str, body: Mapping[str, Any]) -> dict[str, Any]:
        self.events[namespace, name].update(body)
        return self.events[namespace, name]

    @property
    def told(self) -> list[tuple[str, str, int]]:
        return sorted((e["reason"], e["message"], e["count"]) for e in self.events.values())


class Clock:
    def __init__(self) -> None:
        self.now = 1_767_225_600.0

    def __call__(self) -> float:
        return self.now


@dataclass(frozen=True)
class Case:
    tell: Callable[[EventRecorder, Clock], None]
    want: list[tuple[str, str, int]]


def repeat(times: int, *, every_seconds: float = 0, message: str = "m {}") -> Callable[[EventRecorder, Clock], None]:
    def tell(recorder: EventRecorder, clock: Clock) -> None:
        for number in range(times):
            recorder.event(job(), "Normal", "R", message.format(number))
            clock.now += every_seconds

    return tell


CASES: dict[str, Case] = {
    "A repeat is counted on the same object.": Case(repeat(3, message="all run"), [("R", "all run", 3)]),
    "Different messages are different objects.": Case(repeat(2), [("R", "m 0", 1), ("R", "m 1", 1)]),
    "Too many similar ones become one.": Case(
        repeat(SIMILAR_MESSAGES + 3),
        sorted(
            [
                *((("R", f"m {n}", 1)) for n in range(SIMILAR_MESSAGES)),
                ("R", f"(combined from similar events): m {SIMILAR_MESSAGES + 2}", 3),
            ]
        ),
    ),
    "Similar ones over a long time stay apart.": Case(
        repeat(SIMILAR_MESSAGES + 1, every_seconds=SIMILAR_SECONDS),
        [("R", f"m {n}", 1) for n in sorted(range(SIMILAR_MESSAGES + 1), key=str)],
    ),
    "An object that talks without end is cut short.": Case(
        repeat(BURST + 50, message="again"), [("R", "again", BURST)]
    ),
    "After a while it may speak again.": Case(
        repeat(BURST + 4, every_seconds=REFILL_SECONDS / 2, message="again"), [("R", "again", BURST + 4)]
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_events(name: str) -> None:
    cluster, clock = Cluster(), Clock()
    CASES[name].tell(EventsAtOnce(cluster, clock=clock), clock)
    assert cluster.told == CASES[name].want


def test_an_event_names_the_job_by_kind_name_and_uid() -> None:
    cluster = Cluster()
    EventsAtOnce(cluster, clock=Clock()).event(job(), "Warning", "PodFailed", "exit code 3")
    (((namespace, _), event),) = cluster.events.items()
    assert namespace == "team"
    assert event["involvedObject"] == {
        "apiVersion": "elasticdeeplearning.ai/v1",
        "kind": "AITrainingJob",
        "namespace": "team",
        "name": "digits",
        "uid": "u1",
        "resourceVersion": "7",
    }
    assert (event["type"], event["firstTimestamp"], event["source"]) == (
        "Warning",
        "2026-01-01T00:00:00Z",
        {"component": "trainingjob-operator"},
    )


def test_a_repeat_keeps_when_it_was_first_said_and_tells_when_it_was_last() -> None:
    cluster, clock = Cluster(), Clock()
    recorder = EventsAtOnce(cluster, clock=clock)
    for _ in range(3):
        recorder.event(job(), "Normal", "R", "again")
        clock.now += 30
    (event,) = cluster.events.values()
    assert (event["firstTimestamp"], event["lastTimestamp"]) == ("2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z")


def test_an_event_that_has_expired_meanwhile_is_made_anew() -> None:
    cluster = Cluster()
    recorder = EventsAtOnce(cluster, clock=Clock())
    recorder.event(job(), "Normal", "R", "again")
    made = cluster.create

    def taken_a_moment_ago(resource: str, namespace: str, body: Mapping[str, Any]) -> dict[str, Any]:
        cluster.create = made  # type: ignore[method-assign]
        cluster.events.clear()
        raise Conflict("exists", reason="AlreadyExists")

    cluster.create = taken_a_moment_ago  # type: ignore[method-assign]
    recorder.event(job(), "Normal", "R", "again")
    assert cluster.told == [("R", "again", 1)]


def test_the_longest_name_and_a_long_message_are_still_accepted() -> None:
    cluster = Cluster()
    EventsAtOnce(cluster, clock=Clock()).event(job("x" * 253), "Normal", "R", "m" * 5000)
    (((_, name), event),) = cluster.events.items()
    assert len(name) <= 253
    assert len(event["message"]) <= 1024


@pytest.mark.parametrize("error", [Transient("away"), Terminal("forbidden", status=403)])
def test_a_refused_event_fails_no_pass(error: OperatorError) -> None:
    cluster = Cluster()
    cluster.fails = error
    recorder = EventsAtOnce(cluster, clock=Clock())
    recorder.event(job(), "Normal", "R", "lost")
    cluster.fails = None
    recorder.event(job(), "Normal", "R", "m")
    assert cluster.told == [("R", "m", 1)]


def test_a_server_that_hangs_holds_no_pass_up_and_the_queue_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tjworker.telemetry.events.QUEUE_LENGTH", 5)
    cluster = Cluster()
    cluster.gate = threading.Event()
    recorder = EventRecorder(cluster, clock=Clock())
    for number in range(20):
        recorder.event(job(uid=f"u{number}"), "Normal", "R", "m")
    assert not recorder.flush(0.01)
    cluster.gate.set()
    assert recorder.flush(PATIENCE_SECONDS)
    assert 5 <= len(cluster.events) <= 6, "those in the queue, and one that the thread had taken"
