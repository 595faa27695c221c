"""Kubeflow's kinds, from the manifest to the internal job: what training-operator 1.9 defaults and validates
(`pkg/apis/kubeflow.org/v1/*_defaults.go`, `pkg/webhooks`), and what is refused.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.tjworker.api.guest_cases import Case, Json, Refusal, manifest, read, refusal_of, role
from tjworker.api.kinds import GUEST_KINDS
from tjworker.api.model import InvalidJob, Role, TrainingJob
from tjworker.base import GroupResource
from tjworker.reconcile.workloads.environment import role_environment
from tjworker.reconcile.workloads.podbody import pod_body

XGB, JAX = GroupResource("xgboostjobs.kubeflow.org"), GroupResource("jaxjobs.kubeflow.org")
PYTORCH, TF = GroupResource("pytorchjobs.kubeflow.org"), GroupResource("tfjobs.kubeflow.org")
PADDLE = GroupResource("paddlejobs.kubeflow.org")


CASES: dict[str, Case] = {
    "defaults of a PyTorchJob": Case(
        PYTORCH,
        {"Master": role(None), "Worker": role(None)},
        want={
            "framework": "pytorch",
            "clean_pod_policy": "None",
            "Worker.replicas": 1,
            "Worker.restart_policy": "Always",
            "Worker.restart_scope": "Pod",
            "Master.complete_policy": "All",
            "Worker.complete_policy": "None",
            "Worker.elastic": False,
            "scale_role": "Worker",
        },
    ),
    "defaults of a TFJob": Case(
        TF,
        {"Worker": role(2), "PS": role(1)},
        want={
            "framework": "tensorflow",
            "Worker.restart_policy": "Never",
            "Worker.complete_policy": "Rank0",
            "PS.complete_policy": "None",
        },
    ),
    "the run policy": Case(
        PYTORCH,
        {"Worker": role(1, restartPolicy="ExitCode")},
        {
            "runPolicy": {
                "cleanPodPolicy": "All",
                "ttlSecondsAfterFinished": 5,
                "activeDeadlineSeconds": 6,
                "backoffLimit": 7,
                "suspend": True,
                "schedulingPolicy": {"minAvailable": 1},
            }
        },
        {
            "clean_pod_policy": "All",
            "ttl_seconds_after_finished": 5,
            "active_deadline_seconds": 6,
            "backoff_limit": 7,
            "suspend": True,
            "min_available": 1,
            "Worker.restart_policy": "OnNodeFailWithExitCode",
        },
    ),
    "one bound of the elastic policy stands for the other": Case(
        PYTORCH,
        {"Worker": role(3)},
        {"elasticPolicy": {"maxReplicas": 3}},
        {"Worker.min_replicas": 3, "Worker.max_replicas": 3, "Worker.complete_policy": "Any"},
    ),
    "empty strings, as Go clients write them": Case(
        TF,
        {"Worker": role(1, restartPolicy="")},
        {"successPolicy": "", "runPolicy": {"cleanPodPolicy": ""}},
        {"clean_pod_policy": "None", "Worker.restart_policy": "Never"},
    ),
    "a chief decides alone": Case(
        TF,
        {"chief": role(1), "worker": role(1)},
        want={"Chief.complete_policy": "All", "Worker.complete_policy": "None"},
    ),
    "dynamic workers are scaled and fail for themselves": Case(
        TF,
        {"Chief": role(1), "Worker": role(1)},
        {"enableDynamicWorker": True},
        {"Worker.elastic": True, "Worker.autoscaled": False, "Worker.fail_policy": "None"},
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_what_a_manifest_becomes(case: Case) -> None:
    assert case.found() == case.want


REFUSED: dict[str, Refusal] = {
    "two masters": (
        PYTORCH,
        manifest(PYTORCH, {"Master": role(2)}),
        "spec.pytorchReplicaSpecs.Master.replicas: 2: must",
    ),
    "a role of another kind": (PYTORCH, manifest(PYTORCH, {"PS": role(1)}), "is no role of a PyTorchJob: use Master"),
    "one role twice": (TF, manifest(TF, {"PS": role(1), "ps": role(1)}), "differ in the case of their letters"),
    "no role": (TF, manifest(TF, {}), "spec.tfReplicaSpecs"),
    "a name that no service can have": (TF, manifest(TF, {"PS": role(1)}, name="9"), "metadata.name: '9'"),
    "a name that is too long": (TF, manifest(TF, {"PS": role(1)}, name="a" * 60), "the longest pod name"),
    "elastic without workers": (
        PYTORCH,
        manifest(PYTORCH, {"Master": role(1)}, elasticPolicy={"minReplicas": 1}),
        "spec.pytorchReplicaSpecs.Worker: must be there",
    ),
    "an XGBoostJob without a master": (
        XGB,
        manifest(XGB, {"Worker": role(1)}),
        "Master: required value: an XGBoostJob",
    ),
    "a JAXJob with a master": (JAX, manifest(JAX, {"Master": role(1)}), "is no role of a JAXJob: use Worker"),
    "an unknown policy": (TF, manifest(TF, {"PS": role(1, restartPolicy="Sometimes")}), "restartPolicy"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str) -> None:
    kind, raw, want = REFUSED[name]
    assert want in refusal_of(kind, raw), name


def env_of_pod(job: TrainingJob, of: Role) -> dict[str, str]:
    body = pod_body(job, of, 0, 0, role_environment(job))
    return {e["name"]: e["value"] for e in body["spec"]["containers"][0]["env"]}


def test_what_the_elastic_policy_says_to_torchrun() -> None:
    policy = {
        "minReplicas": 1,
        "maxReplicas": 3,
        "rdzvBackend": "etcd-v2",
        "rdzvHost": "etcd",
        "rdzvPort": 2379,
        "rdzvId": "mine",
        "rdzvConf": [{"key": "a", "value": "1"}, {"key": "b", "value": "2"}],
        "maxRestarts": 9,
        "nProcPerNode": 4,
    }
    worker = role(2)
    worker["template"]["spec"]["containers"][0]["env"] = [{"name": "PET_RDZV_ID", "value": "the template's"}]
    job = read(PYTORCH, {"Worker": worker}, elasticPolicy=policy)
    want = {
        "PET_RDZV_ID": "the template's",
        "PET_NPROC_PER_NODE": "4",
        "PET_MAX_RESTARTS": "9",
        "PET_RDZV_BACKEND": "etcd-v2",
        "PET_RDZV_ENDPOINT": "etcd:2379",
        "PET_RDZV_CONF": "a=1,b=2",
    }
    env = env_of_pod(job, job.role("Worker"))
    assert {name: env[name] for name in want} == want


WORLDS: dict[str, tuple[Json, str, str]] = {
    "a process in each of three pods": ({"Master": role(), "Worker": role(2)}, "1", "3"),
    "four processes in each": ({"Master": role(), "Worker": role(2)}, "4", "12"),
    "without a number each role has one pod": ({"Master": role(None), "Worker": role(None)}, "2", "4"),
    "no workers are none": ({"Master": role(), "Worker": role(0)}, "2", "2"),
    "as many processes as the pod has GPUs: torchrun counts": ({"Master": role(), "Worker": role(2)}, "gpu", "3"),
}


@pytest.mark.parametrize(("roles", "processes", "want"), WORLDS.values(), ids=WORLDS.keys())
def test_how_many_processes_torch_waits_for(roles: Json, processes: str, want: str) -> None:
    job = read(PYTORCH, roles, nprocPerNode=processes)
    assert {env_of_pod(job, each)["WORLD_SIZE"] for each in job.roles} == {want}


@pytest.mark.parametrize(("policy", "want"), [({}, ()), ({"maxRestarts": 3}, ("spec.elasticPolicy.maxRestarts",))])
def test_paddle_has_no_most_restarts_of_its_launcher(policy: Json, want: tuple[str, ...]) -> None:
    job = read(PADDLE, {"Worker": role(2)}, elasticPolicy={"maxReplicas": 2, **policy})
    assert tuple(map(str, job.ignored)) == want


@pytest.mark.parametrize("odd", [None, 7, "x", [], {"spec": None}, {"spec": {"tfReplicaSpecs": {"PS": None}}}])
@pytest.mark.parametrize("kind", GUEST_KINDS, ids=lambda kind: kind.resource)
def test_parse_never_raises(kind: Any, odd: Any) -> None:
    assert isinstance(kind.parse(odd), InvalidJob)
    assert isinstance(kind.parse({"status": odd, **(odd if isinstance(odd, dict) else {})}), InvalidJob)
    assert isinstance(kind.parse({"status": {"conditions": [odd], "operator": odd}}), InvalidJob)
