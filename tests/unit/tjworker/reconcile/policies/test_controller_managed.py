"""What the death of a pod means where a ReplicaSet or a batch Job replaces it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from tests.support.builders import make_node
from tests.support.paths import ROOT
from tests.unit.tjworker.reconcile.managed import causes, made_pod, observed_of, plain, running, tolerant, trainers
from tests.unit.tjworker.reconcile.passes import NOW, after, created, decide, status_of
from tjworker.api.model import TrainingJob
from tjworker.api.observed import Observed, PodRecord
from tjworker.api.resources import NODES
from tjworker.api.timefmt import from_rfc3339, to_rfc3339

SICK = make_node("node-b").not_ready(to_rfc3339(NOW - 60), "False", "KubeletNotReady").build()


# -- deaths ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Death:
    states: tuple[str, str]
    """How trainers 0 and 1 stand now; both ran before. '' for one that is gone without a trace."""
    want_tolerant: dict[str, int]
    """Restarts by cause."""
    want_plain: dict[str, int] | None
    """None: the job ends."""
    want_tolerant_ends: bool = False


DEATHS: dict[str, Death] = {
    "one fails": Death(("failed", "running"), {"application": 1}, None),
    "one is evicted": Death(("evicted", "running"), {"node": 1}, None),
    "one is preempted by the scheduler": Death(("preempted", "running"), {"preemption": 1}, None),
    "one is lost with its node": Death(("lost", "running"), {"node": 1}, None),
    "one is deleted by a user": Death(("deleting", "running"), {"user": 1}, {"user": 1}),
    "one is deleted and exits with 0": Death(("stopped", "running"), {"user": 1}, {"user": 1}),
    "one vanishes": Death(("", "running"), {"user": 1}, {"user": 1}),
    "one fails and one is deleted": Death(("failed", "deleting"), {"application": 1, "user": 1}, None),
    "one fails and one is evicted": Death(("failed", "evicted"), {"application": 1, "node": 1}, None),
    "both are evicted": Death(("evicted", "evicted"), {"node": 2}, None),
    "both are lost with their node": Death(("lost", "lost"), {"node": 2}, None),
    "both are preempted by the scheduler": Death(("preempted", "preempted"), {"preemption": 2}, None),
    "both fail": Death(("failed", "failed"), {}, None, want_tolerant_ends=True),
    "both are deleted": Death(("deleting", "deleting"), {"user": 2}, {"user": 2}),
    "one succeeds and one fails": Death(("succeeded", "failed"), {"application": 1}, None),
}


def struck(job: TrainingJob, death: Death) -> Observed:
    pods = [made_pod(f"t{i}", i, state=s) for i, s in enumerate(death.states) if s]
    seen = observed_of(job, pods, active=len(death.states))  # its controller has not seen it yet
    return replace(seen, nodes={**seen.nodes, "node-b": SICK}, seen={NODES: 1})


@pytest.mark.parametrize("death", DEATHS.values(), ids=DEATHS.keys())
def test_a_death_in_a_fault_tolerant_job(death: Death) -> None:
    job = running(tolerant(2), *trainers())
    seen = struck(job, death)
    plan = decide(job, seen)
    status = status_of(plan)
    assert (status.ending is not None) is death.want_tolerant_ends
    if death.want_tolerant_ends:
        assert status.ending is not None
        assert status.ending.phase == "Failed"
        assert "all trainers have failed" in status.ending.message
        return
    assert causes(status) == death.want_tolerant
    assert created(plan) == []
    again = decide(after(job, plan), seen)
    assert again.status is None or causes(again.status) == death.want_tolerant, "a death was counted twice"


@pytest.mark.parametrize("death", DEATHS.values(), ids=DEATHS.keys())
def test_a_death_in_a_job_that_is_not_fault_tolerant(death: Death) -> None:
    job = running(plain(2), *trainers())
    status = status_of(decide(job, struck(job, death)))
    if death.want_plain is None:
        assert status.ending is not None
        assert status.ending.phase == ("NodeFail" if "lost" in death.states else "Failed")
        assert "the job is not fault tolerant" in status.ending.message
    else:
        assert status.ending is None
        assert causes(status) == death.want_plain


@pytest.mark.parametrize("make", [tolerant, plain], ids=["fault tolerant", "not fault tolerant"])
def test_one_that_its_kubelet_turns_away_before_it_starts_rests_and_is_replaced(
    make: Callable[[int], TrainingJob],
) -> None:
    job = after(make(2), decide(make(2), observed_of(make(2), [made_pod("t0", 0), made_pod("t1", state="pending")])))
    rests = []
    for attempt in range(3):
        seen = observed_of(job, [made_pod("t0", 0), made_pod(f"t1-{attempt}", 1, attempt, state="turned away")])
        status = status_of(decide(job, seen))
        assert status.ending is None
        assert causes(status) == {"node": attempt + 1}
        (until,) = status.attempts.roles["trainer"].resting
        rests.append(round((from_rfc3339(until) or 0) - NOW))
        job = after(job, decide(job, seen))
    assert rests == [20, 40, 80]


def test_one_that_a_kubelet_which_was_started_anew_turns_away_had_run() -> None:
    job = running(plain(2), *trainers())
    seen = observed_of(job, [made_pod("t0", 0), made_pod("t1", 1, state="turned away")])
    ending = status_of(decide(job, seen)).ending
    assert ending is not None
    assert ending.phase == "Failed"


@pytest.mark.parametrize(("made_seconds_later", "want"), [(-60, {}), (60, {"user": 1})], ids=["before it ran", "since"])
def test_a_pod_without_an_ordinal_replaces_one_only_if_it_was_made_since_the_job_ran(
    made_seconds_later: float, want: dict[str, int]
) -> None:
    """The pass that was to give it an ordinal was cut off; or its controller was faster than our pass."""
    job = running(tolerant(2), made_pod("t0", 0), made_pod("t1"))
    assert job.status.phase == "Running"
    fresh = replace(made_pod("t1"), created_at=int(NOW + made_seconds_later))
    plan = decide(job, observed_of(job, [made_pod("t0", 0), fresh]), now=NOW + 90)
    assert causes(plan.status or job.status) == want


def _asked_to_go(index: int, seconds_ago: float) -> PodRecord:
    at = int(NOW - seconds_ago)
    return replace(made_pod(f"t{index}", index), deleted_at=at, deletion_asked_at=at)


def _made(name: str, seconds_ago: float) -> PodRecord:
    return replace(made_pod(name), created_at=int(NOW - seconds_ago))


GOING = {
    "one of three is deleted, and its replacement is there": ([_made("new", 9)], 3, {"user": 1}),
    "its replacement was made in the second in which it was asked to go": ([_made("new", 10)], 3, {"user": 1}),
    "three others lived when it was asked to go: one was too many": ([_made("new", 11)], 3, {}),
    "the Job has not been told yet that three are wanted": ([], 2, {}),
    "the third other is on a lost node": ([replace(_made("new", 11), lost="its node is gone")], 3, {"user": 1}),
    "the third other is asked to go, too": ([replace(_made("new", 11), deleted_at=int(NOW))], 3, {"user": 1}),
    "the third other has ended": ([replace(_made("new", 11), phase="Succeeded")], 3, {"user": 1}),
    "the third other belongs to another owner": ([replace(_made("new", 11), owner_uid="another")], 3, {"user": 1}),
}


@pytest.mark.parametrize(("more", "desired", "want"), GOING.values(), ids=GOING.keys())
def test_a_trainer_that_its_controller_takes_away_is_no_restart(
    more: list[PodRecord], desired: int, want: dict[str, int]
) -> None:
    job = running(tolerant(3), *trainers(3))
    seen = observed_of(job, [*trainers(2), _asked_to_go(2, 10), *more], desired=desired, active=2)
    plan = decide(job, seen)
    assert causes(plan.status or job.status) == want
    told = observed_of(job, [*trainers(2), _asked_to_go(2, 10), *more], desired=3, active=2)
    again = after(job, plan)
    plan = decide(again, told)
    assert causes(plan.status or again.status) == want, "it counts once the Job is told"


def _told(counts: dict[str, int] | None, death: Death, *, ends: bool) -> str:
    if counts is None or ends:
        return "NodeFail" if "lost" in death.states else "Failed"
    return "replaced, counted as " + " and ".join(
        cause if n == 1 else f"{cause}, {n} times" for cause, n in counts.items()
    )


def test_docs_lifecycle_shows_these_deaths() -> None:
    lines = (ROOT / "docs/lifecycle.md").read_text().splitlines()
    start = lines.index("| of two trainers | with `fault_tolerant` | without |")
    rows = lines[start + 2 : start + 2 + len(DEATHS)]
    assert rows == [
        f"| {what} | {_told(d.want_tolerant, d, ends=d.want_tolerant_ends)} | {_told(d.want_plain, d, ends=False)} |"
        for what, d in DEATHS.items()
    ]
    assert not lines[start + 2 + len(DEATHS)].startswith("|")


def test_trainers_that_fail_one_after_the_other_end_the_job_when_none_is_left() -> None:
    job = running(tolerant(2), *trainers())
    first = [made_pod("t0", 0, state="failed"), made_pod("t1", 1)]
    job = after(job, decide(job, observed_of(job, first)))
    assert job.status.ending is None
    both = [made_pod("t0", 0, state="failed"), made_pod("t1", 1, state="failed")]
    status = status_of(decide(job, observed_of(job, both)))
    assert status.ending is not None
    assert status.ending.phase == "Failed"


def test_a_lost_pod_is_deleted_with_grace_0_since_its_controller_waits_for_a_kubelet_that_is_gone() -> None:
    job = running(tolerant(2), *trainers())
    plan = decide(job, struck(job, DEATHS["one is lost with its node"]))
    gone = [w for w in plan.writes if w.name == "t0"]
    assert [(w.uid, w.grace_seconds) for w in gone] == [("uid-of-t0", 0)]  # type: ignore[union-attr]
