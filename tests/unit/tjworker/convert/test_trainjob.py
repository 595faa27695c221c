"""A PyTorchJob of training-operator as a TrainJob of Trainer: the same nodes run the same program, and what a TrainJob
cannot say is reported."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.support.trainer import read_job
from tjworker.api.kinds import parse
from tjworker.api.kinds.kubeflow import pytorchjob
from tjworker.api.model import TrainingJob
from tjworker.convert import Converted, trainjob
from tjworker.reconcile.workloads.podbody import pod_body

Json = dict[str, Any]
GPUS: Json = {"limits": {"nvidia.com/gpu": 2}}
TORCHRUN = ["torchrun", "train.py"]


def replica(count: int = 1, pod: Json | None = None, **container: Any) -> Json:
    main = {"name": "pytorch", "image": "torch:2", "command": TORCHRUN, **container}
    return {"replicas": count, "template": {"spec": {"containers": [main], **(pod or {})}}}


def pytorch_job(roles: Json, **spec: Any) -> Json:
    metadata = {"name": "digits", "namespace": "default", "labels": {"kueue.x-k8s.io/queue-name": "research"}}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": metadata,
        "spec": {"pytorchReplicaSpecs": roles, **spec},
    }


def both(**container: Any) -> Json:
    return {"Master": replica(1, **container), "Worker": replica(2, **container)}


def made(raw: Json) -> Converted:
    done = trainjob.convert(raw)
    assert isinstance(done, Converted), done.errors
    return done


@dataclass(frozen=True)
class Case:
    raw: Json
    want: Json
    """Of the spec."""
    left: tuple[str, ...] = ()
    """Fields that do not carry over."""
    annotations: Json = field(default_factory=dict)


M, W = ("spec.pytorchReplicaSpecs.Master.template.spec", "spec.pytorchReplicaSpecs.Worker.template.spec")
REF: Json = {"runtimeRef": {"name": "torch-distributed"}}
TRAINER: Json = {"numNodes": 3, "image": "torch:2", "command": TORCHRUN}
BOUNDS = {"elasticdeeplearning.ai/min-nodes": "1", "elasticdeeplearning.ai/max-nodes": "4"}


def patched(template: Json) -> list[Json]:
    jobs = [{"name": "node", "template": {"spec": {"template": template}}}]
    runtime = {"template": {"spec": {"replicatedJobs": jobs}}}
    return [{"manager": "elasticdeeplearning.ai/convert", "trainingRuntimeSpec": runtime}]


CASES: dict[str, Case] = {
    "master and workers are nodes of one job": Case(pytorch_job(both()), {**REF, "trainer": TRAINER}),
    "resources, variables and arguments are the trainer's": Case(
        pytorch_job(both(resources=GPUS, env=[{"name": "LR", "value": "1"}], args=["--epochs", "2"])),
        {
            **REF,
            "trainer": {
                **TRAINER,
                "args": ["--epochs", "2"],
                "env": [{"name": "LR", "value": "1"}],
                "resourcesPerNode": GPUS,
            },
        },
    ),
    "a number of processes": Case(
        pytorch_job(both(), nprocPerNode="4"), {**REF, "trainer": {**TRAINER, "numProcPerNode": 4}}
    ),
    "python is started by torchrun, once a node": Case(
        pytorch_job(both(command=["python3", "-u", "train.py"], resources=GPUS)),
        {**REF, "trainer": {**TRAINER, "resourcesPerNode": GPUS, "numProcPerNode": 1}},
    ),
    "a program that is a word of Python's options stays, and is told of": Case(
        pytorch_job(both(command=["python", "-c", "pass"])),
        {**REF, "trainer": {**TRAINER, "command": ["python", "-c", "pass"], "numProcPerNode": 1}},
        (f"{M}.containers[0].command",),
    ),
    "a program that reads the variables of training-operator is told of": Case(
        pytorch_job(both(command=["sh", "-c", "torchrun --node_rank=$RANK train.py"])),
        {**REF, "trainer": {**TRAINER, "command": ["sh", "-c", "torchrun --node_rank=$RANK train.py"]}},
        (f"{M}.containers[0].command",),
    ),
    "what a TrainJob may change of pods is a patch of its runtime": Case(
        pytorch_job(
            {
                "Worker": replica(
                    2,
                    pod={"nodeSelector": {"gpu": "a100"}, "volumes": [{"name": "data", "emptyDir": {}}]},
                    volumeMounts=[{"name": "data", "mountPath": "/data"}],
                )
            }
        ),
        {
            **REF,
            "trainer": {**TRAINER, "numNodes": 2, "numProcPerNode": 1},
            "runtimePatches": patched(
                {
                    "spec": {
                        "volumes": [{"name": "data", "emptyDir": {}}],
                        "nodeSelector": {"gpu": "a100"},
                        "containers": [{"name": "node", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
                    }
                }
            ),
        },
    ),
    "and what it may not is told of": Case(
        pytorch_job({"Worker": replica(2, pod={"hostNetwork": True}, workingDir="/app")}),
        {**REF, "trainer": {**TRAINER, "numNodes": 2, "numProcPerNode": 1}},
        (f"{W}.hostNetwork", f"{W}.containers[0].workingDir"),
    ),
    "a worker that differs from the master is told of": Case(
        pytorch_job({"Master": replica(1), "Worker": replica(2, image="other:1")}),
        {**REF, "trainer": TRAINER},
        (f"{W}.containers[0].image",),
    ),
    "the run policy": Case(
        pytorch_job(
            both(),
            runPolicy={
                "activeDeadlineSeconds": 60,
                "suspend": True,
                "managedBy": "kueue.x-k8s.io/multikueue",
                "backoffLimit": 3,
                "ttlSecondsAfterFinished": 9,
                "cleanPodPolicy": "All",
            },
        ),
        {
            **REF,
            "trainer": TRAINER,
            "activeDeadlineSeconds": 60,
            "suspend": True,
            "managedBy": "kueue.x-k8s.io/multikueue",
        },
        ("spec.runPolicy.backoffLimit", "spec.runPolicy.ttlSecondsAfterFinished", "spec.runPolicy.cleanPodPolicy"),
    ),
    "elastic bounds are annotations": Case(
        pytorch_job(
            {"Worker": replica(2)}, elasticPolicy={"minReplicas": 1, "maxReplicas": 4, "maxRestarts": 7, "rdzvId": "x"}
        ),
        {
            **REF,
            "trainer": {
                **TRAINER,
                "numNodes": 2,
                "numProcPerNode": 1,
                "env": [{"name": "PET_MAX_RESTARTS", "value": "7"}],
            },
        },
        ("spec.elasticPolicy.rdzvId",),
        BOUNDS,
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_what_it_becomes(case: Case) -> None:
    done = made(case.raw)
    assert done.manifest["spec"] == case.want
    assert [one.path for one in done.left] == list(case.left)
    assert done.manifest["metadata"].get("annotations", {}) == case.annotations
    assert done.manifest["metadata"]["labels"] == {"kueue.x-k8s.io/queue-name": "research"}


def internal(raw: Json) -> TrainingJob:
    job = parse(pytorchjob.JOB_KIND.resource, {**raw, "metadata": {**raw["metadata"], "uid": "uid-1"}})
    assert isinstance(job, TrainingJob), job.errors
    return job


OLD = {case: one.raw for case, one in CASES.items() if not one.left}
OLD["elastic, and moved by the autoscaler"] = {
    **(elastic := pytorch_job({"Worker": replica(2)}, elasticPolicy={"minReplicas": 1, "maxReplicas": 4})),
    "metadata": {**elastic["metadata"], "annotations": {"elasticdeeplearning.ai/edl-policy": "Auto"}},
}


@pytest.mark.parametrize("raw", OLD.values(), ids=OLD.keys())
def test_its_nodes_are_the_pods_that_the_job_had(raw: Json) -> None:
    """Read by the operator beside Trainer's own runtime."""
    before, after = internal(raw), read_job(made(raw).manifest)
    (nodes,) = after.roles
    assert nodes.replicas == sum(role.replicas for role in before.roles)
    least = [role.replicas if role.min_replicas is None else role.min_replicas for role in before.roles]
    most = [role.replicas if role.max_replicas is None else role.max_replicas for role in before.roles]
    assert nodes.elastic == any(role.elastic for role in before.roles)
    assert nodes.autoscaled == before.autoscaled
    if nodes.elastic:
        assert (nodes.min_replicas, nodes.max_replicas) == (sum(least), sum(most))
    assert after.suspend == before.suspend
    assert after.active_deadline_seconds == before.active_deadline_seconds
    was, now = (pod_body(job, job.roles[0], 0, 0, {})["spec"] for job in (before, after))
    mine, theirs = was["containers"][0], now["containers"][0]
    for name in ("image", "resources", "volumeMounts", "args"):
        assert theirs.get(name) == mine.get(name), name
    for name in ("volumes", "nodeSelector"):
        assert now.get(name) == was.get(name), name
    own = {one["name"]: one.get("value") for one in raw_env(raw)}
    assert own.items() <= {one["name"]: one.get("value") for one in theirs.get("env", ())}.items()


def raw_env(raw: Json) -> list[Json]:
    role = next(iter(raw["spec"]["pytorchReplicaSpecs"].values()))
    return list(role["template"]["spec"]["containers"][0].get("env", ()))
