"""What each thing that a pass decides changes in a role's attempts, and that it changes nothing else: a table of every
decision, against a status that has something in every field of two roles."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.unit.tjworker.reconcile.passes import ago
from tjworker.api.status import Attempts, JobStatus, RestartCounts, RoleAttempts
from tjworker.reconcile.attempts import Draft, forget_rests
from tjworker.reconcile.replicas import Replica

SOON, LATER = "2026-01-01T01:00:20Z", "2026-01-01T01:05:00Z"
FULL: Mapping[str, Any] = {
    "all": 2,
    "pods": {"0": 1, "1": 3},
    "completed": "4",
    "failed": "5",
    "ran": "0-2",
    "started": "0-3",
    "made": "0,3",
    "vanished": {"2": "0", "3": "1"},
    "crashes": {"1": "0", "2": "1"},
    "rejections": {"1": "0", "3": "1"},
    "resting": {SOON: "0", LATER: "1"},
}
"""Of each role. Every field says something of index 0, or of one that nothing may touch."""
STATUS = JobStatus(
    attempts=Attempts(job=1, roles={"ps": RoleAttempts(**FULL), "trainer": RoleAttempts(**FULL)}),
    restart_counts={"trainer": RestartCounts(application=1, node=2, preemption=3, user=4)},
)
FIRST = Replica("trainer", 0, "digits-trainer-0", 3, "failed")
RAISED: Mapping[str, Any] = {
    "pods": {"0": 2, "1": 3},
    "ran": "1-2",
    "made": "3",
    "rejections": {"3": "1"},
    "resting": {LATER: "1"},
}
ANEW: Mapping[str, Any] = {
    "all": 6,
    "pods": {},
    "completed": "",
    "failed": "",
    "ran": "",
    "made": "",
    "vanished": {},
    "rejections": {},
    "resting": {},
}


@dataclass(frozen=True)
class Case:
    decide: Callable[[Draft], object]
    want: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the role trainer that differ."""
    ps: Mapping[str, Any] = field(default_factory=dict)
    job: int = 1
    told: object = None
    """What the decision answers."""


def _then(*steps: Callable[[Draft], object]) -> Callable[[Draft], object]:
    return lambda draft: [step(draft) for step in steps][-1]


CASES: dict[str, Case] = {
    "one replica begins anew: what its last pod did is forgotten": Case(lambda d: d.raise_pod(FIRST), RAISED),
    "twice in one pass": Case(
        _then(lambda d: d.raise_pod(FIRST), lambda d: d.raise_pod(FIRST)), {**RAISED, "pods": {"0": 3, "1": 3}}
    ),
    "a role begins anew, above each of its pods": Case(lambda d: d.raise_roles(["trainer"], whole_job=False), ANEW),
    "a role, then a replica of it": Case(
        _then(lambda d: d.raise_roles(["trainer"], whole_job=False), lambda d: d.raise_pod(FIRST)),
        {**ANEW, "pods": {"0": 1}},
    ),
    "turned away: one more in a row": Case(
        lambda d: d.turn_away(FIRST), {**RAISED, "rejections": {"2": "0", "3": "1"}}, told=1
    ),
    "its program has failed: one more in a row": Case(
        lambda d: d.crash(FIRST, (), anew=False), {"crashes": {"2": "0-1"}}, told=1
    ),
    "its program has failed after it had run for long": Case(
        lambda d: d.crash(FIRST, (), anew=True), {"crashes": {"1": "0", "2": "1"}}, told=0
    ),
    "its program has failed, and its role begins anew with it: the role's failures count": Case(
        lambda d: d.crash(FIRST, ["trainer"], anew=False), {"crashes": {"2": "0-1"}}, told=3
    ),
    "with both roles, after it had run for long: none of them counts": Case(
        lambda d: d.crash(FIRST, ["ps", "trainer"], anew=True), {"crashes": {"1": "0"}}, {"crashes": {}}, told=0
    ),
    "it has gone before it started: one more in a row": Case(
        lambda d: d.vanish(FIRST), {"vanished": {"3": "0-1"}, "made": "3"}, told=2
    ),
    "it has failed for good": Case(lambda d: d.fail(FIRST), {"failed": "0,5"}),
    "it rests": Case(lambda d: d.rest(FIRST, "2026-01-01T01:00:40Z", ago(0)), {
        "resting": {"2026-01-01T01:00:40Z": "0", LATER: "1"}
    }),
    "it rests, and the rest of another is over this second": Case(
        lambda d: d.rest(FIRST, "2026-01-01T01:06:00Z", LATER), {"resting": {"2026-01-01T01:06:00Z": "0"}}
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_decision_changes_these_fields_and_no_other(case: Case) -> None:
    draft = Draft(STATUS)
    assert case.decide(draft) == case.told
    got = draft.status()
    assert got.attempts.job == case.job
    assert got.attempts.roles["trainer"] == RoleAttempts(**{**FULL, **case.want})
    assert got.attempts.roles["ps"] == RoleAttempts(**{**FULL, **case.ps})
    assert got.model_copy(update={"attempts": STATUS.attempts}) == STATUS, "and nothing beside the attempts"


def test_the_table_has_something_in_every_field() -> None:
    empty = RoleAttempts()
    full = RoleAttempts(**FULL)
    assert [name for name in RoleAttempts.model_fields if getattr(full, name) == getattr(empty, name)] == []


# -- what a pass sees ------------------------------------------------------------------------------


def test_a_job_that_ends_forgets_what_waits_and_keeps_what_was() -> None:
    kept = {name: FULL[name] for name in ("all", "pods", "completed", "failed", "ran", "started", "crashes")}
    assert forget_rests(STATUS).attempts.roles == {"ps": RoleAttempts(**kept), "trainer": RoleAttempts(**kept)}
