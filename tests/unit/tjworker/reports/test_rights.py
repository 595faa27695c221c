"""How a job runs at the moment of a report, by which its speed is counted."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.builders import make_job
from tjworker.api.progress import Placement
from tjworker.api.status import JobStatus, ScaleRecord
from tjworker.api.timefmt import from_rfc3339
from tjworker.reports.rights import placement

Json = dict[str, Any]


def pod(role: str = "trainer", node: str = "a", phase: str = "Running", *, going: bool = False) -> Json:
    meta: Json = {"labels": {"replica-name": role}, **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if going else {})}
    return {"metadata": meta, "spec": {"nodeName": node}, "status": {"phase": phase}}


def moved(role: str, time: str) -> ScaleRecord:
    return ScaleRecord(role=role, from_=1, to=2, time=time, cause="room")


EARLY, LATE = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
RUNS: dict[str, tuple[list[Json], tuple[ScaleRecord, ...], Placement]] = {
    "two replicas on two nodes": ([pod(), pod(node="b")], (), Placement(2, 2, settled=True)),
    "two replicas on one node": ([pod(), pod()], (), Placement(2, 1, settled=True)),
    "one of them is being deleted": ([pod(), pod(going=True)], (), Placement(1, 1, settled=False)),
    "one of them waits": ([pod(), pod(phase="Pending", node="")], (), Placement(1, 1, settled=False)),
    "there are servers beside them": ([pod(), pod(), pod("ps", "c")], (), Placement(2, 1, settled=True)),
    "it was moved, and a role beside it since": (
        [pod(), pod()],
        (moved("ps", LATE), moved("trainer", EARLY)),
        Placement(2, 1, settled=True, moved_at=from_rfc3339(EARLY)),
    ),
    "it was moved twice": (
        [pod(), pod()],
        (moved("trainer", LATE), moved("trainer", EARLY)),
        Placement(2, 1, settled=True, moved_at=from_rfc3339(LATE)),
    ),
}


@pytest.mark.parametrize("sentence", RUNS)
def test_how_the_elastic_role_runs(sentence: str) -> None:
    pods, records, want = RUNS[sentence]
    status = JobStatus(phase="Running", scale_records=records)
    job = make_job("digits").role("trainer", 2, least=1, most=4).role("ps", 1).status(status).build()
    assert placement(job, pods, pods[0]) == want
