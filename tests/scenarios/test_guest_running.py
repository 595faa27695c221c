"""The condition Running of another operator's kind while a job is scaled and when it ends. When it is True first is in
tests/peers. Kueue's PodsReady, `wait_for_job_conditions` of Kubeflow's SDK and the column State read it.
"""

from __future__ import annotations

from typing import Any

from tests.scenarios.test_kubeflow import conditions, role, state
from tests.scenarios.world import World
from tests.support.guests import KIND_OF
from tjworker.api.kinds.base import MEMORY
from tjworker.api.resources import EVENTS
from tjworker.base import GroupResource

Json = dict[str, Any]
LATE: Json = {"start_seconds": 600}


def made(kind: str, roles: dict[str, Json], version: str = "", **spec: Any) -> Json:
    of = KIND_OF[GroupResource(kind)]
    return {
        "apiVersion": f"{of.group}/{version}" if version else of.api_versions[0],
        "kind": of.kind,
        "metadata": {"name": "digits"},
        "spec": {of.roles_field: roles, **spec},
    }


ELASTIC: Json = {"minReplicas": 1, "maxReplicas": 4}


def test_an_elastic_job_runs_while_one_of_its_workers_finds_no_node_and_while_it_is_scaled() -> None:
    kind, worker = "pytorchjobs.kubeflow.org", role(2)
    resources = {"requests": {"cpu": "5"}}
    worker["template"]["spec"]["containers"][0]["resources"] = resources
    w = World(kinds=kind, nodes=2).apply(made(kind, {"Worker": worker}, elasticPolicy=ELASTIC)).run()
    w.until("it runs", lambda: state(w) == "Running")
    since = next(c for c in w.status()["conditions"] if c["type"] == "Running")["lastTransitionTime"]
    w.scale("digits", 4)
    for _ in range(30):
        w.run().advance(1)
        assert conditions(w)["Running"] == "True PyTorchJobRunning"
    waits = w.status()[MEMORY]
    assert (waits["phase"], "has no node" in waits["message"]) == ("Scaling", True)
    told = [e["reason"] for e in w.get(EVENTS)["items"] if e["involvedObject"]["kind"] == "PyTorchJob"]
    assert sorted(told) == ["Running", "Scaling", "Unschedulable"]
    after = next(c for c in w.status()["conditions"] if c["type"] == "Running")
    assert after["lastTransitionTime"] == since


def test_an_mpijob_runs_on_while_a_worker_is_added() -> None:
    """mpi-operator sets the condition when launcher and all workers run, and takes it back at the end alone."""
    kind = "mpijobs.kubeflow.org"
    w = World(kinds=kind).apply(made(kind, {"Launcher": role(), "Worker": role(1)})).run()
    w.until("it runs", lambda: state(w) == "Running")
    added = role(2, **LATE)
    w.patch_job("digits", {"spec": {"mpiReplicaSpecs": {"Worker": added}}}).run().advance(30)
    assert (state(w), w.status()[MEMORY]["phase"]) == ("Running", "Scaling")


def test_what_a_worker_waited_for_stands_beside_the_jobs_end() -> None:
    kind, worker = "pytorchjobs.kubeflow.org", role(1)
    worker["template"]["spec"]["nodeSelector"] = {"disk": "none"}
    run = {"activeDeadlineSeconds": 20}
    w = World(kinds=kind).apply(made(kind, {"Master": role(), "Worker": worker}, runPolicy=run)).run().advance(5)
    assert state(w) == "Running"
    w.advance(60)
    running = next(c for c in w.status()["conditions"] if c["type"] == "Running")
    assert (state(w), running["status"]) == ("Failed", "False")
    assert "before that Unschedulable: pod digits-worker-0" in running["message"]
