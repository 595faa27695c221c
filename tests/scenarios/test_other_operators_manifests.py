"""Manifests that people wrote for the operators before this one are applied as they are, and their jobs run to their
end.

TJ_PEER_MANIFESTS names the folder with them; they are not ours to ship.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from localcluster.kubelet.play import Play
from tests.scenarios.world import World
from tests.support import fast_yaml as yaml
from tjworker.api.resources import REPLICASETS

FOLDER = os.environ.get("TJ_PEER_MANIFESTS", "")

pytestmark = pytest.mark.skipif(
    not FOLDER, reason="TJ_PEER_MANIFESTS names no folder with manifests for other operators"
)


def documents(name: str) -> list[Any]:
    return list(yaml.safe_load_all((Path(FOLDER) / name).read_text(encoding="utf-8")))


def apply_as_it_is(world: World, name: str) -> None:
    world.apply(documents(name)[0]).run()


def test_paddle_mnist_runs_survives_a_kill_and_succeeds() -> None:
    world = World()
    world.cluster.kubelet.script = lambda pod, attempt: Play(run_seconds=5, exit_code=137 if attempt == 1 else 0)
    apply_as_it_is(world, "aitj-paddle-mnist.yaml")
    assert world.phase("paddle-mnist") == "Running"
    pod = world.pods()["paddle-mnist-trainer-0"]
    assert (pod["spec"]["hostNetwork"], pod["spec"]["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
    env = {e["name"]: e.get("value") for e in pod["spec"]["containers"][0]["env"]}
    assert (env["TRAINER_PORTS"], env["TRAINER_INSTANCES_NUM"]) == ("24446", "1")
    world.until("it is restarted", lambda: world.status("paddle-mnist").get("restarts") == 1)
    world.until("it succeeds", lambda: world.phase("paddle-mnist") == "Succeed")
    assert (world.pods(), world.services()) == ({}, [])


def test_paddle_mnist_may_be_killed_only_once() -> None:
    world = World()
    world.cluster.kubelet.script = lambda pod, attempt: Play(run_seconds=5, exit_code=137)
    apply_as_it_is(world, "aitj-paddle-mnist.yaml")
    world.until("it fails", lambda: world.phase("paddle-mnist") == "Failed")
    assert "restartLimit 1 of role trainer is used up" in world.status("paddle-mnist")["message"]


def trainers(world: World) -> dict[str, Any]:
    """Those that live, by name."""
    return {
        n: p
        for n, p in world.pods().items()
        if p["metadata"]["labels"]["replica-type"] == "trainer"
        and p["status"].get("phase") not in ("Succeeded", "Failed")
        and not p["metadata"].get("deletionTimestamp")
    }


def test_examplejob_runs_is_scaled_loses_a_trainer_and_succeeds() -> None:
    """The EDL operator's own example: v1alpha1, elastic from 2 to 6."""
    world = World(nodes=3)
    world.cluster.kubelet.script = lambda pod, attempt: (
        Play(run_seconds=60) if pod["spec"]["containers"][0]["name"] == "trainer" else Play()
    )
    apply_as_it_is(world, "tj-examplejob.yaml")
    assert world.phase("examplejob") == "Running"
    assert {n: o["spec"]["replicas"] for n, o in world.owners(REPLICASETS).items()} == {
        "examplejob-master": 1,
        "examplejob-pserver": 2,
    }
    assert [pod["spec"]["containers"][0]["command"] for pod in trainers(world).values()] == [
        ["python", "/root/mock_trainer.py"]
    ] * 2
    before = set(trainers(world))

    world.scale("examplejob", 6)
    world.until("six trainers run", lambda: len(trainers(world)) == 6 and world.phase("examplejob") == "Running")
    assert before <= set(trainers(world)), "who ran goes on"
    gone = min(before)
    world.delete_pod(gone)
    world.until("six again", lambda: len(trainers(world)) == 6 and gone not in trainers(world))
    numbers = sorted(
        p["metadata"]["labels"].get("default/examplejob-trainer-idx", "") for p in trainers(world).values()
    )
    assert numbers == list("012345")

    world.until("it succeeds", lambda: world.phase("examplejob") == "Succeed", within_seconds=180)
    assert world.pods() == {}
    assert world.status("examplejob")["released"] is True


def test_the_kube_batch_example_waits_for_its_scheduler_and_its_group() -> None:
    """Its pods name the scheduler `kube-batchd` and the group beside them; the test that plays that scheduler has them
    run."""
    job, group = documents("tj-with-kube-batch.yaml")
    world = World()
    world.cluster.client.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", _crd_of(group))
    world.cluster.client.create(f"/apis/{group['apiVersion']}/namespaces/default/podgroups", group)
    world.cluster.kubelet.script = lambda pod, attempt: (
        Play(run_seconds=20) if pod["spec"]["containers"][0]["name"] == "trainer" else Play()
    )
    name: str = job["metadata"]["name"]
    world.apply(job).run()
    assert world.phase(name) == "Pending", "no other scheduler takes them"
    waiting = world.pods()
    assert len(waiting) == 5 == group["spec"]["numMember"]
    for pod in waiting.values():
        assert pod["spec"]["schedulerName"] == "kube-batchd"
        assert pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] == group["metadata"]["name"]
    for waits in waiting:
        world.cluster.client.create(
            f"/api/v1/namespaces/default/pods/{waits}/binding",
            {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": waits},
                "target": {"kind": "Node", "name": "node-0"},
            },
        )
    world.run()
    assert world.phase(name) == "Running"
    world.until("it succeeds", lambda: world.phase(name) == "Succeed")
    assert world.get(REPLICASETS)["items"][0]["spec"]["replicas"] == 0


def _crd_of(group: Any) -> Any:
    name, _, version = group["apiVersion"].partition("/")
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"podgroups.{name}"},
        "spec": {
            "group": name,
            "scope": "Namespaced",
            "names": {"plural": "podgroups", "kind": group["kind"]},
            "versions": [{"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }
