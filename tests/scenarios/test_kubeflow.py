"""What users of Kubeflow's kinds read on the way from a manifest to an end. How their jobs end, restart and clean up is
in tests/peers.

What training-operator 1.9 writes is said in its source: `UpdateJobStatus` of each controller, `pkg/util/status.go`,
`pkg/controller.v1/common/job.go`; names and labels in `common/pod.go` and `core/utils.go`.
"""

from __future__ import annotations

from typing import Any

import pytest

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


@pytest.mark.parametrize("policy", ["None", "Running", "All"])
def test_what_ran_at_the_success_counts_as_succeeded(policy: str) -> None:
    """training-operator's `ReconcileJobs`, whatever becomes of the pods; and nothing is looked at afterwards."""
    workers = role(2, run_seconds=30, exit_code=0)
    roles = {"Master": role(run_seconds=20, exit_code=0), "Worker": workers}
    w = world().apply(job(PYTORCH, roles, {"cleanPodPolicy": policy})).run()
    w.until("it is done", lambda: state(w) == "Succeeded")
    for _ in range(2):
        counts = {name: {k: v for k, v in c.items() if k != "selector"} for name, c in _counts(w)}
        assert counts == {"Master": {"succeeded": 1}, "Worker": {"succeeded": 2}}
        assert w.status()[MEMORY]["active"] == "0/3"
        w.advance(60)


def test_what_ran_at_the_failure_still_counts_as_running() -> None:
    roles = {"Master": role(restart="Never", **WRONG), "Worker": role(2)}
    w = world().apply(job(PYTORCH, roles, {"cleanPodPolicy": "Running"})).run()
    w.until("it has failed", lambda: state(w) == "Failed")
    counts = {name: {k: v for k, v in c.items() if k != "selector"} for name, c in _counts(w)}
    assert counts == {"Master": {"failed": 1}, "Worker": {"active": 2}}


def _counts(w: World) -> list[tuple[str, Json]]:
    return [*w.status()["replicaStatuses"].items()]


def test_a_job_that_is_created_suspended_has_no_start_until_it_is_resumed() -> None:
    """`UpdateJobStatus` sets it, to which no suspended job comes."""
    w = world().apply(job(PYTORCH, {"Worker": role(1)}, {"suspend": True})).run().advance(10)
    assert (state(w), "startTime" in w.status()) == ("Suspended", False)
    w.patch_job("digits", {"spec": {"runPolicy": {"suspend": False}}}).run()
    w.until("it runs", lambda: state(w) == "Running")
    assert w.status()["startTime"] == w.condition("Suspended")["lastTransitionTime"]


def test_suspended_and_resumed_as_kueue_does_it() -> None:
    w = world().apply(job(PYTORCH, {"Master": role(), "Worker": role(1)})).run()
    w.until("it runs", lambda: state(w) == "Running")
    w.patch_job("digits", {"spec": {"runPolicy": {"suspend": True}}}).run().advance(40)
    assert (list(w.pods()), state(w)) == ([], "Suspended")
    assert conditions(w)["Running"] == "False PyTorchJobSuspended"
    assert "active" not in w.status()["replicaStatuses"]["Master"]
    w.patch_job("digits", {"spec": {"runPolicy": {"suspend": False}}}).run()
    w.until("it runs again", lambda: state(w) == "Running")
    assert conditions(w)["Suspended"] == "False PyTorchJobResumed"


def test_a_restart_is_told_and_forgotten() -> None:
    w = world().apply(job(PYTORCH, {"Master": role(), "Worker": role(1, **WRONG)})).run()
    w.until("it restarts", lambda: state(w) == "Restarting")
    assert "Running" not in conditions(w)
    w.until("it runs", lambda: state(w) == "Running")
    assert "Restarting" not in conditions(w)


JOBS = "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs"
PREFIX = "training.kubeflow.org/"


def test_names_and_labels_of_pods_and_services_are_theirs() -> None:
    w = world().apply(job(PYTORCH, {"Master": role(), "Worker": role(2)})).run()
    for name, want in {
        M: {"replica-type": "master", "replica-index": "0", "job-role": "master"},
        W0: {"replica-type": "worker", "replica-index": "0"},
        W1: {"replica-type": "worker", "replica-index": "1"},
    }.items():
        told = w.pods()[name]["metadata"]["labels"]
        found = {key.removeprefix(PREFIX): value for key, value in told.items() if key.startswith(PREFIX)}
        assert found == {"job-name": "digits", "operator-name": "pytorchjob-controller"} | want
        owner = w.pods()[name]["metadata"]["ownerReferences"][0]
        assert (owner["apiVersion"], owner["kind"], owner["controller"]) == ("kubeflow.org/v1", PYTORCH, True)
    assert w.services() == [M, W0, W1]


def environment(world: World, pod: str) -> dict[str, str]:
    return {e["name"]: e["value"] for e in world.pods()[pod]["spec"]["containers"][0]["env"] if "value" in e}


def test_the_environment_is_what_training_operator_makes() -> None:
    """`setPodEnv` and `MasterEnvVarGenerator` of its PyTorchJob; what is here beside it is ours."""
    roles = {"Master": role(container="pytorch"), "Worker": role(2, container="pytorch")}
    w = world().apply(job(PYTORCH, roles, nprocPerNode="2")).run()
    common = {
        "PYTHONUNBUFFERED": "1",
        "MASTER_ADDR": M,
        "MASTER_PORT": "23456",
        "PET_MASTER_ADDR": M,
        "PET_MASTER_PORT": "23456",
        "WORLD_SIZE": "6",
        "PET_NPROC_PER_NODE": "2",
        "PET_NNODES": "3",
    }
    for rank, pod in enumerate((M, W0, W1)):
        want = common | {"RANK": str(rank), "PET_NODE_RANK": str(rank)}
        assert environment(w, pod).items() >= want.items()
        ports = w.pods()[pod]["spec"]["containers"][0]["ports"]
        assert [(port["name"], port["containerPort"]) for port in ports] == [("pytorchjob-port", 23456)]


def test_without_a_master_worker_0_has_its_label() -> None:
    w = world().apply(job(PYTORCH, {"Worker": role(2)})).run()
    have = [n for n, pod in sorted(w.pods().items()) if f"{PREFIX}job-role" in pod["metadata"]["labels"]]
    assert have == [W0]


def test_what_is_not_acted_on_is_told() -> None:
    policy = {"schedulingPolicy": {"queue": "q", "minAvailable": 1}}
    elastic = {"minReplicas": 1, "maxReplicas": 2, "metrics": [{"type": "Resource"}]}
    w = world().apply(job(PYTORCH, {"Worker": role(1)}, policy, elasticPolicy=elastic)).run()
    created = w.condition("Created")["message"]
    for name in ("schedulingPolicy.queue", "schedulingPolicy.minAvailable", "elasticPolicy.metrics"):
        assert name in created, created


def test_a_job_of_another_controller_is_left_alone() -> None:
    w = world().apply(job(PYTORCH, {"Worker": role(1)}, {"managedBy": "kueue.x-k8s.io/multikueue"})).run().advance(60)
    assert (w.status(), list(w.pods())) == ({}, [])


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


def test_it_is_deleted_after_its_ttl() -> None:
    run = {"ttlSecondsAfterFinished": 60}
    w = world().apply(job(PYTORCH, {"Master": role(**DONE)}, run)).run().advance(30)
    assert state(w) == "Succeeded"
    w.advance(90, step_seconds=10)
    assert w.cluster.client.get(JOBS)["items"] == []


def test_a_job_that_waits_for_its_pods_is_created_and_not_yet_running() -> None:
    w = world().apply(job(PYTORCH, {"Worker": role(1, start_seconds=30)})).run().advance(5)
    assert state(w) == "Created"
    w.until("it runs", lambda: state(w) == "Running")
    w.patch_job("digits", {"spec": {"runPolicy": {"suspend": True}}}).run().advance(40)
    assert list(conditions(w)) == ["Created", "Running", "Suspended"], "in the order of training-operator"
