"""What a role has had so far, as policies are told it: its own moves, and the replica-seconds that these come to."""

from __future__ import annotations

import pytest

from tests.support.autoscaling import NOW
from tests.support.builders import make_job, make_node
from tjworker.api.status import JobStatus, ScaleRecord
from tjworker.api.timefmt import to_rfc3339
from tjworker.autoscale import AutoscaleRules
from tjworker.autoscale.decide import pose
from tjworker.autoscale.state import JobState


def moved(role: str, from_: int, to: int, seconds_ago: float) -> ScaleRecord:
    return ScaleRecord(role=role, from_=from_, to=to, time=to_rfc3339(NOW - seconds_ago), cause="room")


SERVICE: dict[str, tuple[float | None, tuple[ScaleRecord, ...], float]] = {
    # (seconds since all ran for the first time, its records, replica-seconds of the role `trainer`, which has 4 now)
    "it has not run yet": (None, (), 0),
    "it was never moved": (100, (), 400),
    "it grew": (100, (moved("trainer", 1, 4, 40),), 60 * 1 + 40 * 4),
    "it grew and shrank": (100, (moved("trainer", 6, 4, 10), moved("trainer", 1, 6, 40)), 60 * 1 + 30 * 6 + 10 * 4),
    "it was moved before all ran": (100, (moved("trainer", 1, 4, 400),), 400),
    "another role of its job was moved": (100, (moved("ps", 1, 2, 40),), 400),
    "both were, one after the other": (100, (moved("ps", 9, 2, 10), moved("trainer", 1, 4, 40)), 60 * 1 + 40 * 4),
}


@pytest.mark.parametrize("sentence", SERVICE)
def test_the_service_of_a_role_is_that_of_its_own_replicas(sentence: str) -> None:
    ran, records, want = SERVICE[sentence]
    since = None if ran is None else to_rfc3339(NOW - ran)
    status = JobStatus(phase="Running", start_running_time=since, scale_records=records)
    job = (
        make_job("digits").role("trainer", 4, least=1, most=10, edl="Auto").role("ps", 2, least=1, most=10, edl="Auto")
    )
    posed = pose([JobState(job.status(status).build())], {"a": make_node("a").build()}, {}, NOW, AutoscaleRules())
    found = {role.id.role: role for role in posed.problem.roles}
    assert found["trainer"].service == want
    assert [(move.from_, move.to) for move in found["trainer"].moves] == [
        (record.from_, record.to) for record in records if record.role == "trainer"
    ]
