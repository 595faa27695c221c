"""The rules by which each write is judged at its own moment: what is let pass, and what is said of what is not."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from localcluster.storage import Store
from tests.simulation.ledger import Ledger
from tests.simulation.oracles import Allowance, Whole, judge, live
from tests.simulation.quiet import quiet
from tests.simulation.scenarios import SCENARIOS
from tests.simulation.times import untimely
from tjworker.api import labels
from tjworker.api.timefmt import to_rfc3339

Json = dict[str, Any]
CREATED = 1_700_000_000
NOW = CREATED + 100.5


def at(seconds: float) -> str:
    return to_rfc3339(CREATED + seconds)


def condition(status: str, since: float, reason: str = "Pending") -> Json:
    return {"type": "Running", "status": status, "lastTransitionTime": at(since), "reason": reason}


@dataclass(frozen=True)
class Times:
    after: Json
    before: Json = field(default_factory=dict)
    want: str = ""


TIMES: dict[str, Times] = {
    "a life in order": Times({"startTime": at(1), "startRunningTime": at(5), "completionTime": at(100)}),
    "a time in the future": Times({"startTime": at(102)}, want="startTime is"),
    "a time before the job was": Times({"failures": [{"time": at(-1)}]}, want="failures[0].time is"),
    "a time that is none": Times({"suspendTime": "soon"}, want="suspendTime is soon"),
    "it ran before it started": Times({"startTime": at(5), "startRunningTime": at(4)}, want="startTime"),
    "its start moved": Times({"startTime": at(6)}, {"startTime": at(5)}, want="startTime was"),
    "its start was forgotten": Times({}, {"startTime": at(5)}, want="and is gone"),
    "a condition's reason moves alone": Times(
        {"conditions": [condition("False", 5, "FailedCreate")]}, {"conditions": [condition("False", 5)]}
    ),
    "lastTransitionTime moves with the reason": Times(
        {"conditions": [condition("False", 50, "FailedCreate")]},
        {"conditions": [condition("False", 5)]},
        want="Running is False as before, and its lastTransitionTime moved",
    ),
    "lastTransitionTime moves with the status": Times(
        {"conditions": [condition("True", 50)]}, {"conditions": [condition("False", 5)], "lastReconcileTime": at(40)}
    ),
    "lastTransitionTime stays behind when the status moves": Times(
        {"conditions": [condition("True", 5)]},
        {"conditions": [condition("False", 5)], "lastReconcileTime": at(40)},
        want="Running became True at",
    ),
    "the time of a decided end moves": Times(
        {"ending": {"time": at(60)}}, {"ending": {"time": at(50)}}, want="ending.time was"
    ),
}


@pytest.mark.parametrize("case", TIMES.values(), ids=TIMES.keys())
def test_a_time_that_cannot_be(case: Times) -> None:
    said = list(untimely(case.before, case.after, at(0), NOW))
    assert bool(said) == bool(case.want)
    assert case.want in "".join(said)


# -- pods --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Made:
    """A pod is made of a job of two trainers, after it has been changed so."""

    job: Json = field(default_factory=dict)
    index: int = 0
    beside: tuple[Json, ...] = ()
    gone: bool = False
    want: str = ""


DELETED = {"deletionTimestamp": at(50)}
MADE: dict[str, Made] = {
    "one of those that are wanted": Made(index=1),
    "one too many": Made(index=2, want="made when 2 of role trainer were wanted"),
    "after it was scaled down": Made({"spec": {"replicas": 1}}, index=1, want="made when 1 of role trainer"),
    "while it is suspended": Made({"spec": {"suspend": True}}, want="made when 0 of role trainer"),
    "when its end is decided": Made(
        {"status": {"ending": {"phase": "Failed", "reason": "x", "time": at(9)}}}, want="made when 0 of role trainer"
    ),
    "when it has ended": Made({"status": {"phase": "Succeed"}}, want="made when 0 of role trainer"),
    "when it is gone": Made(gone=True, want="made when 0 of role trainer"),
    "when it has just been made and is gone": Made({"metadata": {"creationTimestamp": at(95)}}, gone=True),
    "when it has just been made and is told to stand still": Made(
        {"metadata": {"creationTimestamp": at(95)}, "spec": {"suspend": True}}, want="made when 0 of role trainer"
    ),
    "when it is gone seconds after it was made": Made(
        {"metadata": {"creationTimestamp": at(94)}}, gone=True, want="made when 0 of role trainer"
    ),
    "when it has just been made and told of, and is gone": Made(
        {"metadata": {"creationTimestamp": at(95)}, "status": {"phase": "Creating"}},
        gone=True,
        want="made when 0 of role trainer",
    ),
    "when it is going": Made({"metadata": DELETED}, want="made when 0 of role trainer"),
    "when its number has succeeded": Made(
        {"status": {"attempts": {"roles": {"trainer": {"completed": "0"}}}}}, want="had come to its end for good"
    ),
    "beside another that is being deleted": Made(beside=({"metadata": DELETED},), want="made beside another number 0"),
}


@pytest.mark.parametrize("case", MADE.values(), ids=MADE.keys())
def test_a_pod_that_nobody_wants_at_that_moment(case: Made) -> None:
    store = Store(lambda: NOW)
    ledger = Ledger(store, lambda: NOW)
    job = manifest(case.job)
    store.put("elasticdeeplearning.ai/aitrainingjobs", ("default", "digits"), job)
    if case.gone:
        store.delete("elasticdeeplearning.ai/aitrainingjobs", ("default", "digits"), job)
    for number, more in enumerate(case.beside):
        store.put("pods", ("default", f"old-{number}"), pod(f"old-{number}", case.index, **more["metadata"]))
    ledger.surplus.clear()
    store.put("pods", ("default", "digits-trainer"), pod("digits-trainer", case.index))
    assert bool(ledger.surplus) == bool(case.want), ledger.surplus
    assert case.want in "".join(ledger.surplus)


def manifest(more: Json) -> Json:
    made = SCENARIOS["ai-pod-succeeds"].manifest
    spec = {**made["spec"], **{k: v for k, v in more.get("spec", {}).items() if k != "replicas"}}
    roles = dict(spec["replicaSpecs"])
    if "replicas" in more.get("spec", {}):
        roles["trainer"] = {**roles["trainer"], "replicas": more["spec"]["replicas"]}
    stands = {"uid": "job-1", "creationTimestamp": at(0), "generation": 1, "namespace": "default"}
    meta = {**made["metadata"], **stands, **more.get("metadata", {})}
    return {**made, "metadata": meta, "spec": {**spec, "replicaSpecs": roles}, "status": more.get("status", {})}


def pod(name: str, index: int, **meta: Any) -> Json:
    marks = {labels.JOB_UID: "job-1", labels.REPLICA_NAME: "trainer", labels.REPLICA_INDEX: str(index)}
    return {
        "metadata": {"name": name, "uid": name, "labels": marks, **meta},
        "spec": {},
        "status": {"phase": "Running"},
    }


# -- a whole life ------------------------------------------------------------------------------------


def test_a_life_is_held_against_the_times_of_undisturbed_ones() -> None:
    with quiet():
        plain = live(SCENARIOS["ai-pod-restarts"], more_seconds=0)
    of = Whole(plain, plain)
    assert judge(plain, of, Allowance(0)) == []
    start = next(path for path in plain.times if path.endswith(".startRunningTime"))

    def moved(seconds: float) -> list[str]:
        return judge(replace(plain, times={**plain.times, start: plain.times[start] + seconds}), of, Allowance(60))

    assert moved(60) == []
    assert "70 s later than undisturbed, 60 s allowed" in moved(70)[0]
    assert "30 s earlier than undisturbed" in moved(-30)[0]
    without = {path: value for path, value in plain.state.items() if path != start}
    assert f"{start}: 'nothing', undisturbed 'a time'" in judge(replace(plain, state=without), of, Allowance(60))
