"""Events of a job in one shape, whichever of Kubernetes' ways they are written in: `tj events`, `tj describe`, `tj
timeline`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from tjworker.cli import happenings
from tjworker.cli.happenings import Happening

Json = dict[str, Any]
MADE = "2026-01-01T00:10:00Z"
JOB: Json = {"kind": "AITrainingJob", "metadata": {"name": "digits", "uid": "uid-of-digits", "creationTimestamp": MADE}}
ABOUT_JOB = {"kind": "AITrainingJob", "name": "digits", "uid": "uid-of-digits"}


def event(about: Json | None = None, **fields: Any) -> Json:
    at = {"firstTimestamp": "2026-01-01T00:20:00Z", "lastTimestamp": "2026-01-01T00:30:00Z"}
    metadata = {"creationTimestamp": "2026-01-01T00:20:00Z", "resourceVersion": "9"}
    return {"metadata": metadata, "involvedObject": about or ABOUT_JOB, **at, "reason": "R", "message": "m", **fields}


def of(*events: Json) -> list[Happening]:
    return happenings.of_job(events, JOB, ["trainer", "ps"])


@dataclass(frozen=True)
class Case:
    fields: Json
    want_first: str = "2026-01-01T00:20:00Z"
    want_last: str = "2026-01-01T00:30:00Z"
    want_count: int = 1


SERIES = {"count": 7, "lastObservedTime": "2026-01-01T00:45:00.000000Z"}
NO_TIMES = {"firstTimestamp": None, "lastTimestamp": None}
SHAPES: dict[str, Case] = {
    "events.k8s.io, once": Case(
        NO_TIMES | {"eventTime": "2026-01-01T00:25:00.123456Z"},
        "2026-01-01T00:25:00.123456Z",
        "2026-01-01T00:25:00.123456Z",
    ),
    "events.k8s.io, a series": Case(
        NO_TIMES | {"eventTime": "2026-01-01T00:25:00.123456Z", "series": SERIES},
        "2026-01-01T00:25:00.123456Z",
        "2026-01-01T00:45:00.000000Z",
        7,
    ),
    "a series that was written back as core/v1, whose own count and time are old": Case(
        {"count": 1, "series": SERIES}, want_last="2026-01-01T00:45:00.000000Z", want_count=7
    ),
}


@pytest.mark.parametrize("case", SHAPES.values(), ids=SHAPES.keys())
def test_every_way_to_write_an_event(case: Case) -> None:
    (found,) = of(event(**case.fields))
    assert (found.first, found.last, found.count) == (case.want_first, case.want_last, case.want_count)
    assert (found.type, found.reason, found.object, found.message) == ("Normal", "R", "aitrainingjob/digits", "m")


POD = "digits-trainer-0"
WHOSE: dict[str, tuple[Json, bool]] = {
    "the job": (ABOUT_JOB, True),
    "an earlier job of its name": ({**ABOUT_JOB, "uid": "another"}, False),
    "a pod": ({"kind": "Pod", "name": POD}, True),
    "a service": ({"kind": "Service", "name": "digits-ps-0"}, True),
    "a ReplicaSet": ({"kind": "ReplicaSet", "name": "digits-trainer"}, True),
    "a pod that a controller has named": ({"kind": "Pod", "name": "digits-trainer-x7k2p"}, True),
    "a pod of a role that it has not": ({"kind": "Pod", "name": "digits-master-0"}, False),
    "a pod of another job, whose name begins so": ({"kind": "Pod", "name": "digits-two-trainer-0"}, False),
    "a job of a name like its pod's": ({"kind": "AITrainingJob", "name": POD, "uid": "x"}, False),
}


@pytest.mark.parametrize(("about", "want"), WHOSE.values(), ids=WHOSE.keys())
def test_whose_events_are_the_jobs(about: Json, want: bool) -> None:
    assert bool(of({**event(), "involvedObject": about})) == want


SINCE: dict[str, tuple[str, bool]] = {
    "before the job was made": ("2026-01-01T00:09:59Z", False),
    "after": ("2026-01-01T00:10:01Z", True),
}


@pytest.mark.parametrize(("last", "want"), SINCE.values(), ids=SINCE.keys())
def test_what_was_said_of_an_earlier_pod_of_that_name_is_not_the_jobs(last: str, want: bool) -> None:
    pod = {"kind": "Pod", "name": POD}
    assert bool(of(event(pod, firstTimestamp="2026-01-01T00:00:00Z", lastTimestamp=last))) == want
