"""The one status write of a pass: absent while nothing changes, small for the largest job, readable afterwards."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import orjson
import pytest

from tests.support.builders import PodBuilder, make_job, make_pod, observe
from tests.unit.tjworker.reconcile.passes import NOW, RULES, after, ago, decide, everything, status_of
from tjworker.api.model import TrainingJob
from tjworker.api.status import Attempts, JobStatus, ReplicaStatus, RestartCounts, RoleAttempts
from tjworker.api.timefmt import to_rfc3339
from tjworker.reconcile.outcome import gather_seconds

QUIET: dict[str, tuple[str, Callable[[PodBuilder], PodBuilder], Callable[[PodBuilder], PodBuilder]]] = {
    "Pending, while the scheduler counts other nodes": (
        "",
        lambda p: p.unschedulable("0/41 nodes are available: 41 Insufficient cpu."),
        lambda p: p.unschedulable("0/43 nodes are available: 43 Insufficient cpu."),
    ),
    "Creating, while nothing happens": ("", lambda p: p.creating(), lambda p: p.creating()),
    "Creating, while the image is pulled in vain": (
        "",
        lambda p: p.creating("ImagePullBackOff", "Back-off 10s"),
        lambda p: p.creating("ImagePullBackOff", "Back-off 20s"),
    ),
    "Restarting, while the scheduler counts other nodes": (
        "Restarting",
        lambda p: p.unschedulable("0/41 nodes are available: 41 Insufficient cpu."),
        lambda p: p.unschedulable("0/43 nodes are available: 43 Insufficient cpu."),
    ),
}


@pytest.mark.parametrize("case", QUIET.values(), ids=QUIET.keys())
def test_a_job_that_waits_is_written_no_times(case: Any) -> None:
    phase, before, after = case
    job = make_job().role("trainer", 2).status(phase=phase, start_time=ago(900)).build()

    def pods(change: Callable[[PodBuilder], PodBuilder]) -> Any:
        return everything(job, make_pod(job, "trainer", 0).running(), change(make_pod(job, "trainer", 1)))

    first = decide(job, pods(before))
    waiting = make_job().role("trainer", 2).status(first.status or job.status).build()
    assert decide(waiting, pods(before), now=NOW + 5).status is None
    assert decide(waiting, pods(after), now=NOW + 60).status is None
    other = decide(
        waiting,
        everything(
            job, make_pod(job, "trainer", 0).running(), make_pod(job, "trainer", 1).unschedulable("no such GPU")
        ),
        now=NOW + 60,
    )
    assert "no such GPU" in status_of(other).message


def big(replicas: int = 10_000, **role: Any) -> TrainingJob:
    base = make_job("a-name-of-some-length").role("trainer", replicas, **role)
    return base.status(phase="Running", start_time=ago(90000)).build()


BIG: dict[str, tuple[dict[str, Any], Callable[[PodBuilder, int], PodBuilder]]] = {
    "every pod restarts by itself": ({"restart": "OnFailure", "scope": "Pod"}, lambda p, i: p.failed()),
    "every second pod has failed for good": ({"fail": "None"}, lambda p, i: p.failed() if i % 2 else p.running()),
    "every second pod has succeeded": ({}, lambda p, i: p.succeeded() if i % 2 else p.running()),
    "no image can be pulled": ({}, lambda p, i: p.creating("ImagePullBackOff").but(created_at=ago(2000 + i // 100))),
    "nothing has a node": ({}, lambda p, i: p.unschedulable()),
}


@pytest.mark.long  # each takes a second; the size of the biggest status: api/test_status_size.py
@pytest.mark.parametrize("case", BIG.values(), ids=BIG.keys())
def test_a_pass_over_10_000_replicas_takes_seconds_and_its_status_stays_far_below_a_mebibyte(case: Any) -> None:
    """Half of what etcd takes for an object; and a pass that ran into the soft time limit would never come to its
    end."""
    role, change = case
    job = big(**role)
    seen = observe(*(change(make_pod(job, "trainer", i).on("node-a"), i) for i in range(10_000)))
    began = time.process_time()
    plan = decide(job, seen)
    assert time.process_time() - began < 40  # 1 s on a usual machine
    assert len(orjson.dumps(status_of(plan).to_json())) < 256 * 1024
    assert len(plan.writes) <= RULES.writes_per_pass


LAST = to_rfc3339(NOW)
RAN = JobStatus(phase="Creating", last_reconcile_time=LAST, attempts=Attempts(roles={"trainer": RoleAttempts(ran="0")}))
GATHERS: dict[str, tuple[JobStatus, JobStatus | None, float, float]] = {
    "one more runs": (RAN, RAN.model_copy(update={"active": "2/4", "replicas": 4, "message": "2/4"}), 0.25, 0.75),
    "and which": (
        RAN.model_copy(update={"attempts": Attempts()}),
        RAN.model_copy(update={"replica_statuses": {"trainer": ReplicaStatus(active=1)}}),
        0.25,
        0.75,
    ),
    "a second after the last write it is told": (RAN, RAN.model_copy(update={"active": "2/4"}), 1, 0),
    "after the write of a clock that runs ahead, too": (RAN, RAN.model_copy(update={"active": "2/4"}), -5, 0),
    "the first status is told": (JobStatus(), RAN.model_copy(update={"attempts": Attempts()}), 0, 0),
    "a phase is told": (RAN, RAN.model_copy(update={"phase": "Running"}), 0, 0),
    "a restart is told": (RAN, RAN.model_copy(update={"restart_counts": {"trainer": RestartCounts(user=1)}}), 0, 0),
    "nothing to tell": (RAN, None, 0, 0),
}


@pytest.mark.parametrize(("old", "new", "later", "want"), GATHERS.values(), ids=GATHERS.keys())
def test_numbers_alone_gather_for_up_to_a_second(
    old: JobStatus, new: JobStatus | None, later: float, want: float
) -> None:
    assert max(0.0, gather_seconds(old, new, {}, NOW + later)) == want


AFTER = to_rfc3339(NOW + 1)
TOLD: dict[str, tuple[Callable[[PodBuilder], PodBuilder], dict[str, Any], float, bool]] = {
    "one has succeeded just now": (lambda p: p, {}, 0.4, False),
    "a second later it is told": (lambda p: p, {}, 1.0, True),
    "at once after a node's clock that runs ahead": (lambda p: p, {}, -5.0, True),
    "at once, as its pod is going": (lambda p: p.deleting(AFTER, AFTER), {}, 0.4, True),
    "at once, as nothing holds its pod": (lambda p: p.but(uncounted=False), {}, 0.4, True),
    "at once, as it completes its role": (lambda p: p, {"complete": "Any"}, 0.4, True),
    "at once, as another has failed": (lambda p: p, {"fail": "None", "failed": True}, 0.4, True),
}


@pytest.mark.parametrize("case", TOLD.values(), ids=TOLD.keys())
def test_a_success_whose_pod_is_held_may_gather_for_a_second_and_no_other(case: Any) -> None:
    change, role, later, want = case
    failed = role.pop("failed", False)
    job = make_job().role("trainer", 4, **role).build()
    pods = [make_pod(job, "trainer", i).running() for i in range(4)]
    job = after(job, decide(job, everything(job, *pods), now=NOW - 60))
    pods[1] = change(ended(pods[1].succeeded()).but(uncounted=True))
    pods[2] = ended(pods[2].failed()) if failed else pods[2]
    plan = decide(job, everything(job, *pods), now=NOW + later)
    assert (plan.status is not None) == want
    if plan.status is None:
        assert plan.requeue_after_seconds == pytest.approx(1 - later)
    else:
        assert plan.status.attempts.roles["trainer"].completed == "1"


def ended(pod: PodBuilder) -> PodBuilder:
    containers = tuple(replace(c, finished_at=int(NOW)) for c in pod.build().containers)
    return pod.but(containers=containers)
