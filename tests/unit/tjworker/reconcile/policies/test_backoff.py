"""A replica that crashes again and again rests between its attempts."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from tests.support.builders import PodBuilder, make_job, make_pod
from tests.unit.tjworker.reconcile.passes import NOW, decide, deleted, everything
from tjworker.api.model import TrainingJob
from tjworker.api.status import Attempts, ReplicaStatus, RoleAttempts
from tjworker.api.timefmt import to_rfc3339


@dataclass
class Crash:
    attempt: int
    ended_seconds_ago: float
    want_deleted: bool
    want_next_seconds: float | None = None
    ran_seconds: float = 1


CRASHES = {
    "the first failure is replaced at once": Crash(0, 0, True),
    "the second too": Crash(1, 0, True),
    "the third rests for 10 s": Crash(2, 0, False, 10),
    "after that it is replaced": Crash(2, 10, True),
    "the fourth for 20 s": Crash(3, 5, False, 15),
    "the rest grows to 5 minutes and no further": Crash(40, 0, False, 300),
    "a pod that ran for 10 minutes begins anew": Crash(7, 0, True, ran_seconds=600),
}


def crashed(job: TrainingJob, case: Crash) -> PodBuilder:
    pod = make_pod(job, "trainer", 0, attempt=case.attempt).failed(exit_code=3)
    ended = NOW - case.ended_seconds_ago
    containers = tuple(replace(c, finished_at=to_rfc3339(ended)) for c in pod.record.containers)
    return pod.but(containers=containers, started_at=to_rfc3339(ended - case.ran_seconds))


def looping(attempt: int) -> TrainingJob:
    attempts = Attempts(roles={"trainer": RoleAttempts(pods={"0": attempt} if attempt else {})})
    job = make_job().role("trainer", 1, restart="OnFailure", scope="Pod")
    return job.status(
        phase="Running",
        start_time="2026-01-01T00:00:00Z",
        attempts=attempts,
        replica_statuses={"trainer": ReplicaStatus(desired=1, active=1)},
    ).build()


@pytest.mark.parametrize("case", CRASHES.values(), ids=CRASHES.keys())
def test_how_long_it_rests(case: Crash) -> None:
    job = looping(case.attempt)
    plan = decide(job, everything(job, crashed(job, case)))
    assert (deleted(plan) == ["digits-trainer-0"]) is case.want_deleted
    assert plan.requeue_after_seconds == case.want_next_seconds
    assert plan.status is not None
    assert plan.status.phase == "Restarting"


def test_an_evicted_pod_is_replaced_at_once_however_often() -> None:
    job = looping(7)
    plan = decide(job, everything(job, make_pod(job, "trainer", 0, attempt=7).evicted()))
    assert deleted(plan) == ["digits-trainer-0"]
