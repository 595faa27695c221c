"""Run one pass, or several in a row over a world that does what the plans say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tests.support.builders import PodBuilder, make_job, make_node, make_pod, make_service, observe
from tjworker.api.model import InvalidJob, TrainingJob
from tjworker.api.needs import ChildNow, NodeNow
from tjworker.api.observed import NodeRecord, Observed, PodRecord, ServiceRecord
from tjworker.api.resources import PODS
from tjworker.api.status import Condition, ConditionType, JobStatus
from tjworker.api.timefmt import to_rfc3339
from tjworker.controllers.jobs import reconcile_rules
from tjworker.reconcile import Plan, Rules, reconcile
from tjworker.reconcile.plan import Create, Delete, Write
from tjworker.settings import Settings

NOW = 1767229200.0  # 2026-01-01T01:00:00Z
NOW_TEXT = "2026-01-01T01:00:00Z"
RULES = reconcile_rules(Settings())
UNANSWERED = make_node("not to be had").build()
"""As an answer of the API server: none."""


def decide(
    job: TrainingJob | InvalidJob,
    observed: Observed | None = None,
    *,
    now: float = NOW,
    rules: Rules = RULES,
    live: Mapping[str, NodeRecord | None] | None = None,
) -> Plan:
    """As a worker does: the API server is asked for nodes, and says what the view says. `live`: of these nodes it says
    something else."""
    observed = observed or Observed()
    plan = reconcile(job, observed, now, rules)
    asked = nodes_needed(plan)
    if not asked:
        return plan
    answers = {**{name: observed.nodes.get(name) for name in asked}, **(live or {})}
    answered = {name: record for name, record in answers.items() if record != UNANSWERED}
    return reconcile(job, replace(observed, nodes_now=answered), now, rules)


def nodes_needed(plan: Plan) -> tuple[str, ...]:
    return tuple(need.name for need in plan.needs if isinstance(need, NodeNow))


def children_needed(plan: Plan) -> tuple[str, ...]:
    return tuple(f"{need.resource}/{need.name}" for need in plan.needs if isinstance(need, ChildNow))


def created(plan: Plan, resource: str = PODS) -> list[str]:
    return [w.name for w in plan.writes if isinstance(w, Create) and w.resource == resource]


def deleted(plan: Plan, resource: str = PODS) -> list[str]:
    return [w.name for w in plan.writes if isinstance(w, Delete) and w.resource == resource]


def after(job: TrainingJob, plan: Plan) -> TrainingJob:
    """The job as the next pass finds it."""
    return job if plan.status is None else replace(job, status=plan.status)


def status_of(plan: Plan) -> JobStatus:
    assert plan.status is not None, "the pass wrote no status"
    return plan.status


def everything(job: TrainingJob, *pods: PodBuilder) -> Observed:
    """These pods, each with its service."""
    records = [p.build() for p in pods]
    services = [make_service(job, r.labels["replica-name"], int(r.labels["replica-index"])) for r in records]
    return observe(*pods, *services)


class World:
    """Pods and services that follow the plans: what is created is there at the next pass, what is deleted is gone."""

    def __init__(self, job: TrainingJob) -> None:
        self.job = job
        self.pods: dict[str, PodBuilder] = {}
        self.services: dict[str, ServiceRecord] = {}
        self.now = NOW
        self.rules = RULES
        self.created: list[str] = []
        self.deleted: list[str] = []
        self.events: list[str] = []
        self.status_writes = 0

    def step(self) -> Plan:
        plan = decide(self.job, observe(*self.pods.values(), *self.services.values()), now=self.now, rules=self.rules)
        self.now += 1
        self.job = after(self.job, plan)
        self.status_writes += plan.status is not None
        self.events += [e.reason for e in plan.events]
        for write in plan.writes:
            self.carry_out(write)
        return plan

    def carry_out(self, write: Write) -> None:
        if isinstance(write, Create):
            self._create(write)
        elif isinstance(write, Delete):
            self._delete(write)

    def settle(self, most: int = 20) -> World:
        """Until a pass plans nothing."""
        for _ in range(most):
            if self.step().empty:
                return self
        raise AssertionError(f"the job does not come to rest: {self.job.status}")

    def all(self, what: str) -> World:
        """Every pod now runs, succeeds, ..."""
        for name in self.pods:
            self.set(name, what)
        return self

    def set(self, name: str, what: str, **arguments: object) -> World:
        self.pods[name] = getattr(self.pods[name], what)(**arguments)
        return self

    def lose(self, name: str) -> World:
        """The pod is gone for no known reason."""
        del self.pods[name]
        return self

    def record(self, name: str) -> PodRecord:
        return self.pods[name].build()

    def attempts(self) -> dict[str, int]:
        return {n: int(p.build().labels["restart-attempt"]) for n, p in sorted(self.pods.items())}

    def _create(self, write: Create) -> None:
        labels = write.body["metadata"]["labels"]
        role, index = labels["replica-name"], int(labels["replica-index"])
        if write.resource == PODS:
            assert write.name not in self.pods, f"{write.name} is made twice"
            self.pods[write.name] = make_pod(self.job, role, index, int(labels["restart-attempt"])).but(labels=labels)
            self.created.append(write.name)
        else:
            assert write.name not in self.services, f"service {write.name} is made twice"
            self.services[write.name] = make_service(self.job, role, index)

    def _delete(self, write: Delete) -> None:
        if write.resource == PODS:
            assert self.pods[write.name].build().uid == write.uid
            del self.pods[write.name]
            self.deleted.append(write.name)
        else:
            del self.services[write.name]


def ago(seconds: float) -> str:
    return to_rfc3339(NOW - seconds)


def running(**role: Any) -> World:
    return World(make_job().role("trainer", 2, **role).build()).settle().all("running").settle()


def condition(status: JobStatus, type_: ConditionType) -> tuple[str, str, str]:
    found = status.condition(type_)
    assert found is not None, f"no condition {type_}"
    return found.status, found.reason, found.message


def true(*types: ConditionType) -> tuple[Condition, ...]:
    return tuple(
        Condition(
            type=t,
            status="True",
            observed_generation=1,
            last_transition_time="2026-01-01T00:00:00Z",
            reason="Before",
            message="before",
        )
        for t in types
    )


def whys(plan: Plan) -> dict[str, str]:
    return {f"{w.resource}/{w.name}": w.why for w in plan.writes if isinstance(w, Delete)}
