"""What a pass must have from the API server itself before it hurts: the pod on whose trouble its plan rests, and no
other pod."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from tests.support.builders import PodBuilder, make_job, make_node, make_pod, make_service, observe
from tests.unit.tjworker.reconcile.passes import ago, children_needed, decide
from tjworker.api.model import TrainingJob
from tjworker.api.needs import ChildNow
from tjworker.api.resources import PODS
from tjworker.api.status import ReplicaStatus
from tjworker.reconcile.plan import Plan

SECOND = "pods/digits-trainer-1"


@dataclass(frozen=True)
class Case:
    second: Callable[[PodBuilder], PodBuilder | None]
    """What becomes of trainer-1; the other two run."""
    want: tuple[str, ...]
    scope: str = "Pod"
    policy: str = "Always"
    suspend: bool = False
    annotate: bool = False
    in_part: bool = False


CASES: dict[str, Case] = {
    "all run: nothing is asked for": Case(lambda p: p.running(), ()),
    "one has succeeded": Case(lambda p: p.succeeded(), ()),
    "one has failed, and is restarted": Case(lambda p: p.failed(), (SECOND,)),
    "one has failed, and the job begins anew": Case(lambda p: p.failed(), (SECOND,), scope="All"),
    "one has failed for good": Case(lambda p: p.failed(), (SECOND,), policy="Never"),
    "one is being deleted": Case(lambda p: p.running().deleting(ago(-20)), (SECOND,)),
    "one is being evicted": Case(
        lambda p: p.running().deleting(ago(-20)).but(disruption="EvictionByEvictionAPI"), (SECOND,)
    ),
    "one's main container has failed beside others that run, and it is restarted": Case(
        lambda p: p.running().containers(state="terminated", exit_code=1), (SECOND,), in_part=True
    ),
    "one has vanished": Case(lambda _: None, (SECOND,)),
    "one is lost with its node": Case(lambda p: p.on("ill").running(), (SECOND,)),
    "one cannot be created": Case(lambda p: p.creating("ErrImagePull").but(scheduled_at=ago(2000)), (SECOND,)),
    "one is being created": Case(lambda p: p.creating(), ()),
    "one waits for a node": Case(lambda p: p.unschedulable(), ()),
    "one has failed, and the job is suspended: the spec alone ends it": Case(lambda p: p.failed(), (), suspend=True),
    "an annotation ends the job, whatever its pods do": Case(lambda p: p.failed(), (SECOND,), annotate=True),
}


def _job(case: Case) -> TrainingJob:
    builder = make_job().role("trainer", 3, restart=case.policy, scope=case.scope).suspended(case.suspend)
    builder = builder.annotate({"Failed": "enough"}) if case.annotate else builder
    job = builder.status(
        phase="Running", start_time=ago(900), replica_statuses={"trainer": ReplicaStatus(desired=3, active=3)}
    ).build()
    return replace(job, roles=tuple(replace(role, fails_in_part=case.in_part) for role in job.roles))


def _plan(case: Case, *confirmed: str) -> Plan:
    job = _job(case)
    second = case.second(make_pod(job, "trainer", 1))
    pods = [make_pod(job, "trainer", 0).running(), *([second] if second else []), make_pod(job, "trainer", 2).running()]
    services = [make_service(job, "trainer", i) for i in range(3)]
    seen = observe(*pods, *services, make_node("ill").not_ready(ago(600)))
    return decide(job, replace(seen, confirmed=frozenset(ChildNow(PODS, name.partition("/")[2]) for name in confirmed)))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_pass_asks_for_what_its_plan_rests_on_and_for_nothing_else(case: Case) -> None:
    plan = _plan(case)
    assert children_needed(plan) == case.want
    again = _plan(case, *case.want)
    assert children_needed(again) == ()
    assert replace(plan, needs=()) == again, "it decides the same"
    assert children_needed(_plan(case, "pods/*")) == (), "who has asked for all pods has asked for each"
