"""A framework is one object and one row of FRAMEWORKS: its port, variables, master and order reach every object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, get_args

import pytest

from tests.support.builders import make_job
from tests.unit.tjworker.reconcile.passes import created, decide
from tjworker.api.model import FrameworkType, GuestFramework, Role, TrainingJob
from tjworker.api.naming import Port, service_name
from tjworker.reconcile import frameworks
from tjworker.reconcile.frameworks import find_framework
from tjworker.reconcile.frameworks.framework import Env, Framework
from tjworker.reconcile.plan import Create

PORT = Port("gossip-port", 4321)


@dataclass(frozen=True, slots=True)
class Gossip(Framework):
    """Worker 0 is the master, and workers are made before servers."""

    def environment(self, job: TrainingJob, role: Role, index: int | None) -> Env:
        return {"GOSSIP_RANK": str(index), "GOSSIP_SEED": f"{service_name(job.name.name, 'worker', 0)}:4321"}


def pods(job: TrainingJob) -> dict[str, Mapping[str, Any]]:
    return {w.name: w.body for w in decide(job).writes if isinstance(w, Create) and w.resource == "pods"}


def env(body: Mapping[str, Any], container: int = 0) -> dict[str, str]:
    return {e["name"]: e.get("value", "") for e in body["spec"]["containers"][container]["env"]}


def gossip(containers: list[dict[str, Any]]) -> TrainingJob:
    template = {"spec": {"containers": containers}}
    roles = {name: {"replicas": 2 if name == "worker" else 1, "template": template} for name in ("server", "worker")}
    return replace(make_job().spec(replicaSpecs=roles).build(), framework="gossip")


@pytest.fixture(autouse=True)
def _a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        frameworks, "FRAMEWORKS", {**frameworks.FRAMEWORKS, "gossip": Gossip("gossip", PORT, first=("worker",))}
    )


def test_its_port_is_that_of_services_environment_and_the_container_it_names() -> None:
    job = gossip([{"name": "side", "image": "i"}, {"name": "gossip", "image": "i"}])
    assert created(decide(job), "services") == ["digits-worker-0", "digits-worker-1", "digits-server-0"]
    service = next(w for w in decide(job).writes if isinstance(w, Create) and w.resource == "services")
    assert [p["port"] for p in service.body["spec"]["ports"]] == [4321]
    side, main = pods(job)["digits-worker-0"]["spec"]["containers"]
    assert ("ports" not in side, main["ports"]) == (True, [{"name": "gossip-port", "containerPort": 4321}])
    assert env(pods(job)["digits-worker-1"])["SERVER_HOSTS"] == "digits-server-0:4321"


def test_every_type_of_the_schema_has_a_row_and_every_row_a_type() -> None:
    assert {*get_args(FrameworkType), *get_args(GuestFramework)} - {""} == set(frameworks.FRAMEWORKS) - {"gossip"}


@pytest.mark.parametrize("roles", [("actor", "master"), ("master", "worker"), ("a", "b", "master", "z")], ids=",".join)
@pytest.mark.parametrize(
    ("framework", "variable"),
    [("pytorch", "RANK"), ("xgboost", "RANK"), ("paddle", "PADDLE_RANK"), ("jax", "PROCESS_ID")],
)
def test_each_replica_has_a_rank_and_the_one_that_others_look_for_has_the_first(
    framework: str, variable: str, roles: tuple[str, ...]
) -> None:
    """Whatever the roles are called: the process of rank 0 is the one that listens."""
    builder = make_job().spec(frameworkType=framework)
    for role in roles:
        builder = builder.role(role, 1 if role == "master" else 2)
    job = builder.build()
    made = find_framework(job)
    ranks = {
        (role.name, index): str(made.environment(job, role, index)[variable])
        for role in job.roles
        for index in range(role.replicas)
    }
    assert sorted(ranks.values()) == [str(n) for n in range(len(ranks))]
    assert ranks[made.head(job).name, 0] == "0"
