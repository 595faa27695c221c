"""Two jobs on the network of one node, in real processes: each binds ports that no other has, finds its own peers by
them, and trains."""

from __future__ import annotations

import json
from typing import Any

from tests.frameworks.training import Json, Training, falls, image, need
from tests.support import fast_yaml as yaml
from tests.support.paths import ROOT
from tests.support.waiting import until

SITE = "lib/python3.11/site-packages"
JOBS = ("first", "second")


def manifest(name: str, node: str) -> Json:
    """The example, whose coordinator binds the number that the operator tells it."""
    job: Json = yaml.safe_load((ROOT / "examples/jax/job.yaml").read_text())
    job["metadata"] = {"name": name, "annotations": {"kubedl.io/network-mode": "host"}}
    template = job["spec"]["replicaSpecs"]["worker"]["template"]["spec"]
    template["nodeSelector"] = {"kubernetes.io/hostname": node}
    template["containers"][0]["env"] = [{"name": n, "value": v} for n, v in image("jax").items()]
    return job


def ports(pod: Json) -> list[int]:
    return [port["hostPort"] for container in pod["spec"]["containers"] for port in container.get("ports", ())]


def placed(training: Training, name: str) -> dict[str, Json]:
    """Pods of the job that have a node and its address."""
    return {pod: of for pod, of in training.pods(name).items() if of["status"].get("podIP")}


def test_two_jobs_on_one_node_get_ports_of_their_own_and_train(training: Training) -> None:
    need(f"{SITE}/jax")
    node: Any = json.loads(training.kubectl("get", "nodes", "-o", "json"))["items"][0]
    both = [manifest(name, node["metadata"]["name"]) for name in JOBS]
    training.kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump_all(both))
    until("all six are placed", lambda: all(len(placed(training, name)) == 3 for name in JOBS), look_seconds=0.2)
    pods = {pod: of for name in JOBS for pod, of in placed(training, name).items()}
    (address,) = [a["address"] for a in node["status"]["addresses"] if a["type"] == "InternalIP"]
    assert {(of["spec"]["nodeName"], of["status"]["podIP"]) for of in pods.values()} == {
        (node["metadata"]["name"], address)
    }
    bound = [port for of in pods.values() for port in ports(of)]
    assert len(bound) == len(set(bound)) == 6, bound
    for name in JOBS:
        assert training.ended(name) == "Succeed", training.story(name)
        log = training.log(f"{name}-worker-0")
        assert "process 0 of 3, 3072 rows in all" in log, training.story(name)
        falls(log, 40)
        training.kubectl("delete", "aitj", name)
