"""A PyTorchJob as the training-operator's users write one, in place of our AITrainingJob: as many pods of the same
container, the same clean-up."""

from __future__ import annotations

from benchmarks import loads
from benchmarks.wire import Json

PATH = "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs"


def job(name: str, replicas: int, *, run_seconds: float | None = None) -> Json:
    """One Master, the others Workers."""
    template = loads.job(name, 1, run_seconds=run_seconds)["spec"]["replicaSpecs"]["trainer"]["template"]
    template["spec"]["containers"][0] |= {
        "name": "pytorch",
        "ports": [{"name": "pytorchjob-port", "containerPort": 2222}],
    }
    roles = {"Master": 1, "Worker": replicas - 1}
    specs = {
        role: {"replicas": count, "restartPolicy": "OnFailure", "template": template}
        for role, count in roles.items()
        if count
    }
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"runPolicy": {"cleanPodPolicy": "All"}, "pytorchReplicaSpecs": specs},
    }


def phase(raw: Json) -> str:
    """In our words. Its own condition Running is there as soon as the Master runs; ours means every replica, so that is
    what is waited for."""
    status = raw.get("status") or {}
    if any(c["type"] == "Succeeded" and c["status"] == "True" for c in status.get("conditions") or ()):
        return "Succeed"
    wanted = sum(spec["replicas"] for spec in raw["spec"]["pytorchReplicaSpecs"].values())
    counts = [c.get("active", 0) + c.get("succeeded", 0) for c in (status.get("replicaStatuses") or {}).values()]
    return "Running" if sum(counts) == wanted else ""


PYTORCHJOBS = loads.Kind(PATH, job, phase)
