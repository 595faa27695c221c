"""Trainers that the operator makes in the name of their batch Job, while its controller waits."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tests.unit.tjworker.reconcile.managed import body, made_pod, observed_of, owner, patches, plain, tolerant
from tests.unit.tjworker.reconcile.passes import NOW, after, created, decide
from tjworker.api.model import TrainingJob
from tjworker.api.observed import Observed, PodRecord
from tjworker.api.status import Attempts, JobStatus, RoleAttempts
from tjworker.reconcile.plan import Create

COUNTED_SINCE = "elasticdeeplearning.ai/counted-since"


def lost(*indices: int, attempts: int = 1, completed: str = "") -> JobStatus:
    """Trainers of these slots have been lost, each so often."""
    role = RoleAttempts(pods={str(i): attempts for i in indices}, completed=completed)
    return JobStatus(phase="Restarting", attempts=Attempts(roles={"trainer": role}))


def failed(index: int, attempt: int = 0, *, ended_seconds_ago: float = 0.0, ran_seconds: float = 60.0) -> PodRecord:
    """A trainer that has exited with 3."""
    pod = made_pod(f"t{index}-{attempt}", index, attempt, state="failed")
    ended = NOW - ended_seconds_ago
    began = int(ended - ran_seconds)
    main = replace(pod.containers[0], finished_at=int(ended), started_at=began)
    return replace(pod, created_at=began, started_at=began, containers=(main,))


def looks(job: TrainingJob, pods: list[PodRecord], **of_owner: Any) -> Observed:
    """`counted_since`: seconds ago."""
    since = of_owner.pop("counted_since", 3600)
    labels = {COUNTED_SINCE: str(int(NOW - since))}
    return replace(observed_of(job, pods), jobs=(owner(job, "trainer", labels=labels, **of_owner),))


@dataclass(frozen=True)
class Case:
    """Three trainers are wanted; a fault-tolerant, elastic job unless it says otherwise."""

    pods: list[PodRecord]
    want: list[str]
    active: int = 2
    """What the batch Job tells of itself."""
    status: JobStatus = field(default_factory=lambda: lost(1))
    owner: dict[str, Any] = field(default_factory=dict)
    want_wait: float | None = None
    """Until the job is looked at again, where a replacement is to come."""
    job: TrainingJob | None = None


TWO = [made_pod("t0", 0), made_pod("t2", 2)]
FIRST, SECOND = "digits-trainer-1-1", "digits-trainer-1-2"
LONG_AGO = int(NOW - 3600)
CASES: dict[str, Case] = {
    "a trainer that was lost is made at once": Case(TWO, [FIRST]),
    "one that is being deleted holds no place": Case(
        [*TWO, made_pod("t1", 1, state="deleting")],
        [FIRST],
        want_wait=10,  # for a deletion that does not come to its end
    ),
    "one that was evicted holds none": Case([*TWO, made_pod("t1", 1, state="evicted")], [FIRST]),
    "all that were lost are made together": Case([], [f"digits-trainer-{i}-1" for i in range(3)], 0, lost(0, 1, 2)),
    "under a longer name, where a pod that has taken another slot lives under its own": Case(
        [made_pod(FIRST, 0), TWO[1]], [f"{FIRST}-3061b"]
    ),
    "or has ended under it": Case([*TWO, made_pod(FIRST, 0, state="failed")], [f"{FIRST}-3061b"]),
    "none while the Job still counts the one that is gone": Case(TWO, [], active=3),
    "none while pods of the Job are not seen yet": Case([], [], active=2, status=lost(0, 1, 2)),
    "none where the controller has made one already": Case([*TWO, made_pod("new", state="pending")], [], active=3),
    "none for a Job that wants fewer yet: it is told first": Case(TWO, [], owner={"desired": 2}, want_wait=3),
    "none for a Job that is being deleted": Case(TWO, [], owner={"deleted_at": LONG_AGO}),
    "none when a trainer has found the queue empty": Case(
        TWO[:1], [], status=lost(1, completed="2"), owner={"succeeded": 1}, active=1
    ),
    "a success of the Job that nobody has seen stops none": Case(TWO, [FIRST], owner={"succeeded": 1}),
    "nor one of a trainer that was asked to go": Case(
        [*TWO, made_pod("t1", 1, state="stopped")], [FIRST], owner={"succeeded": 1}
    ),
    "nor while the Job has not told of it": Case([*TWO, made_pod("t1", 1, state="stopped")], [FIRST]),
    "none when that is seen of its pod alone": Case([TWO[0], made_pod("t2", 2, state="succeeded")], [], active=1),
    "where each trainer has its own share, a success stops none": Case(
        [TWO[0], made_pod("t2", 2, state="succeeded")],
        [FIRST],
        active=1,
        owner={"succeeded": 1},
        job=plain(3, status=lost(1)),
    ),
    "after a change of the count the controller goes first": Case(TWO, [], owner={"counted_since": 0}, want_wait=2),
    "one that failed by itself rests for as long as the controller makes it wait": Case(
        [*TWO, failed(1, ended_seconds_ago=5)], [], want_wait=7
    ),
    "and is made then": Case([*TWO, failed(1, ended_seconds_ago=12)], [FIRST]),
    "it rests longer after each failure": Case(
        [*TWO, failed(1), failed(1, 1, ended_seconds_ago=12)], [], status=lost(1, attempts=2), want_wait=10
    ),
    "one that ran for ten minutes begins anew": Case(
        [*TWO, failed(1), failed(1, 1, ran_seconds=600)], [], status=lost(1, attempts=2), want_wait=2
    ),
    "a failure before a deletion gives the deleted one no rest": Case(
        [*TWO, failed(1)], [SECOND], status=lost(1, attempts=2)
    ),
    "one that was never there is the controller's to make": Case(TWO, [], status=JobStatus(phase="Creating")),
    "unless it has counted failures, and has made none for three seconds": Case(
        TWO, [FIRST[:-1] + "0"], status=JobStatus(phase="Scaling"), owner={"failed": 1}
    ),
    "or has counted a success that was none, after which it makes no more": Case(
        TWO, [FIRST[:-1] + "0"], status=JobStatus(phase="Scaling"), owner={"succeeded": 1}
    ),
    "while it makes pods, it is left to": Case(
        [TWO[0], replace(TWO[1], created_at=int(NOW - 1))],
        [],
        status=JobStatus(phase="Scaling"),
        owner={"failed": 1},
        want_wait=2,
    ),
    "one whose pod has taken the place of a trainer that failed rests for that": Case(
        [made_pod("t0", 0, 1), TWO[1], failed(0, ended_seconds_ago=5)],
        [],
        status=lost(0),
        owner={"failed": 1},
        want_wait=7,
    ),
    "pods of ours are not its work, whichever slot they have": Case(
        [TWO[0], replace(TWO[1], name="digits-trainer-7-0", created_at=int(NOW - 1))],
        [FIRST[:-1] + "0"],
        status=JobStatus(phase="Scaling"),
        owner={"failed": 1},
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_which_trainers_the_operator_makes(case: Case) -> None:
    job = case.job or tolerant(3, case.status)
    plan = decide(job, looks(job, case.pods, active=case.active, **case.owner))
    assert created(plan) == case.want
    assert plan.requeue_after_seconds == case.want_wait


def test_a_replacement_is_as_its_controller_would_make_it_and_has_its_ordinal() -> None:
    job = tolerant(3, lost(1))
    plan = decide(job, looks(job, TWO, active=2))
    made = body(plan, FIRST)
    template = body(decide(tolerant(3)), "digits-trainer")["spec"]["template"]
    assert made["spec"] == template["spec"]
    metadata = made["metadata"]
    assert metadata["labels"] == template["metadata"]["labels"] | {
        "replica-index": "1",
        "restart-attempt": "1",
        "default/digits-trainer-idx": "1",
    }
    assert metadata["finalizers"] == ["batch.kubernetes.io/job-tracking"]
    assert metadata["ownerReferences"] == [
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": "digits-trainer",
            "uid": "uid-of-digits-trainer",
            "controller": True,
        }
    ]


def test_a_pass_that_was_cut_off_makes_the_same_pod_again() -> None:
    """Then the API server answers 409, which is as good as made."""
    job = tolerant(3, lost(1))
    seen = looks(job, TWO, active=2)
    first = decide(job, seen)
    second = decide(after(job, first), seen)
    made = [[w for w in plan.writes if isinstance(w, Create)] for plan in (first, second)]
    assert made[0] == made[1] != []


@dataclass(frozen=True)
class Going:
    pod: PodRecord
    want: bool
    """It loses its finalizer, so that its Job counts it as nothing."""


def held(state: str, **fields: Any) -> PodRecord:
    return replace(made_pod("t1", 1, state=state), **{"uncounted": True, **fields})


GOING: dict[str, Going] = {
    "it is asked to go": Going(held("deleting"), True),
    "it was, and has exited with 0": Going(held("stopped"), True),
    "and its attempt is over": Going(replace(held("stopped"), labels=made_pod("t1", 1).labels), True),
    "it had succeeded before": Going(held("succeeded", deleted_at=LONG_AGO, deletion_asked_at=int(NOW)), False),
    "it runs": Going(held("running"), False),
    "it has failed": Going(held("failed"), False),
    "its Job has counted it, or another finalizer holds it, too": Going(held("deleting", uncounted=False), False),
    "it is of an earlier Job of that name": Going(held("deleting", owner_uid="another"), False),
}


@pytest.mark.parametrize("case", GOING.values(), ids=GOING.keys())
def test_a_trainer_that_is_asked_to_go_counts_as_nothing(case: Going) -> None:
    job = tolerant(3)
    plan = decide(job, looks(job, [*TWO, case.pod], active=3))
    seen = {"uid": "uid-of-t1", "resourceVersion": "200"}
    want = {"t1": {"metadata": {**seen, "finalizers": None}}} if case.want else {}
    assert {n: b for n, b in patches(plan).items() if "finalizers" in b["metadata"]} == want
