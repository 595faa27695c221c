"""The chart of a job's life: what is read out of status, pods and Events, and how it is drawn."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.support.builders import JobBuilder, make_job
from tests.unit.tjworker.cli.conftest import TypedAt
from tests.unit.tjworker.cli.test_escapes import EVIL, OBEYED
from tjworker.api.status import Condition, Ending, Failure, ScaleRecord
from tjworker.cli.chart import Chart, Lane, chart
from tjworker.cli.chartsvg import svg
from tjworker.cli.charttext import lines
from tjworker.cli.happenings import Happening

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)  # when the builders' jobs are made
NOW = BEGIN + timedelta(seconds=100)
DIGITS = make_job("digits").workers(2)


def at(seconds: int) -> str:
    return f"{BEGIN + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%SZ}"


def condition(type_: str, seconds: int, status: str = "True") -> Condition:
    return Condition(type=type_, status=status, last_transition_time=at(seconds), reason="R")


def said(reason: str, *seconds: int, about: str = "aitrainingjob/digits", uid: str = "") -> Happening:
    return Happening(at(seconds[0]), at(seconds[-1]), len(seconds), "Normal", reason, about, "", uid)


def pod(
    index: int = 0,
    *,
    made: int = 0,
    placed: int | None = None,
    started: int | None = None,
    ended: int | None = None,
    phase: str = "Running",
    code: int = 0,
) -> dict[str, Any]:
    name, state = f"digits-trainer-{index}", {}
    if ended is not None:
        state = {"terminated": {"startedAt": at(started or 0), "finishedAt": at(ended), "exitCode": code}}
    elif started is not None:
        state = {"running": {"startedAt": at(started)}}
    conditions = (
        [{"type": "PodScheduled", "status": "True", "lastTransitionTime": at(placed)}] if placed is not None else []
    )
    return {
        "metadata": {
            "name": name,
            "uid": f"uid-{index}",
            "creationTimestamp": at(made),
            "labels": {"replica-name": "trainer", "replica-index": str(index)},
        },
        "status": {"phase": phase, "conditions": conditions, "containerStatuses": [{"name": "a", "state": state}]},
    }


def gone(name: str, uid: str, **seconds: int) -> tuple[Happening, ...]:
    return tuple(said(reason, second, about=f"pod/{name}", uid=uid) for reason, second in seconds.items())


def drawn(lane: Lane) -> str:
    """`Running 5-20 30-100 failed@20`: a lane in seconds since the beginning."""

    def since(moment: datetime) -> int:
        return int((moment - BEGIN).total_seconds())

    bars = [f"{'' if b.state == 'phase' else b.state + ' '}{since(b.begin)}-{since(b.end)}" for b in lane.bars]
    return " ".join([lane.name, *bars, *(f"{m.sign}@{since(m.at)}" for m in lane.marks)])


@dataclass(frozen=True)
class Case:
    job: JobBuilder
    want_phases: tuple[str, ...] | None = None
    want_pods: tuple[str, ...] | None = None
    want_told: tuple[str, ...] | None = None
    pods: tuple[dict[str, Any], ...] = ()
    seen: tuple[Happening, ...] = ()
    notes: dict[str, Any] = field(default_factory=dict)


SOONER, LATER = (
    Failure(pod="digits-trainer-0", node="a", exit_code=1, reason="Error", time=at(second)) for second in (20, 30)
)
RUNS = DIGITS.status(phase="Running", start_running_time=at(5), conditions=(condition("Running", 5),))
CASES: dict[str, Case] = {
    "a job that waits for an object that its spec names": Case(
        DIGITS.status(conditions=(condition("Waiting", 1),)), ("Waiting 0-100",), ()
    ),
    "phases without an Event are known by the pods": Case(
        RUNS, ("Pending 0-2", "Creating 2-5", "Running 5-100"), pods=(pod(placed=1, started=3), pod(1, placed=2))
    ),
    "restarts are known by Events, and the phase that is now goes on": Case(
        RUNS,
        ("Pending 0-5", "Running 5-20 24-100", "Restarting 20-24"),
        seen=(said("Running", 5, 24), said("Restarting", 20)),
    ),
    "without Events the conditions tell": Case(
        DIGITS.status(
            phase="Scaling", start_running_time=at(5), conditions=(condition("Running", 5), condition("Scaling", 60))
        ),
        ("Pending 0-5", "Running 5-60", "Scaling 60-100"),
    ),
    "one that was decided shows how long its pods took to go": Case(
        DIGITS.status(
            phase="Failed",
            start_running_time=at(5),
            ending=Ending(phase="Failed", reason="R", message="m", time=at(50)),
            completion_time=at(60),
        ),
        ("Pending 0-5", "Running 5-50", "Terminating 50-60", "Failed failed@60"),
    ),
    "one that has ended says how": Case(
        RUNS,
        want_pods=("trainer-0 starts 1-4 runs 4-30 failed@30", "trainer-1 starts 0-1 runs 1-31 succeeded@31"),
        pods=(
            pod(made=1, placed=1, started=4, ended=30, phase="Failed", code=3),
            pod(1, placed=0, started=1, ended=31, phase="Succeeded"),
        ),
    ),
    "a successor that was made in the second of a failure has its own life, and its own failure": Case(
        DIGITS.status(phase="Failed", start_running_time=at(5), completion_time=at(31), failures=(LATER, SOONER)),
        want_pods=("trainer-0 starts 0-1 runs 1-20 starts 20-21 runs 21-30 failed@20 failed@30",),
        seen=(
            *gone("digits-trainer-0", "old", Scheduled=0, Started=1),
            *gone("digits-trainer-0", "new", Scheduled=20, Started=21),
        ),
    ),
    "a restart that no Event tells any more is known by its failure, and over when its pod runs": Case(
        DIGITS.status(phase="Running", start_running_time=at(5), failures=(SOONER, LATER)),
        ("Pending 0-1", "Creating 1-5", "Running 5-20 23-30 44-100", "Restarting 20-23 30-44"),
        pods=(pod(made=40, placed=41, started=44),),
        seen=(
            *gone("digits-trainer-0", "old", Scheduled=1, Started=2),
            *gone("digits-trainer-0", "new", Scheduled=21, Started=23),
            said("Running", 5, 44),
            said("Restarting", 20, 30),
        ),
    ),
    "a scaling is over when the last of its pods runs, or the last that it took has gone": Case(
        DIGITS.status(
            phase="Running",
            start_running_time=at(5),
            scale_records=(
                ScaleRecord(role="trainer", from_=1, to=2, time=at(20)),
                ScaleRecord(role="trainer", from_=2, to=1, time=at(60)),
            ),
        ),
        ("Pending 0-5", "Running 5-20 22-60 61-100", "Scaling 20-22 60-61"),
        seen=gone("digits-trainer-1", "new", Scheduled=20, Started=22, Killing=61),
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_what_is_in_it(case: Case) -> None:
    found = chart(case.job.build(), case.pods, case.seen, NOW)
    if case.want_phases is not None:
        assert tuple(map(drawn, found.phases)) == case.want_phases
    if case.want_pods is not None:
        assert tuple(map(drawn, found.pods)) == case.want_pods
    if case.want_told is not None:
        told = tuple(f"{m.sign}@{(m.at - found.begin).total_seconds():.0f} {m.about}" for m in found.incidents)
        assert told == case.want_told


def full(names: int = 3, **change: Any) -> Chart:
    job = RUNS.build()
    pods = [pod(i, made=1, placed=2, started=10, ended=50, phase="Failed", code=1) for i in range(names)]
    return replace(chart(job, pods, (), NOW), **change)


def read(drawing: str) -> ElementTree.Element:
    return ElementTree.fromstring(drawing)  # noqa: S314  our own


def test_words_of_others_are_words_in_both() -> None:
    evil = full(title=f"<script>alert(1)</script>&{EVIL}")
    drawing = svg(evil)
    read(drawing)
    assert "<script" not in drawing
    assert not OBEYED & set(drawing.replace("\n", ""))
    assert not OBEYED & set("".join(lines(evil, 80)))


def test_the_command_draws_it_in_three_ways(typed_at: TypedAt) -> None:
    typed_at.add(RUNS)
    assert "Running" in typed_at.tj("timeline", "digits").stdout
    assert re.search(r'"begin": "\d{4}-', typed_at.tj("timeline", "digits", "-o", "json").stdout)
    read(typed_at.tj("timeline", "digits", "-o", "svg").stdout)
