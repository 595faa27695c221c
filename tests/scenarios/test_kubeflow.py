"""What users of Kubeflow's kinds read on the way from a manifest to an end. Their pods are in test_guest_pods; how
their jobs end, restart, are suspended and clean up is in tests/peers.

What training-operator 1.9 writes is said in its source: `UpdateJobStatus` of each controller, `pkg/util/status.go`,
`pkg/controller.v1/common/job.go`; names and labels in `common/pod.go` and `core/utils.go`.
"""

from __future__ import annotations

from typing import Any

from tests.scenarios.world import World, play
from tjworker.api.kinds import kubeflow
from tjworker.api.kinds.base import MEMORY

Json = dict[str, Any]
KINDS = {kind.kind: kind for kind in kubeflow.JOB_KINDS}
SPECS = {kind: made.scale_spec_path.split(".")[2] for kind, made in KINDS.items()}


def world(**settings: Any) -> World:
    return World(kinds=",".join(kind.resource for kind in kubeflow.JOB_KINDS), **settings)


def role(replicas: int | None = 1, restart: str = "", container: str = "main", **annotations: object) -> Json:
    template = {
        "metadata": {"annotations": play(**annotations)},
        "spec": {"containers": [{"name": container, "image": "trainer:1"}]},
    }
    made = {"replicas": replicas, "restartPolicy": restart or None, "template": template}
    return {name: value for name, value in made.items() if value is not None}


def job(kind: str, roles: dict[str, Json], run: Json | None = None, **spec: Any) -> Json:
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": kind,
        "metadata": {"name": "digits"},
        "spec": {SPECS[kind]: roles, **({"runPolicy": run} if run else {}), **spec},
    }


def conditions(world: World) -> dict[str, str]:
    """In their order: type -> status and reason."""
    return {c["type"]: f"{c['status']} {c['reason']}" for c in world.status()["conditions"]}


def state(world: World) -> str:
    """The column State."""
    return str(world.status()["conditions"][-1]["type"])


DONE: Json = {"run_seconds": 5, "exit_code": 0}
WRONG: Json = {"run_seconds": 5, "exit_code": 1}
PYTORCH = "PyTorchJob"
M, W0, W1 = "digits-master-0", "digits-worker-0", "digits-worker-1"


def test_what_its_users_read_while_it_runs_and_when_it_is_done() -> None:
    w = world().apply(job(PYTORCH, {"Master": role(run_seconds=20, exit_code=0), "Worker": role(2)})).run()
    w.until("it runs", lambda: state(w) == "Running")
    running = w.status()
    assert conditions(w) == {"Created": "True PyTorchJobCreated", "Running": "True PyTorchJobRunning"}
    assert running["conditions"][1]["message"] == "PyTorchJob digits is running."
    labels = "training.kubeflow.org/job-name=digits,training.kubeflow.org/operator-name=pytorchjob-controller"
    assert running["replicaStatuses"] == {
        "Master": {"active": 1, "selector": f"{labels},training.kubeflow.org/replica-type=master"},
        "Worker": {"active": 2, "selector": f"{labels},training.kubeflow.org/replica-type=worker"},
    }
    assert running["startTime"] <= running["lastReconcileTime"]
    for one in running["conditions"]:
        assert one["lastUpdateTime"] == one["lastTransitionTime"]
    w.advance(40)
    assert conditions(w) == {
        "Created": "True PyTorchJobCreated",
        "Running": "False PyTorchJobRunning",
        "Succeeded": "True PyTorchJobSucceeded",
    }
    assert w.status()["replicaStatuses"]["Master"]["succeeded"] == 1


def test_a_restart_is_told_and_forgotten() -> None:
    w = world().apply(job(PYTORCH, {"Master": role(), "Worker": role(1, **WRONG)})).run()
    w.until("it restarts", lambda: state(w) == "Restarting")
    assert "Running" not in conditions(w)
    w.until("it runs", lambda: state(w) == "Running")
    assert "Restarting" not in conditions(w)


PREFIX = "training.kubeflow.org/"
JOBS = "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs"


def environment(world: World, pod: str) -> dict[str, str]:
    return {e["name"]: e["value"] for e in world.pods()[pod]["spec"]["containers"][0]["env"] if "value" in e}


def test_scaled_by_its_users_and_told_through_the_scale_subresource() -> None:
    elastic = {"minReplicas": 1, "maxReplicas": 4}
    w = world().apply(job(PYTORCH, {"Worker": role(2)}, elasticPolicy=elastic)).run()
    w.until("it runs", lambda: state(w) == "Running")
    w.scale("digits", 4).run().advance(10)
    assert len(w.pods()) == 4
    scale = w.cluster.client.get(f"{JOBS}/digits/scale")
    assert (scale["spec"]["replicas"], scale["status"]["replicas"]) == (4, 4)
    assert scale["status"]["selector"] == w.status()["replicaStatuses"]["Worker"]["selector"]


def test_an_autoscaled_job_is_moved_where_it_says_so() -> None:
    made = job(PYTORCH, {"Worker": role(1)}, elasticPolicy={"minReplicas": 1, "maxReplicas": 3})
    made["metadata"]["annotations"] = {"elasticdeeplearning.ai/edl-policy": "Auto"}
    w = world(nodes=2, autoscale_cooldown_seconds=0).apply(made).run()
    w.until("it runs", lambda: state(w) == "Running")
    w.make_runtime("autoscaler").autoscaler.run()
    w.run().advance(5)
    assert w.status()[MEMORY]["targets"] == {"Worker": 3}
    assert len(w.pods()) == 3


def test_a_restarted_watcher_and_an_orphan_collector_know_it() -> None:
    w = world().apply(job(PYTORCH, {"Master": role(), "Worker": role(1)})).run()
    before = w.uids()
    w.start_watcher()
    w.run().advance(200, step_seconds=20)
    assert w.make_runtime("orphans").orphans.collect() == (0, 0)
    assert w.uids() == before
    w.delete("digits").run().advance(40)
    assert list(w.pods()) == []
