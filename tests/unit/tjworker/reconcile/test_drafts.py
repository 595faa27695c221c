"""What each thing that a pass decides changes in a role's attempts, and that it changes nothing else: a table of every
decision, against a status that has something in every field of two roles."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.support.builders import make_job, make_pod, observe
from tests.unit.tjworker.reconcile.passes import NOW, RULES, ago
from tjworker.api.model import Role, TrainingJob
from tjworker.api.status import Attempts, JobStatus, RestartCounts, RoleAttempts
from tjworker.reconcile.attempts import Draft, forget_rests, raise_for_suspend, record_running, record_successes
from tjworker.reconcile.one_pass import Pass
from tjworker.reconcile.replicas import Replica, RoleView, State

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
    "both roles, as the job": Case(lambda d: d.raise_roles(["ps", "trainer"], whole_job=True), ANEW, ANEW, job=2),
    "a replica, then its role": Case(
        _then(
            lambda d: d.raise_pod(FIRST),
            lambda d: d.fail(FIRST),
            lambda d: d.raise_roles(["trainer"], whole_job=False),
        ),
        {**ANEW, "all": 6},
    ),
    "a role, then a replica of it": Case(
        _then(lambda d: d.raise_roles(["trainer"], whole_job=False), lambda d: d.raise_pod(FIRST)),
        {**ANEW, "pods": {"0": 1}},
    ),
    "turned away: one more in a row": Case(
        lambda d: d.turn_away(FIRST), {**RAISED, "rejections": {"2": "0", "3": "1"}}, told=1
    ),
    "its program has failed: one more in a row": Case(
        lambda d: d.crash(FIRST, (), forget=False), {"crashes": {"2": "0-1"}}, told=1
    ),
    "its program has failed after it had run for long": Case(
        lambda d: d.crash(FIRST, (), forget=True), {"crashes": {"1": "0", "2": "1"}}, told=0
    ),
    "its program has failed, and its role begins anew with it: the role's failures count": Case(
        lambda d: d.crash(FIRST, ["trainer"], forget=False), {"crashes": {"2": "0-1"}}, told=3
    ),
    "likewise with both roles": Case(
        lambda d: d.crash(FIRST, ["ps", "trainer"], forget=False), {"crashes": {"2": "0-1"}}, told=6
    ),
    "with both roles, after it had run for long: none of them counts": Case(
        lambda d: d.crash(FIRST, ["ps", "trainer"], forget=True), {"crashes": {"1": "0"}}, {"crashes": {}}, told=0
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
    "it rests, and that of another is over in a second": Case(
        lambda d: d.rest(FIRST, "2026-01-01T01:06:00Z", "2026-01-01T01:04:59Z"),
        {"resting": {LATER: "1", "2026-01-01T01:06:00Z": "0"}},
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


@pytest.mark.parametrize("cause", ["application", "node", "preemption", "user"])
def test_a_restart_is_counted_for_its_role_under_its_cause_alone(cause: Any) -> None:
    draft = Draft(STATUS)
    draft.count("trainer", cause)
    draft.count("ps", cause)
    before = STATUS.restart_counts["trainer"]
    assert draft.status().restart_counts == {
        "trainer": before.model_copy(update={cause: getattr(before, cause) + 1}),
        "ps": RestartCounts(**{cause: 1}),
    }
    own = cause == "application"
    assert (draft.application_restarts("trainer"), draft.application_restarts("ps")) == (1 + own, own)
    assert draft.application_restarts() == 1 + 2 * own


# -- what a pass sees ------------------------------------------------------------------------------

JOB = make_job().role("trainer", 4).role("ps", 1).build()
STATES: dict[State, tuple[bool, bool, bool]] = {
    "running": (True, False, False),
    "scheduled": (True, True, True),
    "lost": (True, True, True),
    "pending": (False, True, True),
    "missing": (False, True, True),
    "blocked": (False, True, True),
    "outdated": (False, True, True),
    "terminating": (False, True, True),
    "succeeded": (False, True, True),
    "failed": (False, True, True),
}
"""(it is still among those that have run, its pod still among those made, its pods in a row that vanished still count),
of an index of which all three were said before."""


def _seen(state: State, role: Role, attempts: RoleAttempts) -> RoleView:
    """Index 0 in this state, the others as nobody has asked for them."""
    others = tuple(Replica(role.name, i, f"digits-{role.name}-{i}", 0, "pending") for i in range(1, role.replicas))
    return RoleView(role, (Replica(role.name, 0, f"digits-{role.name}-0", 0, state), *others), (), attempts)


@pytest.mark.parametrize(("state", "want"), STATES.items(), ids=STATES.keys())
def test_what_a_job_that_does_not_run_yet_remembers_of_a_replica(state: State, want: tuple[bool, bool, bool]) -> None:
    said = RoleAttempts(ran="0", made="0", vanished={"1": "0", "2": "1"}, crashes={"1": "0"}, resting={LATER: "0"})
    status = JobStatus(attempts=Attempts(roles={"trainer": said}))
    views = {"trainer": _seen(state, JOB.role("trainer"), said), "ps": _seen("pending", JOB.role("ps"), RoleAttempts())}
    got = record_running(status, views, "Creating", {"trainer": {2}}).attempts.roles
    assert got.keys() == {"trainer"}, "of ps there is nothing to say"
    ran, made, vanished = want
    assert got["trainer"] == said.model_copy(
        update={
            "ran": "0" if ran else "",
            "made": "0,2" if made else "2",
            "vanished": {"1": "0", "2": "1"} if vanished else {"2": "1"},
        }
    )


def test_of_a_job_that_runs_nothing_is_said_but_what_a_next_failure_asks_for() -> None:
    said = RoleAttempts(**FULL)
    status = JobStatus(attempts=Attempts(roles={"trainer": said, "ps": said}))
    views = {name: _seen("running", JOB.role(name), said) for name in ("trainer", "ps")}
    got = record_running(status, views, "Running", {"trainer": {2}}).attempts.roles
    kept = {name: FULL[name] for name in ("all", "pods", "completed", "failed", "crashes", "started")}
    assert got == {"trainer": RoleAttempts(**kept), "ps": RoleAttempts(**kept)}


def test_what_is_made_above_the_replicas_is_forgotten() -> None:
    said = RoleAttempts(made="2-5")
    status = JobStatus(attempts=Attempts(roles={"trainer": said}))
    got = record_running(status, {"trainer": _seen("pending", JOB.role("trainer"), said)}, "Pending", {})
    assert got.attempts.roles["trainer"].made == "2-3"


def test_successes_are_added_to_those_on_record_also_above_the_replicas() -> None:
    job = make_job().role("trainer", 2).role("ps", 1)
    done = RoleAttempts(completed="0,3")
    built = job.status(attempts=Attempts(roles={"trainer": done})).build()
    pods = observe(make_pod(built, "trainer", 1).succeeded(), make_pod(built, "ps", 0).running())
    noted = record_successes(Pass.begin(built, pods, NOW, RULES)).status.attempts.roles
    assert noted == {"trainer": RoleAttempts(completed="0-1,3")}


LEFT: dict[str, Callable[[TrainingJob], RoleView]] = {
    "a pod in its place": lambda job: RoleView(
        job.role("trainer"), (FIRST._replace(pod=make_pod(job, "trainer").build()),), (), RoleAttempts()
    ),
    "a pod too many": lambda job: RoleView(
        job.role("trainer"), (), (make_pod(job, "trainer", 5).build(),), RoleAttempts()
    ),
    "a pod whose place another has taken": lambda job: RoleView(
        job.role("trainer"), (), (), RoleAttempts(), others=(make_pod(job, "trainer", 5).build(),)
    ),
}


@pytest.mark.parametrize("left", LEFT.values(), ids=LEFT.keys())
def test_a_suspension_begins_anew_where_there_is(left: Callable[[TrainingJob], RoleView]) -> None:
    nothing = RoleView(JOB.role("ps"), (Replica("ps", 0, "digits-ps-0", 0, "missing"),), (), RoleAttempts())
    got = raise_for_suspend(JobStatus(), {"trainer": left(JOB), "ps": nothing}).attempts
    assert (got.job, got.roles) == (0, {"trainer": RoleAttempts(all=1)})


def test_a_job_that_ends_forgets_what_waits_and_keeps_what_was() -> None:
    kept = {name: FULL[name] for name in ("all", "pods", "completed", "failed", "ran", "started", "crashes")}
    assert forget_rests(STATUS).attempts.roles == {"ps": RoleAttempts(**kept), "trainer": RoleAttempts(**kept)}
