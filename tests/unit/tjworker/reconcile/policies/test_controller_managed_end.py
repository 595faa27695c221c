"""The end and the suspension of a job whose pods a controller keeps."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from tests.unit.tjworker.reconcile.managed import (
    causes,
    made_pod,
    observed_of,
    patches,
    plain,
    running,
    tolerant,
    trainers,
)
from tests.unit.tjworker.reconcile.passes import RULES, after, decide, deleted, status_of
from tjworker.api.resources import BATCH_JOBS, REPLICASETS


@dataclass(frozen=True)
class End:
    policy: str
    want_released: bool
    want_deleted: list[str]
    autoclean: bool = True
    succeeded: int = 0
    """As the batch Job counts."""
    way: str = "Failed"
    """The annotation that ends it."""


ENDS: dict[str, End] = {
    "All: the controllers take the pods that live, we those that have ended": End("All", True, ["t1"]),
    "Running: those that have ended stay": End("Running", True, []),
    "All, where the batch Job has seen a success: its controller takes no pod away any more": End(
        "All", True, ["t0", "t1"], succeeded=1
    ),
    "Running, where it has": End("Running", True, ["t0"], succeeded=1),
    "None: nothing is touched": End("None", False, []),
    "without autoclean nothing is touched": End("All", False, [], autoclean=False),
    "None, in an end that is to free what the job holds: as Running": End("None", True, [], way="Preempted"),
    "the same, as its node is at fault": End("None", True, [], way="NodeFail"),
    "without autoclean nothing is touched, in such an end neither": End(
        "All", False, [], autoclean=False, way="Preempted"
    ),
}


@pytest.mark.parametrize("case", ENDS.values(), ids=ENDS.keys())
def test_what_an_end_gives_back(case: End) -> None:
    job = replace(plain(2, pservers=1), annotations={case.way: "enough"}, clean_pod_policy=case.policy)  # type: ignore[arg-type]
    pods = [made_pod("p0", 0, role="pserver"), made_pod("t0", 0), made_pod("t1", 1, state="succeeded")]
    rules = replace(RULES, autoclean=case.autoclean)
    plan = decide(job, observed_of(job, pods, succeeded=case.succeeded), rules=rules)
    zero = {"digits-pserver": 0} if case.want_released else {}
    assert {n: b["spec"]["replicas"] for n, b in patches(plan, REPLICASETS).items()} == zero
    assert [b["spec"]["parallelism"] for b in patches(plan, BATCH_JOBS).values()] == ([0] if case.want_released else [])
    assert deleted(plan) == case.want_deleted
    left = [p for p in pods if p.phase == "Succeeded"] if case.policy != "All" else []
    done = decide(after(job, plan), observed_of(job, left, desired=0 if case.want_released else 1), rules=rules)
    status = status_of(plan if not case.want_released else done)
    assert (status.phase, status.released) == (case.way, case.want_released)


def test_the_end_waits_until_the_replicaset_controller_has_seen_that_it_wants_no_more() -> None:
    job = replace(plain(1, pservers=1), annotations={"Failed": "enough"})
    behind = observed_of(job, [], desired=0, generation=2, observed_generation=1)
    assert status_of(decide(job, behind)).phase == "Terminating"


def test_suspending_takes_the_counts_to_0_and_resuming_brings_them_back_as_no_restart() -> None:
    job = running(tolerant(2), *trainers())
    plan = decide(replace(job, suspend=True), observed_of(job, trainers()))
    assert [b["spec"]["parallelism"] for b in patches(plan, BATCH_JOBS).values()] == [0]
    job = after(job, plan)
    assert job.status.phase == "Suspended"
    going = [made_pod("t0", 0, state="deleting"), made_pod("t1", 1, state="deleting")]
    plan = decide(job, observed_of(job, going, desired=0))
    assert [b["spec"]["parallelism"] for b in patches(plan, BATCH_JOBS).values()] == [2]
    status = status_of(plan)
    assert causes(status) == {}
    new = [made_pod("t2"), made_pod("t3")]
    plan = decide(after(job, plan), observed_of(job, [*going, *new]))
    assert sorted(patches(plan)) == ["t2", "t3"]
    assert {b["metadata"]["labels"]["restart-attempt"] for b in patches(plan).values()} == {"1"}
    assert status_of(plan).phase == "Running"
