"""Pods of three manifests of each kind of another operator's, beside what its own operator makes of them: names,
labels, ports and environment, as its source says (`SetClusterSpec` and `*_defaults.go` of each controller). What
differs on purpose is in docs/kinds.md and docs/kubedl.md. MPIJobs have their tables in test_mpijob and test_kubedl.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.scenarios.world import World
from tests.support.guests import KIND_OF
from tjworker.base import GroupResource

Json = dict[str, Any]
Env = Mapping[str, Any]
PREFIX = "training.kubeflow.org/"
M, C, P, S = "digits-master-0", "digits-chief-0", "digits-ps-0", "digits-scheduler-0"
W0, W1 = "digits-worker-0", "digits-worker-1"
ABSENT = None
"""A variable that is not there."""


@dataclass(frozen=True)
class Manifest:
    kind: str
    roles: Mapping[str, int]
    env: Mapping[str, Env]
    """By pod: variables, those of JSON read."""
    master: str = ""
    """The pod that has job-role=master."""
    port: tuple[str, int] | None = None
    """Of each pod."""
    spec: Json = field(default_factory=dict)
    ports: tuple[Json, ...] = ()
    """That the templates have."""


def svc(*pods: str, port: int = 2222) -> list[str]:
    return [f"{pod}.default.svc:{port}" for pod in pods]


def tf(cluster: Json, type_: str, index: int = 0) -> Env:
    return {"TF_CONFIG": {"cluster": cluster, "task": {"type": type_, "index": index}, "environment": "cloud"}}


def ranks(pods: tuple[str, ...], port: str, **more: str) -> Mapping[str, Env]:
    """`RANK` of each, and what all of them have."""
    common = {"MASTER_ADDR": M, "MASTER_PORT": port, "WORLD_SIZE": str(len(pods)), **more}
    return {pod: common | {"RANK": str(rank)} for rank, pod in enumerate(pods)}


def jax(count: int, port: str = "6666") -> Mapping[str, Env]:
    common = {"COORDINATOR_ADDRESS": W0, "COORDINATOR_PORT": port, "NUM_PROCESSES": str(count)}
    return {pod: common | {"PROCESS_ID": str(i)} for i, pod in enumerate((W0, W1)[:count])}


def xdl(cluster: Json, type_: str, index: int = 0) -> Env:
    """KubeDL's `genXDLConfigJSON`."""
    config = {"cluster": cluster, "task": {"type": type_, "index": index}}
    return {"TASK_NAME": type_, "TASK_INDEX": str(index), "XDL_CONFIG": config}


def ends(*pods: str) -> list[str]:
    return [f"{pod}:2222" for pod in pods]


def mars(cluster: Json, type_: str, index: int = 0) -> Env:
    return {"MARS_TASK_DETAIL": {"cluster": cluster, "task": {"type": type_, "index": index}}}


PS_AND_WORKERS = {"ps": svc(P), "worker": svc(W0, W1)}
CHIEF_AND_WORKER = {"chief": svc(C), "worker": svc(W0)}
E0 = "digits-evaluator-0"
TF_PS = {P: tf(PS_AND_WORKERS, "ps"), W0: tf(PS_AND_WORKERS, "worker"), W1: tf(PS_AND_WORKERS, "worker", 1)}
TF_CHIEF = {C: tf(CHIEF_AND_WORKER, "chief"), W0: tf(CHIEF_AND_WORKER, "worker"), E0: tf(CHIEF_AND_WORKER, "evaluator")}
TF_PORT, XGB_PORT, TORCH_PORT = ("tfjob-port", 2222), ("xgboostjob-port", 9999), ("pytorchjob-port", 23456)
PADDLE_PORT, JAX_PORT = ("master", 36543), ("jaxjob-port", 6666)
OWN_XGB, OWN_JAX = {"name": "xgboostjob-port", "containerPort": 9991}, {"name": "jaxjob-port", "containerPort": 7777}
LIGHTGBM = {"WORKER_PORT": "9999", "WORKER_ADDRS": f"{W0},{W1}"}
PADDLE = {"PADDLE_JOB_ID": "digits"}
HERE = "$(POD_IP_DUMMY):36543"
"""Expanded in the container."""
POD_IP = {"fieldRef": {"fieldPath": "status.podIP", "apiVersion": "v1"}}
TORCHRUN = {"PET_RDZV_BACKEND": "c10d", "PET_RDZV_ENDPOINT": f"{W0}:23456", "PET_NNODES": "1:3"}
SERVER, TRAINER = {"PADDLE_SERVER_NUM": "1"}, {"PADDLE_TRAINER_NUM": "1"}
ETCD = {"rdzvBackend": "etcd", "rdzvEndpoint": "etcd:2379", "minReplicas": 1, "maxReplicas": 3, "nProcPerNode": 2}
PET = {"PET_RDZV_BACKEND": "etcd", "PET_RDZV_ENDPOINT": "etcd:2379", "PET_NPROC_PER_NODE": "2", "PET_NNODES": "2:4"}
X0 = "digits-extendrole-0"

MADE: dict[str, Manifest] = {
    "Kubeflow's PyTorchJob, a master and two workers": Manifest(
        "pytorchjobs.kubeflow.org",
        {"Master": 1, "Worker": 2},
        ranks((M, W0, W1), "23456"),
        M,
        TORCH_PORT,
        {"nprocPerNode": "1"},
    ),
    "Kubeflow's PyTorchJob, a master alone": Manifest(
        "pytorchjobs.kubeflow.org", {"Master": 1}, ranks((M,), "23456"), M, TORCH_PORT, {"nprocPerNode": "1"}
    ),
    "Kubeflow's PyTorchJob, elastic workers": Manifest(
        "pytorchjobs.kubeflow.org",
        {"Worker": 2},
        dict.fromkeys((W0, W1), TORCHRUN),
        W0,
        TORCH_PORT,
        {"elasticPolicy": {"minReplicas": 1, "maxReplicas": 3, "rdzvBackend": "c10d"}},
    ),
    "Kubeflow's TFJob, a parameter server and two workers": Manifest(
        "tfjobs.kubeflow.org", {"PS": 1, "Worker": 2}, TF_PS, W0, TF_PORT
    ),
    "Kubeflow's TFJob, a chief, a worker and an evaluator": Manifest(
        "tfjobs.kubeflow.org", {"Chief": 1, "Worker": 1, "Evaluator": 1}, TF_CHIEF, C, TF_PORT
    ),
    "Kubeflow's TFJob, dynamic workers": Manifest(
        "tfjobs.kubeflow.org",
        {"PS": 1, "Worker": 2},
        {
            W1: {
                "TF_CONFIG": {
                    "cluster": {"ps": svc(P), "worker": {"1": svc(W1)[0]}},
                    "sparseCluster": {"ps": svc(P), "worker": {"1": svc(W1)[0]}},
                    "task": {"type": "worker", "index": 1},
                }
            }
        },
        W0,
        TF_PORT,
        {"enableDynamicWorker": True},
    ),
    "Kubeflow's XGBoostJob, a master and two workers": Manifest(
        "xgboostjobs.kubeflow.org", {"Master": 1, "Worker": 2}, ranks((M, W0, W1), "9999", **LIGHTGBM), M, XGB_PORT
    ),
    "Kubeflow's XGBoostJob, a master alone": Manifest(
        "xgboostjobs.kubeflow.org",
        {"Master": 1},
        {M: {**ranks((M,), "9999")[M], "WORKER_PORT": ABSENT, "WORKER_ADDRS": ABSENT}},
        M,
        XGB_PORT,
    ),
    "Kubeflow's XGBoostJob, with a port of its own": Manifest(
        "xgboostjobs.kubeflow.org",
        {"Master": 1, "Worker": 1},
        ranks((M, W0), "9991", WORKER_PORT="9991", WORKER_ADDRS=W0),
        M,
        ("xgboostjob-port", 9991),
        ports=(OWN_XGB,),
    ),
    "Kubeflow's PaddleJob, two workers": Manifest(
        "paddlejobs.kubeflow.org",
        {"Worker": 2},
        {
            W0: PADDLE | {"PADDLE_NNODES": "2", "PADDLE_MASTER": HERE, "POD_IP_DUMMY": POD_IP},
            W1: PADDLE | {"PADDLE_NNODES": "2", "PADDLE_MASTER": f"{W0}:36543"},
        },
        W0,
        PADDLE_PORT,
    ),
    "Kubeflow's PaddleJob, a parameter server and two trainers": Manifest(
        "paddlejobs.kubeflow.org",
        {"Master": 1, "Worker": 2},
        {
            M: PADDLE | SERVER | {"PADDLE_NNODES": "3", "PADDLE_MASTER": HERE},
            W0: PADDLE | TRAINER | {"PADDLE_NNODES": "3", "PADDLE_MASTER": f"{M}:36543"},
            W1: PADDLE | TRAINER | {"PADDLE_NNODES": "3", "PADDLE_MASTER": f"{M}:36543"},
        },
        M,
        PADDLE_PORT,
    ),
    "Kubeflow's PaddleJob, one worker": Manifest(
        "paddlejobs.kubeflow.org",
        {"Worker": 1},
        {W0: PADDLE | {"PADDLE_NNODES": "1", "PADDLE_SERVER_NUM": ABSENT, "PADDLE_TRAINER_NUM": ABSENT}},
        W0,
        PADDLE_PORT,
    ),
    "Kubeflow's JAXJob, two workers": Manifest("jaxjobs.kubeflow.org", {"Worker": 2}, jax(2), W0, JAX_PORT),
    "Kubeflow's JAXJob, one worker": Manifest("jaxjobs.kubeflow.org", {"Worker": 1}, jax(1), W0, JAX_PORT),
    "Kubeflow's JAXJob, with a port of its own": Manifest(
        "jaxjobs.kubeflow.org", {"Worker": 2}, jax(2, "7777"), W0, ("jaxjob-port", 7777), ports=(OWN_JAX,)
    ),
    "KubeDL's PyTorchJob, a master and two workers": Manifest(
        "pytorchjobs.training.kubedl.io", {"Master": 1, "Worker": 2}, ranks((M, W0, W1), "23456"), M, TORCH_PORT
    ),
    "KubeDL's PyTorchJob, a master alone": Manifest(
        "pytorchjobs.training.kubedl.io", {"Master": 1}, ranks((M,), "23456"), M, TORCH_PORT
    ),
    "KubeDL's PyTorchJob, elastic": Manifest(
        "pytorchjobs.training.kubedl.io",
        {"Master": 1, "Worker": 1},
        dict.fromkeys((M, W0), PET),
        M,
        TORCH_PORT,
        {"enableElastic": True, "elasticPolicy": ETCD},
    ),
    "KubeDL's TFJob, a parameter server and two workers": Manifest(
        "tfjobs.training.kubedl.io", {"PS": 1, "Worker": 2}, TF_PS, W0, TF_PORT
    ),
    "KubeDL's TFJob, a chief, a worker and an evaluator": Manifest(
        "tfjobs.training.kubedl.io", {"Chief": 1, "Worker": 1, "Evaluator": 1}, TF_CHIEF, C, TF_PORT
    ),
    "KubeDL's TFJob, workers alone": Manifest(
        "tfjobs.training.kubedl.io",
        {"Worker": 2},
        {pod: tf({"worker": svc(W0, W1)}, "worker", i) for i, pod in enumerate((W0, W1))},
        W0,
        TF_PORT,
    ),
    "KubeDL's XGBoostJob, a master and two workers": Manifest(
        "xgboostjobs.training.kubedl.io", {"Master": 1, "Worker": 2}, ranks((M, W0, W1), "9999"), M, XGB_PORT
    ),
    "KubeDL's XGBoostJob, a master alone": Manifest(
        "xgboostjobs.training.kubedl.io", {"Master": 1}, ranks((M,), "9999"), M, XGB_PORT
    ),
    "KubeDL's XGBoostJob, with a port of its own": Manifest(
        "xgboostjobs.training.kubedl.io",
        {"Master": 1, "Worker": 1},
        ranks((M, W0), "9991"),
        M,
        ("xgboostjob-port", 9991),
        ports=(OWN_XGB,),
    ),
    "KubeDL's XDLJob, a parameter server and two workers": Manifest(
        "xdljobs.training.kubedl.io",
        {"PS": 1, "Worker": 2},
        {
            P: xdl({"ps": ends(P), "worker": ends(W0, W1)}, "ps"),
            W0: xdl({"ps": ends(P), "worker": ends(W0, W1)}, "worker"),
            W1: xdl({"ps": ends(P), "worker": ends(W0, W1)}, "worker", 1),
        },
        port=("xdljob-port", 2222),
    ),
    "KubeDL's XDLJob, a scheduler, and workers of two kinds": Manifest(
        "xdljobs.training.kubedl.io",
        {"Scheduler": 1, "Worker": 1, "ExtendRole": 1},
        {
            pod: xdl({"scheduler": ends(S), "worker": ends(W0), "extendrole": ends(X0)}, pod.split("-")[1])
            for pod in (S, W0, X0)
        },
        port=("xdljob-port", 2222),
    ),
    "KubeDL's XDLJob, workers alone": Manifest(
        "xdljobs.training.kubedl.io",
        {"Worker": 2},
        {W1: xdl({"worker": ends(W0, W1)}, "worker", 1)},
        port=("xdljob-port", 2222),
    ),
    "KubeDL's MarsJob, a scheduler and two workers": Manifest(
        "marsjobs.training.kubedl.io",
        {"Scheduler": 1, "Worker": 2},
        {S: mars({"scheduler": svc(S, port=11111), "worker": svc(W0, W1, port=11111)}, "scheduler")},
        port=("mars-port", 11111),
    ),
    "KubeDL's MarsJob, with a web service": Manifest(
        "marsjobs.training.kubedl.io",
        {"Scheduler": 1, "WebService": 1, "Worker": 1},
        {S: {"MARS_BIND_PORT": "11111", "MARS_K8S_GROUP_LABELS": "job-name"}},
        port=("mars-port", 11111),
    ),
    "KubeDL's MarsJob, a scheduler alone": Manifest(
        "marsjobs.training.kubedl.io",
        {"Scheduler": 1},
        {S: mars({"scheduler": svc(S, port=11111)}, "scheduler")},
        port=("mars-port", 11111),
    ),
    "KubeDL's ElasticDLJob": Manifest("elasticdljobs.training.kubedl.io", {"Master": 1}, {M: {}}, M),
    "KubeDL's ElasticDLJob, with a port of its own": Manifest(
        "elasticdljobs.training.kubedl.io",
        {"Master": 1},
        {M: {}},
        M,
        ("grpc", 50001),
        ports=({"name": "grpc", "containerPort": 50001},),
    ),
    "KubeDL's ElasticDLJob, with code from elsewhere": Manifest(
        "elasticdljobs.training.kubedl.io", {"Master": 1}, {M: {}}, M, spec={"gitSyncConfig": {"source": "a"}}
    ),
}


def test_each_kind_has_three_manifests() -> None:
    counts = Counter(made.kind for made in MADE.values())
    with_tables_of_their_own = {"mpijobs.kubeflow.org", "mpijobs.training.kubedl.io"}
    assert counts == dict.fromkeys(KIND_OF.keys() - with_tables_of_their_own, 3)


def manifest(made: Manifest) -> Json:
    kind = KIND_OF[GroupResource(made.kind)]
    container: Json = {"name": "main", "image": "trainer:1", **({"ports": list(made.ports)} if made.ports else {})}
    roles = {name: {"replicas": n, "template": {"spec": {"containers": [container]}}} for name, n in made.roles.items()}
    spec = {kind.roles_field: roles, **made.spec}
    return {"apiVersion": kind.api_versions[0], "kind": kind.kind, "metadata": {"name": "digits"}, "spec": spec}


def labels_of(made: Manifest, pod: str) -> Mapping[str, str | None]:
    """What its own operator gives it; of training-operator its prefix and its name."""
    _, type_, index = pod.rsplit("-", 2)
    role = "master" if pod == made.master else None
    found = {"job-name": "digits", "replica-type": type_, "replica-index": index, "job-role": role}
    if KIND_OF[GroupResource(made.kind)].group == "training.kubedl.io":
        return found | {"group-name": "training.kubedl.io"}
    controller = f"{KIND_OF[GroupResource(made.kind)].kind.lower()}-controller"
    return {f"{PREFIX}{name}": value for name, value in (found | {"operator-name": controller}).items()}


@pytest.mark.parametrize("sentence", MADE)
def test_pods_are_those_that_its_own_operator_makes(sentence: str) -> None:
    made = MADE[sentence]
    w = World(kinds=made.kind).apply(manifest(made)).run()
    names = sorted(f"digits-{role.lower()}-{i}" for role, n in made.roles.items() for i in range(n))
    assert sorted(w.pods()) == names
    assert w.services() == ([] if "ElasticDL" in sentence else names)
    for name, pod in w.pods().items():
        told = pod["metadata"]["labels"]
        want = labels_of(made, name)
        assert {label: told.get(label) for label in want} == want, name
        ports = [(port["name"], port["containerPort"]) for port in pod["spec"]["containers"][0].get("ports", ())]
        assert ports == ([made.port] if made.port else []), name
    for name, want_env in made.env.items():
        entries = w.pods()[name]["spec"]["containers"][0]["env"]
        values = {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in entries}
        env = {n: json.loads(v) if str(v)[:2] == '{"' else v for n, v in values.items()}
        assert {n: env.get(n) for n in want_env} == dict(want_env), name
