"""Jobs whose pods are real containers on a real node."""

from __future__ import annotations

import json

from tests.cluster.cluster import NAME, Cluster, Json
from tests.cluster.images import TOOL


def role(arguments: list[str], *, replicas: int = 1, **container: object) -> Json:
    main = {"name": "aitj-main", "image": TOOL, "args": arguments, **container}
    spec = {"terminationGracePeriodSeconds": 1, "containers": [main]}
    return {"replicas": replicas, "template": {"spec": spec}}


def apply(cluster: Cluster, name: str, roles: Json, **spec: object) -> None:
    cluster.operator.check()
    job = {"apiVersion": "elasticdeeplearning.ai/v1", "kind": "AITrainingJob", "metadata": {"name": name}}
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps({**job, "spec": {**spec, "replicaSpecs": roles}}))


def phase(cluster: Cluster, name: str) -> str:
    return str(cluster.job(name).get("status", {}).get("phase", ""))


def test_a_job_of_containers_that_end_well_succeeds(cluster: Cluster) -> None:
    apply(cluster, "good", {"trainer": role(["exit", "0"], replicas=2)})
    cluster.until("it has succeeded", lambda: phase(cluster, "good") == "Succeed")


def test_a_replica_that_the_kernel_kills_for_memory_is_the_programs_failure_and_restarted(cluster: Cluster) -> None:
    greedy = role(["memory", "100"], resources={"limits": {"memory": "32Mi"}})
    policy: Json = {"restartPolicy": "OnFailure", "restartScope": "Pod", "restartLimit": 1}
    apply(cluster, "greedy", {"trainer": {**greedy, **policy}}, cleanPodPolicy="None")
    cluster.until("its limit is used up", lambda: phase(cluster, "greedy") == "Failed")
    failures = cluster.job("greedy")["status"]["failures"]
    # A node's failure would be replaced without end: that the limit is used up says whose it is.
    assert [(f["node"], f["exitCode"], f["reason"]) for f in failures] == [(NAME, 137, "OOMKilled")] * 2


def test_the_log_of_a_failed_container_is_in_the_status(cluster: Cluster) -> None:
    apply(cluster, "talker", {"trainer": {**role(["exit", "3"]), "restartPolicy": "Never"}})
    cluster.until("it has failed", lambda: phase(cluster, "talker") == "Failed")
    (failure,) = cluster.job("talker")["status"]["failures"]
    assert (failure["exitCode"], failure["logTail"].strip()) == (3, "the last line of the log")
