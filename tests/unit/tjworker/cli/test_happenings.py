"""Which events are those of a job: `tj events`, `tj describe`, `tj timeline`."""

from __future__ import annotations

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
