"""A pod that fails because somebody deletes it has not failed: kubelet reports it Failed (143) before it lets it go."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.builders import make_job
from tests.builders.cluster import FINISHED_AT, PodBuilder
from tests.unit.tjworker.reconcile.passes import World

EARLIER, LATER = "2020-01-01T00:00:00Z", "2038-01-01T00:00:00Z"


@dataclass(frozen=True)
class Case:
    deletion_asked_at: str
    want_restarted: bool
    phase: str = "Failed"
    containers: bool = True


CASES = {
    "it failed after the deletion was asked for: replaced, whatever the restart policy": Case(EARLIER, True),
    "in the same second: likewise": Case(FINISHED_AT, True),
    "it had failed before: a failure": Case(LATER, False),
    "nobody deletes it: a failure": Case("", False),
    "failed without containers (evicted): a failure": Case(EARLIER, False, containers=False),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_failed_pod_in_deletion(case: Case) -> None:
    job = make_job().role("trainer", 2, restart="Never").build()
    world = World(job).settle().all("running").settle()
    pod: PodBuilder = world.pods["digits-trainer-1"].failed(143)
    pod = pod.but(deleted_at=LATER if case.deletion_asked_at else "", deletion_asked_at=case.deletion_asked_at)
    world.pods["digits-trainer-1"] = pod if case.containers else pod.but(containers=())
    world.step()
    if not case.want_restarted:
        assert world.job.status.ending is not None
        return
    assert world.job.status.ending is None
    assert world.job.status.failures == ()
    counts = world.job.status.restart_counts["trainer"]
    assert (counts.user, counts.application) == (1, 0)
    world.pods.pop("digits-trainer-1", None)
    world.settle().all("running").settle()
    assert world.job.status.phase == "Running"
    assert world.attempts() == {"digits-trainer-0": 0, "digits-trainer-1": 1}
