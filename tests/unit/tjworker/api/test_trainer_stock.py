"""Pods of a TrainJob of two nodes with each stock runtime of Kubeflow Trainer 2.3, as its builder makes them
(pkg/runtime/framework/plugins/jobset/builder.go, plugins/torch, mpi, jax, xgboost).

Trainer's own manifests are read where TJ_PEER_MANIFESTS names a folder that has them (`manifests/base/runtimes`); else
the copies field by field of `tests/support/trainer.py`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support import fast_yaml as yaml
from tests.support.trainer import RUNTIMES, read_job, train_job
from tjworker.reconcile.workloads.podbody import pod_body

Json = dict[str, Any]
FOLDER = os.environ.get("TJ_PEER_MANIFESTS", "")
RANK = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
NAME = "metadata.labels['jobset.sigs.k8s.io/jobset-name']"
MASTER = "digits-node-0-0.digits"


def torch(processes: str) -> Json:
    master = {"PET_MASTER_ADDR": MASTER, "PET_MASTER_PORT": "29500"}
    return {"PET_NNODES": "2", "PET_NPROC_PER_NODE": processes, "PET_NODE_RANK": RANK, **master}


def fetches(what: str, uri: str) -> tuple[str, list[int], Json]:
    return what, [], {"STORAGE_URI": uri}


Pods = Mapping[str, tuple[str, list[int], Json]]
"""Host name -> container, its ports, its variables."""


def nodes(env: Json, *ports: int) -> Pods:
    return {f"digits-node-0-{n}": ("node", list(ports), env) for n in range(2)}


MPI: Pods = {
    "digits-node-0-0": ("node", [], {}),
    "digits-launcher-0-0": (
        "node",
        [],
        {
            "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile",
            "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
            "OMPI_MCA_orte_set_default_slots": "1",
            "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
        },
    ),
}
JAX = {"JAX_NUM_PROCESSES": "2", "JAX_PROCESS_ID": RANK, "JAX_COORDINATOR_ADDRESS": f"{MASTER}:29500"}
XGBOOST = {"DMLC_TRACKER_URI": MASTER, "DMLC_TRACKER_PORT": "29500", "DMLC_TASK_ID": RANK, "DMLC_NUM_WORKER": "2"}


def tunes(model: str) -> Pods:
    return {
        "digits-dataset-initializer-0-0": fetches("dataset-initializer", "hf://tatsu-lab/alpaca"),
        "digits-model-initializer-0-0": fetches("model-initializer", model),
        **nodes(torch("auto"), 29500),
    }


WANT: Mapping[str, Pods] = {
    "torch-distributed": nodes(torch("1"), 29500),
    "jax-distributed": nodes(JAX, 29500),
    "xgboost-distributed": nodes(XGBOOST, 29500),
    "plain": nodes({}),
    "deepspeed-distributed": MPI,
    "mlx-distributed": MPI,
    "torchtune-llama3.2-1b": tunes("hf://meta-llama/Llama-3.2-1B-Instruct"),
    "torchtune-llama3.2-3b": tunes("hf://meta-llama/Llama-3.2-3B-Instruct"),
    "torchtune-qwen2.5-1.5b": tunes("hf://Qwen/Qwen2.5-1.5B-Instruct"),
    "torch-distributed-with-cache": {
        "digits-dataset-initializer-0-0": (
            "dataset-initializer",
            [],
            {"CACHE_IMAGE": "ghcr.io/kubeflow/trainer/data-cache:v2.3.0", "TRAIN_JOB_NAME": NAME},
        ),
        **nodes({"TRAIN_JOB_NAME": NAME, **torch("1")}, 29500),
    },
}


def stock() -> dict[str, Json]:
    read = [one for path in sorted(Path(FOLDER).rglob("*.yaml")) for one in _documents(path)] if FOLDER else []
    return {**RUNTIMES, **{one["metadata"]["name"]: one for one in read if one["kind"] == "ClusterTrainingRuntime"}}


def _documents(path: Path) -> list[Json]:
    return [one for one in yaml.safe_load_all(path.read_text(encoding="utf-8")) if one and one.get("kind")]


STOCK = stock()


@pytest.mark.parametrize("name", STOCK)
def test_the_pods_of_a_stock_runtime(name: str) -> None:
    job = read_job(train_job(name, trainer={"numNodes": 2}), STOCK[name])
    made = [pod_body(job, role, n, 0, {}) for role in job.roles for n in range(role.replicas)]
    assert {pod["spec"]["hostname"]: _seen(pod) for pod in made} == WANT[name]
    for pod in made:
        labels, annotations = pod["metadata"]["labels"], pod["metadata"]["annotations"]
        step, _, index = pod["spec"]["hostname"].removeprefix("digits-").rpartition("-")
        of_jobset = {
            "jobset.sigs.k8s.io/jobset-name": "digits",
            "jobset.sigs.k8s.io/replicatedjob-name": step.removesuffix("-0"),
            "batch.kubernetes.io/job-completion-index": index,
        }
        assert of_jobset.items() <= labels.items()
        assert of_jobset.items() <= annotations.items()
        assert pod["spec"]["subdomain"] == "digits"


def _seen(pod: Json) -> tuple[str, list[int], Json]:
    """Without what this operator gives to every pod."""
    (container,) = pod["spec"]["containers"]
    env = {
        one["name"]: one.get("value") or one["valueFrom"]["fieldRef"]["fieldPath"]
        for one in container.get("env", ())
        if not one["name"].startswith("TRAININGJOB_")
    }
    return container["name"], [port["containerPort"] for port in container.get("ports") or ()], env
