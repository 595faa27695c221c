"""The cases of Kubeflow Trainer's own tests (v2.3.0), replayed: what its API server and webhooks take, refuse and fill
in (test/integration/webhooks), and what its controller makes of jobs (test/e2e, test/integration/controller).

What differs here on purpose stands in the table of differences of docs/trainer.md.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from localcluster.client import ApiError
from tests.scenarios.test_trainer import COMPLETE, DONE, N0, PATCH, WRONG, conditions, counts, pods, world
from tests.scenarios.world import play
from tests.support.trainer import PATH, RUNTIME_PATH, RUNTIMES, read, runtime, train_job
from tjworker.api.model import InvalidJob

Json = dict[str, Any]
TUNE = "torchtune-llama3.2-1b"

# -- the API server ----------------------------------------------------------------------------------------------------


def fetching(**source: str) -> Json:
    return train_job(TUNE, initializer=source and {"dataset": source})


def patching(pod: Json, job: Json | None = None, **more: Any) -> Json:
    """A job with one patch of the pods of `node`, and of its child Job."""
    jobs = [{"name": "node", "template": {"spec": {"template": {"spec": pod}, **(job or {})}}}]
    patch = {"manager": "acme.io/team", "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs}}}}
    return train_job(runtimePatches=[patch], **more)


PATCHED: Json = {
    "serviceAccountName": "trains",
    "volumes": [{"name": "data", "emptyDir": {}}],
    "containers": [
        {
            "name": "node",
            "volumeMounts": [{"name": "data", "mountPath": "/data", "readOnly": True}],
            "securityContext": {"runAsUser": 1000},
        }
    ],
    "imagePullSecrets": [{"name": "registry"}],
    "securityContext": {"fsGroup": 1000},
    "nodeSelector": {"kubernetes.io/os": "linux"},
    "affinity": {"nodeAffinity": {}},
    "tolerations": [{"key": "gpu", "operator": "Exists"}],
    "schedulingGates": [{"name": "acme.io/ready"}],
    "terminationGracePeriodSeconds": 0,
}
"""All that a patch may change of a pod."""
MOUNTS = [{"name": "a", "mountPath": path} for path in ("/a", "/b")]
TAKEN: dict[str, Json] = {
    "a name of exactly 63 characters": train_job(name="a" * 63),
    "an empty storageUri": fetching(storageUri=""),
    "a storageUri with a path": fetching(storageUri="s3://bucket/path"),
    "a storageUri of a model": train_job(TUNE, initializer={"model": {"storageUri": "gs://bucket/model"}}),
    "an item of the command at the longest": train_job(trainer={"command": ["a" * (1 << 20)]}),
    "an argument at the longest": train_job(trainer={"args": ["a" * (1 << 20)]}),
    "its own controller": train_job(managedBy="trainer.kubeflow.org/trainjob-controller"),
    "MultiKueue": train_job(managedBy="kueue.x-k8s.io/multikueue"),
    "a manager of patches with a domain": train_job(runtimePatches=[PATCH]),
    "a patch of all that it may change": patching(PATCHED),
}
REFUSED: dict[str, tuple[Json, str]] = {
    "a name that begins with a digit": (train_job(name="1jobname"), "metadata.name"),
    "a name that ends with a hyphen": (train_job(name="jobname-"), "metadata.name"),
    "a name of 64 characters": (train_job(name="a" * 64), "metadata.name"),
    "a storageUri without a path": (fetching(storageUri="s3://"), "spec.initializer.dataset.storageUri"),
    "an item of the command that is too long": (train_job(trainer={"command": ["a" * ((1 << 20) + 1)]}), "command[0]"),
    "an argument that is too long": (train_job(trainer={"args": ["a" * ((1 << 20) + 1)]}), "args[0]"),
    "two variables of one name": (train_job(trainer={"env": [{"name": "A"}, {"name": "A"}]}), "spec.trainer.env[1]"),
    "a patch with two mounts of one volume": (
        patching({"containers": [{"name": "node", "volumeMounts": MOUNTS}]}),
        "containers[0].volumeMounts[1]",
    ),
    "a patch with less than no time to end": (
        patching({"terminationGracePeriodSeconds": -1}),
        "spec.terminationGracePeriodSeconds",
    ),
    "an MPI that is not known": (runtime(policy={"mpi": {"mpiImplementation": "invalid"}}), "mpiImplementation"),
    "torch and MPI": (runtime(policy={"torch": {}, "mpi": {}}), "Only one of the policy can be configured"),
    "JAX, MPI and torch": (runtime(policy={"jax": {}, "mpi": {}, "torch": {}}), "Only one of the policy"),
}


def path_of(manifest: Json) -> str:
    return PATH if manifest["kind"] == "TrainJob" else RUNTIME_PATH


@pytest.mark.parametrize("manifest", TAKEN.values(), ids=TAKEN.keys())
def test_what_the_api_server_takes(manifest: Json) -> None:
    assert world().cluster.client.create(path_of(manifest), manifest)["metadata"]["uid"]


@pytest.mark.parametrize(("manifest", "says"), REFUSED.values(), ids=REFUSED.keys())
def test_what_the_api_server_refuses(manifest: Json, says: str) -> None:
    with pytest.raises(ApiError) as refused:
        world().cluster.client.create(path_of(manifest), manifest)
    assert refused.value.code == 422
    assert says in str(refused.value)


def test_what_it_fills_in() -> None:
    bare = train_job()
    bare["spec"] = {"runtimeRef": {"name": "testing"}}
    client = world().cluster.client
    spec = client.create(PATH, bare)["spec"]
    assert spec == {
        "managedBy": "trainer.kubeflow.org/trainjob-controller",
        "runtimeRef": {"apiGroup": "trainer.kubeflow.org", "kind": "ClusterTrainingRuntime", "name": "testing"},
        "suspend": False,
    }
    mpi = client.create(RUNTIME_PATH, runtime(name="mpi", policy={"mpi": {}}))["spec"]["mlPolicy"]
    assert mpi["mpi"] == {
        "mpiImplementation": "OpenMPI",
        "numProcPerNode": 1,
        "runLauncherAsNode": False,
        "sshAuthMountPath": "/root/.ssh",
    }


def changed_patch(field: str, value: Any) -> Json:
    """`PATCH` with another value of this field of its pods."""
    made = copy.deepcopy(PATCH)
    (job,) = made["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    job["template"]["spec"]["template"]["spec"][field] = value
    return made


UPDATES: dict[str, Json] = {
    "managedBy": {"managedBy": "kueue.x-k8s.io/multikueue"},
    "runtimeRef": {"runtimeRef": {"name": "forbidden-update"}},
    "initializer": {"initializer": {"model": {"storageUri": "s3://forbidden-update"}}},
    "trainer": {"trainer": {"image": "forbidden-update"}},
    "a variable of the trainer": {"trainer": {"image": "a", "env": [{"name": "A", "value": "other"}]}},
    "runtimePatches of a job that is not suspended": {"runtimePatches": []},
    "a patch of a job that is not suspended": {"runtimePatches": [changed_patch("nodeSelector", {"a": "b"})]},
    "tolerations of such a job": {"runtimePatches": [changed_patch("tolerations", [{"key": "a"}])]},
}


@pytest.mark.parametrize("change", UPDATES.values(), ids=UPDATES.keys())
def test_what_of_a_job_cannot_change(change: Json) -> None:
    model = {"model": {"storageUri": "s3://test/path"}}
    trainer = {"image": "a", "env": [{"name": "A", "value": "1"}]}
    client = world().cluster.client
    client.create(PATH, train_job(initializer=model, trainer=trainer, runtimePatches=[PATCH]))
    with pytest.raises(ApiError) as refused:
        client.patch(f"{PATH}/digits", {"spec": change})
    assert refused.value.code == 422


STAYS: Json = {
    "serviceAccountName": "other",
    "volumes": [{"name": "other", "emptyDir": {}}],
    "containers": [{"name": "node"}],
    "imagePullSecrets": [{"name": "other"}],
    "terminationGracePeriodSeconds": 9,
}
"""Another value of each field of a patch that stays as it is, even while the job is suspended."""


@pytest.mark.parametrize("field", STAYS)
def test_what_of_a_patch_cannot_change(field: str) -> None:
    client = world().cluster.client
    client.create(PATH, patching(PATCHED, suspend=True))
    with pytest.raises(ApiError) as refused:
        client.patch(f"{PATH}/digits", {"spec": patching({**PATCHED, field: STAYS[field]})["spec"]})
    assert f"template.spec.{field}: Invalid value" in str(refused.value)
    assert "field is immutable" in str(refused.value)
    placed = {"nodeSelector": {"kubernetes.io/os": "linux", "zone": "a"}, "schedulingGates": []}
    client.patch(f"{PATH}/digits", {"spec": patching({**PATCHED, **placed}, suspend=False)["spec"]})


BEYOND: dict[str, tuple[Json, Json]] = {
    "template.spec.hostNetwork": ({"hostNetwork": True}, {}),
    "template.spec.priorityClassName": ({"priorityClassName": "system-node-critical"}, {}),
    "template.spec.containers[0].image": ({"containers": [{"name": "node", "image": "mine"}]}, {}),
    "template.spec.containers[0].command": ({"containers": [{"name": "node", "command": ["sh"]}]}, {}),
    "template.spec.containers[0].resources": ({"containers": [{"name": "node", "resources": {}}]}, {}),
    "template.spec.initContainers[0].image": ({"initContainers": [{"name": "first", "image": "mine"}]}, {}),
    "parallelism": ({}, {"parallelism": 9}),
    "backoffLimit": ({}, {"backoffLimit": 9}),
}
"""Fields that no type of Trainer's patches has (`PodSpecPatch`, `ContainerPatch`, `JobSpecPatch`)."""


@pytest.mark.parametrize("field", BEYOND)
def test_what_no_patch_may_change(field: str) -> None:
    """The API server refuses it where it is asked to be strict, as kubectl asks it, else drops it. A job that was kept
    by another schema is refused by the parser."""
    path = "spec.runtimePatches[0].trainingRuntimeSpec.template.spec.replicatedJobs[0].template.spec"
    w, job = world(), patching(*BEYOND[field])
    strict = w.transport.request("POST", PATH, query={"fieldValidation": "Strict"}, body=json.dumps(job).encode())
    assert (strict.status, f'unknown field "{path}.{field}"' in json.loads(strict.body)["message"]) == (400, True)
    kept = w.cluster.client.create(PATH, job)["spec"]["runtimePatches"]
    assert field.rpartition(".")[2] not in json.dumps(kept)
    refused = read(job)
    assert isinstance(refused, InvalidJob)
    assert [str(error) for error in refused.errors] == [f"{path}.{field}: unknown field; remove it"]


# -- the controller ----------------------------------------------------------------------------------------------------


def test_the_deadline_does_not_run_while_a_job_is_suspended() -> None:
    w = world().apply(train_job(trainer={}, suspend=True, activeDeadlineSeconds=5)).run().advance(60)
    assert [one[0] for one in conditions(w)] == ["Suspended"]


def test_a_job_that_ends_within_its_deadline_is_complete() -> None:
    w = world(plays("torch-distributed", DONE)).apply(train_job(activeDeadlineSeconds=60)).run().advance(90)
    assert conditions(w) == [COMPLETE]


def test_patches_reach_the_pods() -> None:
    """Two managers, the last of which wins; `time` stays as its user gave it."""
    given = "2026-01-01T00:00:00Z"
    first, second = copy.deepcopy(PATCH), copy.deepcopy(PATCH)
    first |= {"manager": "test.io/manager-one", "time": given}
    for patch, seconds in ((first, 30), (second, 300)):
        (job,) = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
        job["template"]["spec"]["template"]["spec"] = {"terminationGracePeriodSeconds": seconds}
    w = world().apply(train_job(runtimePatches=[first, second])).run()
    assert pods(w)[N0]["spec"]["terminationGracePeriodSeconds"] == 300
    kept = w.cluster.client.get(f"{PATH}/digits")["spec"]["runtimePatches"]
    assert [one.get("time") for one in kept] == [given, None]


def plays(name: str, told: Json) -> Json:
    """The runtime with a trainer that lives as told."""
    made = copy.deepcopy(RUNTIMES[name])
    job = made["spec"]["template"]["spec"]["replicatedJobs"][-1]
    job["template"]["spec"]["template"]["metadata"] = {"annotations": play(**told)}
    job["template"]["spec"]["backoffLimit"] = 0
    return made


@dataclass(frozen=True)
class Case:
    """One of the stock runtimes, and how its trainer ends."""

    runtime: str
    told: Json
    want: list[str]
    """Type, status and reason of the one condition."""
    counts: Mapping[str, Json]
    trainer: Json | None = None


COMPLETED, FAILED = COMPLETE[:3], ["Failed", "True", "FailedJobs"]
MPI: Json = {"numNodes": 2, "command": ["mpirun", "sleep", "10"]}
CASES: dict[str, Case] = {
    "no policy": Case("plain", DONE, COMPLETED, {"node": {"succeeded": 1}}),
    "torch": Case("torch-distributed", DONE, COMPLETED, {"node": {"succeeded": 1}}),
    "torch, failed": Case("torch-distributed", WRONG, FAILED, {"node": {"failed": 1}}),
    "JAX": Case("jax-distributed", DONE, COMPLETED, {"node": {"succeeded": 1}}),
    "JAX, failed": Case("jax-distributed", WRONG, FAILED, {"node": {"failed": 1}}),
    "XGBoost": Case("xgboost-distributed", DONE, COMPLETED, {"node": {"succeeded": 1}}),
    "XGBoost, failed": Case("xgboost-distributed", WRONG, FAILED, {"node": {"failed": 1}}),
    "Open MPI: nodes that still serve are no failure": Case(
        "deepspeed-distributed", DONE, COMPLETED, {"launcher": {"succeeded": 1}}, MPI
    ),
    "Open MPI, failed": Case("deepspeed-distributed", WRONG, FAILED, {"launcher": {"failed": 1}}, MPI),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_how_jobs_of_the_stock_runtimes_end(case: Case) -> None:
    w = world(plays(case.runtime, case.told))
    spec: Json = {"trainer": case.trainer} if case.trainer else {}
    w.apply(train_job(case.runtime, **spec)).run()
    assert counts(w)["node"] in ({"active": 1}, {"active": 1, "ready": 1})
    w.advance(60)
    assert [one[:3] for one in conditions(w)] == [case.want]
    told = counts(w)
    assert {name: told[name] for name in case.counts} == case.counts
    assert not [name for name, one in told.items() if name not in case.counts and "failed" in one]
