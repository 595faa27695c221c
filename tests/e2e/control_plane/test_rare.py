"""What the operator asks for in rare cases alone, on the real control plane with the shipped roles: the names that it
wants are taken, something is there that no role wants, an elastic job of the older kind grows."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.control_plane.operator import Operator
from tests.e2e.control_plane.world import RealWorld
from tests.scenarios.world import job, role, training_job
from tjworker.api import labels
from tjworker.api.resources import BATCH_JOBS, PODS, REPLICASETS, SERVICES
from tjworker.base import GroupResource

Json = dict[str, Any]
_CONTAINERS = [{"name": "c", "image": "x"}]
_SPECS: dict[GroupResource, Json] = {
    PODS: {"containers": _CONTAINERS},
    SERVICES: {"ports": [{"port": 80}]},
    REPLICASETS: {
        "replicas": 0,
        "selector": {"matchLabels": {"foreign": "yes"}},
        "template": {"metadata": {"labels": {"foreign": "yes"}}, "spec": {"containers": _CONTAINERS}},
    },
    BATCH_JOBS: {"parallelism": 0, "template": {"spec": {"containers": _CONTAINERS, "restartPolicy": "Never"}}},
}


@pytest.mark.parametrize(
    ("resource", "name", "manifest"),
    [
        (PODS, "digits-trainer-0", job({"trainer": role(1)})),
        (SERVICES, "digits-trainer-0", job({"trainer": role(1)})),
        (REPLICASETS, "digits-pserver", training_job(least=1, pservers=1)),
        (BATCH_JOBS, "digits-trainer", training_job(least=1, pservers=1)),
    ],
    ids=["pod", "service", "ReplicaSet", "Job"],
)
def test_a_name_that_is_taken_is_looked_at_and_named(
    resource: GroupResource, name: str, manifest: Json, world: RealWorld
) -> None:
    world.create(resource, {"metadata": {"name": name}, "spec": _SPECS[resource]})
    world.apply(manifest)
    taken = f'"{name}" exists already and does not belong to this job'
    world.until("the job says so", lambda: taken in world.condition("Running").get("message", ""))
    assert world.requests()[f"get {resource.partition('.')[0]}"] >= 1


def test_what_no_role_of_a_job_wants_is_removed(world: RealWorld) -> None:
    world.apply(training_job(least=1, pservers=1))
    world.until("it runs", lambda: world.phase() == "Running")
    for resource, like in ((REPLICASETS, "digits-pserver"), (BATCH_JOBS, "digits-trainer")):
        live = world.owners(resource)[like]["metadata"]
        told = {**live["labels"], labels.REPLICA_NAME: "gone"}
        meta = {"name": "left-behind", "labels": told, "ownerReferences": live["ownerReferences"]}
        world.create(resource, {"metadata": meta, "spec": _SPECS[resource]})
    world.until(
        "they are gone",
        lambda: not any("left-behind" in world.owners(resource) for resource in (REPLICASETS, BATCH_JOBS)),
    )


def test_the_autoscaler_writes_the_target_of_a_training_job(operator: Operator, world: RealWorld) -> None:
    elastic = training_job(most=2, least=1, fault_tolerant=True)
    elastic["spec"]["trainer"]["resources"] = {"requests": {"cpu": "1"}}
    world.apply(elastic)
    world.until("it runs", lambda: world.phase() == "Running")
    with operator.autoscaling():
        world.until("it is to have two", lambda: world.owners(BATCH_JOBS)["digits-trainer"]["spec"]["parallelism"] == 2)
    assert world.requests()["patch trainingjobs/status"] >= 1
