"""TrainJobs and runtimes for tests. `RUNTIMES` are the stock runtimes of Kubeflow Trainer 2.3, field by field
(manifests/base/runtimes)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tjworker.api.kinds.base import RESOLVED
from tjworker.api.kinds.trainer import trainjob
from tjworker.api.model import InvalidJob, TrainingJob

Json = dict[str, Any]
API = "trainer.kubeflow.org/v1alpha1"
STEP = "trainer.kubeflow.org/trainjob-ancestor-step"
FRAMEWORK = "trainer.kubeflow.org/framework"
RESOURCE = trainjob.RESOURCE
PATH = f"/apis/{API}/namespaces/default/trainjobs"
RUNTIME_PATH = f"/apis/{API}/clustertrainingruntimes"


def replicated(name: str, *, step: str = "", after: Json | None = None, pod: Json | None = None, **spec: Any) -> Json:
    """A replicated job whose one container has the name `node`, or that of its initializer."""
    container = {"name": name if name.endswith("-initializer") else "node", "image": "trainer:1"}
    pod_spec = {"containers": [container], **(pod or {})}
    made: Json = {"name": name, "template": {"spec": {"template": {"spec": pod_spec}, **spec}}}
    if step:
        made["template"]["metadata"] = {"labels": {STEP: step}}
    if after:
        made["dependsOn"] = [{"name": other, "status": status} for other, status in after.items()]
    return made


def runtime(*jobs: Json, name: str = "torch-distributed", policy: Json | None = None, **jobset: Any) -> Json:
    listed = list(jobs) or [replicated("node", step="trainer")]
    return {
        "apiVersion": API,
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": name, "labels": {FRAMEWORK: name.partition("-")[0]}},
        "spec": {
            "mlPolicy": {"numNodes": 1, "torch": {}} if policy is None else policy,
            "template": {"spec": {"replicatedJobs": listed, **jobset}},
        },
    }


_SSHD: Json = {
    "name": "node",
    "image": "ghcr.io/kubeflow/trainer/deepspeed-runtime",
    "securityContext": {"runAsUser": 1000, "runAsGroup": 1000},
}
_GROUP: Json = {"securityContext": {"fsGroup": 1000}}
_SERVES: Json = {
    **_SSHD,
    "command": ["/usr/sbin/sshd"],
    "args": ["-De", "-f", "/home/mpiuser/.sshd_config"],
    "readinessProbe": {"tcpSocket": {"port": 2222}, "initialDelaySeconds": 5},
}
CLAIM: Json = {
    "metadata": {"name": "initializer"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "20Gi"}}},
}


def _fetcher(name: str, uri: str) -> Json:
    return {
        "containers": [
            {
                "name": name,
                "image": f"ghcr.io/kubeflow/trainer/{name}",
                "env": [{"name": "STORAGE_URI", "value": uri}],
                "volumeMounts": [{"name": "initializer", "mountPath": "/workspace"}],
            }
        ]
    }


_TUNES: Json = {
    "containers": [
        {
            "name": "node",
            "image": "ghcr.io/kubeflow/trainer/torchtune-trainer",
            "command": [
                *("tune", "run", "--rdzv_endpoint=localhost:29500", "full_finetune_distributed"),
                *("--config", "llama3_2/1B_full", "output_dir=/workspace/output"),
                "tokenizer.path=/workspace/model/original/tokenizer.model",
                "checkpointer.checkpoint_dir=/workspace/model",
            ],
            "resources": {"limits": {"nvidia.com/gpu": 2}},
            "volumeMounts": [{"name": "initializer", "mountPath": "/workspace"}],
        }
    ]
}

RUNTIMES: Mapping[str, Json] = {
    made["metadata"]["name"]: made
    for made in (
        runtime(),
        runtime(name="jax-distributed", policy={"numNodes": 1, "jax": {}}),
        runtime(name="xgboost-distributed", policy={"numNodes": 1, "xgboost": {}}),
        runtime(name="plain", policy={"numNodes": 1}),
        runtime(
            replicated("node", pod={**_GROUP, "containers": [_SERVES]}),
            replicated("launcher", step="trainer", after={"node": "Ready"}, pod={**_GROUP, "containers": [_SSHD]}),
            name="deepspeed-distributed",
            policy={
                "numNodes": 1,
                "mpi": {
                    "numProcPerNode": 1,
                    "mpiImplementation": "OpenMPI",
                    "sshAuthMountPath": "/home/mpiuser/.ssh",
                    "runLauncherAsNode": True,
                },
            },
            network={"publishNotReadyAddresses": True},
            successPolicy={"operator": "All", "targetReplicatedJobs": ["launcher"]},
        ),
        runtime(
            replicated(
                "dataset-initializer",
                step="dataset-initializer",
                pod=_fetcher("dataset-initializer", "hf://tatsu-lab/alpaca"),
            ),
            replicated(
                "model-initializer",
                step="model-initializer",
                pod=_fetcher("model-initializer", "hf://meta-llama/Llama-3.2-1B-Instruct"),
            ),
            replicated(
                "node",
                step="trainer",
                after={"dataset-initializer": "Complete", "model-initializer": "Complete"},
                pod=_TUNES,
            ),
            name="torchtune-llama3.2-1b",
            volumeClaimPolicies=[{"templates": [CLAIM]}],
        ),
    )
}


def train_job(runtime_name: str = "torch-distributed", *, name: str = "digits", **spec: Any) -> Json:
    """`annotations` and `labels` are the metadata's; anything else is a field of the spec."""
    metadata: Json = {"name": name, "namespace": "default"}
    metadata |= {field: spec.pop(field) for field in ("annotations", "labels") if field in spec}
    ref = {"name": runtime_name, "kind": "ClusterTrainingRuntime"}
    return {"apiVersion": API, "kind": "TrainJob", "metadata": metadata, "spec": {"runtimeRef": ref, **spec}}


def read(job: Json, of: Json | None = None) -> TrainingJob | InvalidJob:
    """The job as a worker reads it, with its runtime; by default the stock one of its name."""
    metadata = {"uid": "uid-1", "resourceVersion": "7", "generation": 1, **job["metadata"]}
    found = RUNTIMES[job["spec"]["runtimeRef"]["name"]] if of is None else of
    return trainjob.parse({**job, "metadata": metadata, RESOLVED: trainjob.JOB_KIND.snapshot(found)})


def read_job(job: Json, of: Json | None = None) -> TrainingJob:
    made = read(job, of)
    assert isinstance(made, TrainingJob), made.errors
    return made
