"""Replica slots: ordinals of pods that a ReplicaSet or a batch Job makes. Each case is one look."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from tests.unit.tjworker.reconcile.managed import made_pod, observed_of, tolerant
from tjworker.api.observed import PodRecord
from tjworker.api.ownership import own_pods
from tjworker.api.status import Attempts, JobStatus, Phase, RoleAttempts
from tjworker.reconcile.replicas import RoleView
from tjworker.reconcile.views import view_roles


def look(
    pods: list[PodRecord],
    *,
    replicas: int = 2,
    attempts: RoleAttempts | None = None,
    condition: str = "",
    phase: Phase = "Running",
) -> RoleView:
    job = tolerant(replicas)
    status = JobStatus(phase=phase, attempts=Attempts(roles={"trainer": attempts or RoleAttempts()}))
    observed = observed_of(job, pods, condition=condition)
    return view_roles(job, observed, own_pods(job, observed), status)["trainer"]


@dataclass(frozen=True)
class Case:
    pods: list[PodRecord]
    want: dict[int, tuple[str, str]]
    """Slot -> (state, pod)."""
    want_surplus: list[str] = field(default_factory=list)
    want_others: list[str] = field(default_factory=list)
    attempts: RoleAttempts = field(default_factory=RoleAttempts)
    replicas: int = 2
    condition: str = ""
    phase: Phase = "Running"


def pod(name: str, ordinal: int | None = None, attempt: int = 0, *, state: str = "running") -> PodRecord:
    return made_pod(name, ordinal, attempt, state=state)


NOBODY = "digits-trainer-"
CASES: dict[str, Case] = {
    "pods without ordinals take the free slots, oldest first": Case(
        [pod("b"), pod("a")], {0: ("running", "a"), 1: ("running", "b")}
    ),
    "a pod keeps the slot of its ordinal": Case([pod("a", 1), pod("b", 0)], {0: ("running", "b"), 1: ("running", "a")}),
    "one that runs goes before one that waits for a node": Case(
        [pod("a", state="pending"), pod("b")], {0: ("running", "b"), 1: ("pending", "a")}
    ),
    "of two with one ordinal the older attempt moves": Case(
        [pod("a", 0, 0), pod("b", 0, 1)],
        {0: ("running", "b"), 1: ("running", "a")},
        attempts=RoleAttempts(pods={"0": 1}),
    ),
    "after scaling down, one whose ordinal is too high moves to a free slot": Case(
        [pod("a", 0), pod("c", 4)], {0: ("running", "a"), 1: ("running", "c")}
    ),
    "and is not counted as the death of the one that it follows": Case(
        [pod("a", 0, state="deleting"), pod("b", 1), pod("c", 2)],
        {0: ("running", "c"), 1: ("running", "b")},
        want_others=["a"],
    ),
    "more that live than slots are surplus": Case(
        [pod("a", 0), pod("b", 1), pod("c", 2)], {0: ("running", "a"), 1: ("running", "b")}, want_surplus=["c"]
    ),
    "a pod that failed on its slot holds it until that is counted": Case(
        [pod("a", 0, state="failed"), pod("b"), pod("c", 1)],
        {0: ("failed", "a"), 1: ("running", "c")},
        want_surplus=["b"],
    ),
    "and gives it up then": Case(
        [pod("a", 0, state="failed"), pod("b"), pod("c", 1)],
        {0: ("running", "b"), 1: ("running", "c")},
        want_others=["a"],
        attempts=RoleAttempts(pods={"0": 1}),
    ),
    "a pod that ended before it got an ordinal is given one first": Case(
        [pod("a", state="failed"), pod("c", 1)], {0: ("running", "a"), 1: ("running", "c")}
    ),
    "and makes no job run that did not": Case(
        [pod("a", state="failed"), pod("c", 1)], {0: ("scheduled", "a"), 1: ("running", "c")}, phase="Restarting"
    ),
    "a deleted pod holds its slot until that is counted": Case(
        [pod("a", 0, state="deleting"), pod("b"), pod("c", 1)],
        {0: ("terminating", "a"), 1: ("running", "c")},
        want_surplus=["b"],
    ),
    "a pod that was deleted and then exits with 0 has not succeeded": Case(
        [pod("a", 0, state="stopped"), pod("c", 1)], {0: ("terminating", "a"), 1: ("running", "c")}
    ),
    "one of an older attempt that lives is outdated": Case(
        [pod("a", 0), pod("c", 1, 3)], {0: ("outdated", "a"), 1: ("running", "c")}, attempts=RoleAttempts(all=3)
    ),
    "what has succeeded stays so without its pod": Case(
        [pod("c", 1)], {0: ("succeeded", NOBODY + "0"), 1: ("running", "c")}, attempts=RoleAttempts(completed="0")
    ),
    "a Job that is Complete has no slot left open, however its pods ended": Case(
        [pod("a", 0, state="succeeded"), pod("b", 1, state="failed")],
        {0: ("succeeded", "a"), 1: ("succeeded", "b")},
        condition="Complete",
    ),
    "a Job that has failed has failed on every slot": Case(
        [pod("a", 0)], {0: ("failed", "a"), 1: ("failed", NOBODY + "1")}, condition="Failed"
    ),
    "a pod of a stranger's Job with our labels holds no slot": Case(
        [made_pod("a", 0, owner_uid="uid-of-a-stranger")], {0: ("missing", NOBODY + "0"), 1: ("missing", NOBODY + "1")}
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
@pytest.mark.parametrize("turned", [False, True], ids=["", "in the other order"])
def test_which_pod_has_which_slot(case: Case, turned: bool) -> None:
    pods = case.pods[::-1] if turned else case.pods
    view = look(pods, replicas=case.replicas, attempts=case.attempts, condition=case.condition, phase=case.phase)
    assert {r.index: (r.state, r.name) for r in view.replicas} == case.want
    assert sorted(p.name for p in view.surplus) == case.want_surplus
    assert sorted(p.name for p in view.others) == case.want_others
