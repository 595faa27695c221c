"""The status: what is read of a garbled one, what the summary says, and that the CRD accepts whatever is written."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, get_args

import pytest

from localcluster.schema import StructuralSchema
from tests.support.builders import make_job
from tests.support.kinds import AITRAININGJOBS
from tests.support.seeds import the_seed
from tjworker.api import crd
from tjworker.api.kinds import KINDS
from tjworker.api.kinds.base import read_status
from tjworker.api.status import (
    MAX_FAILURES,
    Attempts,
    Condition,
    ConditionType,
    Ending,
    Failure,
    JobStatus,
    Phase,
    ReplicaStatus,
    RestartCounts,
    RoleAttempts,
    ScaleCause,
    ScaleRecord,
)

NOW = "2026-01-01T00:00:00Z"
FAILED = {"type": "Failed", "status": "True", "lastTransitionTime": NOW, "reason": "R"}


SUCCEEDED = FAILED | {"type": "Succeeded"}


@dataclass(frozen=True)
class Case:
    raw: Any
    want: JobStatus


GARBLED: dict[str, Case] = {
    "an empty one": Case({}, JobStatus()),
    "a word": Case("Running", JobStatus()),
    "a field of a newer version stays": Case(
        {"phase": "Failed", "mood": "bad"}, JobStatus.model_validate({"phase": "Failed", "mood": "bad"})
    ),
    "an end of a newer version stays an end": Case(
        {"phase": "Stopped", "completionTime": NOW}, JobStatus(phase="Failed", completion_time=NOW)
    ),
    "an end of a newer version that is a success": Case(
        {"phase": "Enough", "completionTime": NOW, "conditions": [SUCCEEDED]},
        JobStatus(phase="Succeed", completion_time=NOW, conditions=(Condition.model_validate(SUCCEEDED),)),
    ),
    "a newer version's end that is not certain is none": Case(
        {"phase": "Stopped", "completionTime": ["now"], "conditions": 5}, JobStatus()
    ),
    "a word of a newer version where this one knows a list of words": Case(
        {"phase": "Failed", "refused": "Quota", "message": "no room"}, JobStatus(phase="Failed", message="no room")
    ),
    "a bad count goes, its neighbours stay": Case(
        {"replicaStatuses": {"a": {"active": "many", "failed": 2}, "b": {"active": 1}}},
        JobStatus(replica_statuses={"a": ReplicaStatus(failed=2), "b": ReplicaStatus(active=1)}),
    ),
    "a condition without its reason goes": Case(
        {"conditions": [{"type": "Running", "status": "True", "lastTransitionTime": NOW}, FAILED]},
        JobStatus(conditions=(Condition.model_validate(FAILED),)),
    ),
    "a condition of another kind of job stays": Case(
        {"conditions": [FAILED | {"type": "Queued"}]},
        JobStatus(conditions=(Condition.model_validate(FAILED | {"type": "Queued"}),)),
    ),
    "more failures than are kept": Case(
        {"failures": [{"pod": str(i), "time": NOW} for i in range(25)]},
        JobStatus(failures=tuple(Failure(pod=str(i), time=NOW) for i in range(MAX_FAILURES))),
    ),
    "attempts survive a bad neighbour": Case(
        {"attempts": {"job": 2, "roles": {"a": {"all": 3}, "b": []}}, "failures": "none"},
        JobStatus(attempts=Attempts(job=2, roles={"a": RoleAttempts(all=3)})),
    ),
    "an end survives everything": Case({"phase": "Succeed", "conditions": 5, "ending": []}, JobStatus(phase="Succeed")),
}


@pytest.mark.parametrize("case", GARBLED.values(), ids=GARBLED.keys())
def test_what_is_wrong_is_left_out_and_the_rest_stands(case: Case) -> None:
    assert read_status(case.raw) == case.want


def test_a_status_too_deep_for_any_stack_is_read_without_its_depth() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    assert read_status({"phase": "Failed", "conditions": [deep]}).phase == "Failed"


def test_the_crd_accepts_every_status_that_can_be_written() -> None:
    seed = the_seed()
    rng = random.Random(seed)
    schema = StructuralSchema(crd.schema(KINDS[AITRAININGJOBS]))
    for _ in range(200):
        status = _any_status(rng)
        obj = make_job().role("trainer").status(status).object()
        written = obj["status"]
        assert schema.prune(obj) == [], f"seed {seed}: fields that the CRD does not know"
        schema.default(obj)
        assert [str(c) for c in schema.validate(obj)] == [], f"seed {seed}: {written}"
        assert obj["status"] == written, f"seed {seed}: the API server would change it"
        assert read_status(written) == status, f"seed {seed}"


def _any_status(rng: random.Random) -> JobStatus:
    def times() -> str | None:
        return rng.choice([None, NOW])

    def count() -> int:
        return rng.choice([0, 1, 10_000, 2**31, 2**53])

    roles = rng.sample(["master", "pserver", "trainer", "data-loader"], rng.randint(0, 4))
    return JobStatus(
        phase=rng.choice(get_args(Phase)),
        conditions=tuple(
            Condition(
                type=kind,
                status=rng.choice(["True", "False", "Unknown"]),
                last_transition_time=NOW,
                reason="Because",
                message=rng.choice(["", "x" * 500]),
                observed_generation=count(),
            )
            for kind in rng.sample(get_args(ConditionType), rng.randint(0, 7))
        ),
        replica_statuses={r: ReplicaStatus(desired=count(), active=count()) for r in roles},
        restart_counts={r: RestartCounts(application=count()) for r in roles},
        attempts=Attempts(
            job=count(),
            roles={r: rng.choice([RoleAttempts(), RoleAttempts(all=count(), pods={"0": count()})]) for r in roles},
        ),
        failures=tuple(
            Failure(pod="p", time=NOW, exit_code=rng.choice([None, 137]), log_tail="ü\n" * 100)
            for _ in range(rng.randint(0, 10))
        ),
        scale_records=tuple(
            ScaleRecord.model_validate(
                {"role": "a", "from": count(), "to": count(), "time": NOW, "cause": rng.choice(get_args(ScaleCause))}
            )
            for _ in range(rng.randint(0, 10))
        ),
        ending=rng.choice([None, Ending(phase="Failed", reason="R", time=NOW)]),
        start_time=times(),
        start_running_time=times(),
        completion_time=times(),
        last_reconcile_time=times(),
        observed_generation=count(),
        replicas=count(),
        selector=rng.choice(["", "a=b"]),
    ).summarised()


NEWER: dict[str, Any] = {
    "phase": "Failed",
    "tomorrow": {"some": ["thing"]},
    "conditions": [{**FAILED, "message": "m", "observedGeneration": 1, "tomorrow": 1}],
    "attempts": {"job": 1, "roles": {"trainer": {"all": 1, "tomorrow": {"0": 2}}}, "tomorrow": True},
    "restartCounts": {"trainer": {"application": 1, "tomorrow": 3}},
    "replicaStatuses": {"trainer": {"active": 1, "tomorrow": 4}},
    "failures": [{"pod": "p", "time": NOW, "tomorrow": "x"}],
    "scaleRecords": [{"role": "trainer", "from": 1, "to": 2, "time": NOW, "tomorrow": "x"}],
    "ending": {"phase": "Failed", "reason": "R", "time": NOW, "tomorrow": "x"},
}
"""As a newer worker writes it, with a field that we do not know in each object."""


def test_an_older_worker_writes_back_what_a_newer_one_has_added() -> None:
    assert _tomorrows(read_status(NEWER).to_json()) == _tomorrows(NEWER)
    changed = read_status(NEWER).model_copy(update={"phase": "Running"}).summarised()
    assert _tomorrows(changed.to_json()) == _tomorrows(NEWER)


def _tomorrows(value: Any, path: str = "") -> dict[str, Any]:
    if isinstance(value, list):
        value = dict(enumerate(value))
    if not isinstance(value, dict):
        return {}
    found = {f"{path}.tomorrow": value["tomorrow"]} if "tomorrow" in value else {}
    for name, inner in value.items():
        found |= _tomorrows(inner, f"{path}.{name}")
    return found
