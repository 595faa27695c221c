"""A pod that fails because it is deleted has not failed: kubelet reports it Failed (143) before it lets it go."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.builders import make_job, make_pod
from tests.support.builders.cluster import FINISHED_AT, PodBuilder
from tests.support.builders.job import JobBuilder
from tests.unit.tjworker.reconcile.passes import World, decide, everything, whys
from tjworker.api.observed import ContainerRecord

EARLIER, LATER = "2020-01-01T00:00:00Z", "2038-01-01T00:00:00Z"


@dataclass(frozen=True)
class Case:
    deletion_asked_at: str
    want_restarted: bool
    phase: str = "Failed"
    containers: bool = True
    node: str = "node-a"
    waiting: bool = False
    """Its container never ran."""
    reason: str = ""


CASES = {
    "it failed after the deletion was asked for: replaced, whatever the restart policy": Case(EARLIER, True),
    "it had failed before, for no grace was granted: a failure": Case(LATER, False),
    "it is not being deleted: a failure": Case("", False),
    "failed without containers (evicted) before: a failure": Case(LATER, False, containers=False),
    "told to go before a container had started: replaced": Case(EARLIER, True, containers=False),
    "none of its containers had run, so it was granted no grace: replaced": Case(LATER, True, waiting=True),
    "nor of one that its node has turned away: a failure": Case(LATER, False, waiting=True, reason="Evicted"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_failed_pod_in_deletion(case: Case) -> None:
    job = make_job().role("trainer", 2, restart="Never").build()
    world = World(job).settle().all("running").settle()
    pod: PodBuilder = world.pods["digits-trainer-1"].failed(143)
    pod = pod.deleting(LATER if case.deletion_asked_at else "", case.deletion_asked_at)
    pod = pod.but(node=case.node, reason=case.reason)
    pod = pod.but(containers=(ContainerRecord("aitj-train"),)) if case.waiting else pod
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


@dataclass(frozen=True)
class Prompt:
    asked_at: str
    deleted_at: str
    want_success: bool
    seen_going: bool = False


BEFORE, AFTER = "2026-01-01T00:09:59Z", "2026-01-01T00:10:01Z"
PROMPT = {
    "its node's clock is right": Prompt(FINISHED_AT, "2026-01-01T00:10:30Z", False),
    "its node's clock is ten minutes behind": Prompt("2026-01-01T00:20:00Z", "2026-01-01T00:20:30Z", False),
    "it had succeeded before, and a finalizer holds it: the API server grants no grace": Prompt(AFTER, AFTER, True),
    "a finalizer holds it, and its kubelet has confirmed the deletion": Prompt(BEFORE, BEFORE, False),
    "its kubelet has confirmed the deletion in the second in which it was asked for": Prompt(
        FINISHED_AT, FINISHED_AT, False
    ),
    "its kubelet has confirmed the deletion a second later": Prompt(AFTER, AFTER, False, seen_going=True),
}


@pytest.mark.parametrize("case", PROMPT.values(), ids=PROMPT.keys())
def test_a_pod_that_a_user_deletes_and_that_exits_with_0_at_once_has_not_succeeded(case: Prompt) -> None:
    world = World(make_job().role("trainer", 1, restart="Never").build()).settle().all("running").settle()
    ended = world.pods["digits-trainer-0"].succeeded()
    ended = ended.deleting(case.deleted_at, case.asked_at)
    world.pods["digits-trainer-0"] = ended.but(was_told_to_go=True) if case.seen_going else ended
    world.step()
    status = world.job.status
    assert (status.ending is not None and status.ending.phase == "Succeed") is case.want_success
    assert (status.restart_counts["trainer"].user if status.restart_counts else 0) == (not case.want_success)


def _running(job: Any, *names: int) -> Any:
    return everything(job, *(make_pod(job, "trainer", n).running() for n in names))


@dataclass(frozen=True, slots=True)
class Goes:
    job: JobBuilder
    observed: Callable[[Any], Any]
    want: dict[str, str]


GOES = {
    "scaled down": Goes(
        make_job().role("trainer", 1),
        lambda j: _running(make_job().role("trainer", 2).build(), 0, 1),
        dict.fromkeys(("pods/digits-trainer-1", "services/digits-trainer-1"), "index is not below replicas 1"),
    ),
    "replaced": Goes(
        make_job().role("trainer", 1, restart="Always", scope="Pod"),
        lambda j: everything(j, make_pod(j, "trainer", 0).failed()),
        {"pods/digits-trainer-0": "attempt 1 replaces it"},
    ),
    "suspended": Goes(
        make_job().role("trainer", 1).suspended(),
        lambda j: _running(j, 0),
        {"pods/digits-trainer-0": "the job is suspended", "services/digits-trainer-0": "the job is suspended"},
    ),
    "of a role that is gone": Goes(
        make_job().role("ps", 1),
        lambda j: _running(make_job().role("trainer", 1).build(), 0),
        dict.fromkeys(("pods/digits-trainer-0", "services/digits-trainer-0"), "its role is not in the spec"),
    ),
}


@pytest.mark.parametrize("case", GOES.values(), ids=GOES.keys())
def test_every_delete_says_why(case: Goes) -> None:
    job = case.job.build()
    assert whys(decide(job, case.observed(job))) == case.want
