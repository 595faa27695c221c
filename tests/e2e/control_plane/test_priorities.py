"""A job's priority on the real API server, with the RBAC as shipped: admission gives the pod what the class says."""

from __future__ import annotations

import json

from tests.e2e.control_plane.install import kubectl
from tests.e2e.control_plane.world import RealWorld
from tests.scenarios.world import job, play, role


def test_pods_get_the_priority_class_of_their_jobs_priority(world: RealWorld) -> None:
    name = f"{world.namespace}-urgent"
    kubectl(
        world.operator.plane.kubeconfig,
        "apply",
        "-f",
        "-",
        stdin=json.dumps(
            {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": 1000}
        ),
    )
    world.apply(job({"trainer": role(1, annotations=play())}, priority=name))
    world.apply(job({"trainer": role(1, annotations=play())}, name="other", priority="no-such-class"))
    world.until("both run", lambda: (world.phase(), world.phase("other")) == ("Running", "Running"))
    pods = world.pods()
    assert (pods["digits-trainer-0"]["spec"]["priorityClassName"], pods["digits-trainer-0"]["spec"]["priority"]) == (
        name,
        1000,
    )
    assert pods["other-trainer-0"]["metadata"]["labels"]["priority"] == "no-such-class"
    assert "priorityClassName" not in pods["other-trainer-0"]["spec"]


def test_a_label_that_is_taken_off_is_put_back(world: RealWorld) -> None:
    world.apply(job({"trainer": role(1, annotations=play())}))
    world.until("it runs", lambda: world.phase() == "Running")
    before = world.pods()["digits-trainer-0"]["metadata"]
    kubectl(
        world.operator.plane.kubeconfig,
        "-n",
        world.namespace,
        "label",
        "pod",
        "digits-trainer-0",
        "replica-index-",
        "replica-type=mine",
        "--overwrite",
    )
    world.until("it is back", lambda: world.pods()["digits-trainer-0"]["metadata"]["labels"] == before["labels"])
    assert world.uids()["digits-trainer-0"] == before["uid"]
    world.quiet()
    assert world.requests()["patch pods"] == 1
