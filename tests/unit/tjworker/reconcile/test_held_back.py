"""Which pods are not made yet, and why: an old attempt that still lives, a role that starts after others."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.support.builders import make_job, make_pod, make_service, observe
from tests.unit.tjworker.reconcile.passes import ago, created, decide, deleted
from tjworker.api.status import Attempts, RoleAttempts


@dataclass(frozen=True)
class Case:
    attempts: RoleAttempts
    attempt: int
    """Of trainer-0's pod, which runs."""
    want_created: list[str]
    want_deleted: list[str]


CASES: dict[str, Case] = {
    "trainer-0 is of this attempt: the others are made": Case(RoleAttempts(all=1), 1, ["1", "2"], []),
    "it alone begins anew: the others are made at once": Case(RoleAttempts(all=1, pods={"0": 1}), 1, ["1", "2"], ["0"]),
    "its role begins anew: none is made before it is gone": Case(RoleAttempts(all=2), 1, [], ["0"]),
    "its role and then it itself": Case(RoleAttempts(all=2, pods={"0": 3}), 1, [], ["0"]),
    "another begins anew": Case(RoleAttempts(all=1, pods={"1": 5}), 1, ["1", "2"], []),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_no_pod_is_made_before_the_last_of_an_old_attempt_is_gone(case: Case) -> None:
    attempts = Attempts(roles={"trainer": case.attempts})
    job = make_job().role("trainer", 3).status(phase="Restarting", start_time=ago(500), attempts=attempts).build()
    services = [make_service(job, "trainer", i) for i in range(3)]
    plan = decide(job, observe(make_pod(job, "trainer", 0, case.attempt).running(), *services))
    names = [f"digits-trainer-{i}" for i in case.want_created]
    assert (created(plan), deleted(plan)) == (names, [f"digits-trainer-{i}" for i in case.want_deleted])
    made = {w.name: w.body["metadata"]["labels"]["restart-attempt"] for w in plan.writes if w.name in names}  # type: ignore[union-attr]
    own = case.attempts.pods
    assert made == {name: str(case.attempts.all + own.get(name[-1], 0)) for name in names}
