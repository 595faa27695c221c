"""What each framework's launcher finds in its pods, written out of that framework's documentation and of what
training-operator 1.9 and KubeDL set for the same job; the docstrings of the frameworks name the pages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.builders import make_job
from tests.support.builders.job import JobBuilder
from tests.unit.tjworker.reconcile.passes import decide
from tjworker.api.model import TrainingJob
from tjworker.reconcile.frameworks import find_framework
from tjworker.reconcile.workloads.environment import role_environment
from tjworker.reconcile.workloads.podbody import pod_body

Json = dict[str, Any]


def job(framework: str, *, name: str = "digits", **roles: Any) -> JobBuilder:
    """Roles by name: a number of replicas, or fields of the role."""
    built = make_job(name).spec(frameworkType=framework)
    for role, told in roles.items():
        fields: Json = {"replicas": told} if isinstance(told, int) else dict(told)
        built = built.role(role, fields.pop("replicas"), ports=(), **fields)
    return built


def bodies(built: TrainingJob) -> dict[str, Json]:
    """Every pod of the job as it is made, whatever it waits for."""
    role_env = role_environment(built)
    made = [pod_body(built, role, i, 0, role_env) for role in built.roles for i in range(role.replicas)]
    return {body["metadata"]["name"]: body for body in made}


def told(body: Mapping[str, Any], built: TrainingJob) -> dict[str, object]:
    """The variables of the framework: those that are neither the job's nor a role's."""
    own = tuple(f"{role.name.upper()}_{kind}" for role in built.roles for kind in ("HOSTS", "INSTANCES", "PORTS"))
    return {
        e["name"]: e.get("value", e.get("valueFrom"))
        for e in body["spec"]["containers"][0]["env"]
        if not e["name"].startswith(("TRAININGJOB_", *own)) and e["name"] != "PYTHONUNBUFFERED"
    }


def torch(rank: int, size: int, master: str, port: int = 23456) -> dict[str, str]:
    env = {"MASTER_ADDR": master, "MASTER_PORT": str(port), "RANK": str(rank), "WORLD_SIZE": str(size)}
    pet = {"PET_MASTER_ADDR": master, "PET_MASTER_PORT": str(port), "PET_NODE_RANK": str(rank), "PET_NNODES": str(size)}
    return {**env, **pet, "LOCAL_RANK": "0"}


def torchrun(nnodes: str, *, host: bool, endpoint: str = "digits-worker-0:23456", restarts: int = 100) -> Json:
    return {
        "PET_NNODES": nnodes,
        "PET_RDZV_BACKEND": "c10d",
        "PET_RDZV_ENDPOINT": endpoint,
        "PET_RDZV_ID": "uid-digits",
        "PET_RDZV_CONF": f"is_host={'true' if host else 'false'}",
        "PET_MAX_RESTARTS": str(restarts),
    }


def jax(index: int, size: int) -> dict[str, str]:
    where = {"COORDINATOR_ADDRESS": "digits-worker-0", "COORDINATOR_PORT": "6666"}
    return {
        **where,
        "JAX_COORDINATOR_ADDRESS": "digits-worker-0:6666",
        "NUM_PROCESSES": str(size),
        "PROCESS_ID": str(index),
    }


def xgboost(rank: int, size: int, workers: str) -> dict[str, str]:
    dmlc = {"DMLC_TRACKER_URI": "digits-master-0", "DMLC_TRACKER_PORT": "9999", "DMLC_TASK_ID": str(rank)}
    master = {"MASTER_ADDR": "digits-master-0", "MASTER_PORT": "9999", "RANK": str(rank), "WORLD_SIZE": str(size)}
    return {
        **dmlc,
        "DMLC_NUM_WORKER": str(size),
        **master,
        **({"WORKER_ADDRS": workers, "WORKER_PORT": "9999"} if workers else {}),
    }


def paddle(master: str, nnodes: str, rank: int | None, **more: str) -> dict[str, object]:
    return {
        "POD_IP_DUMMY": {"fieldRef": {"fieldPath": "status.podIP"}},
        "POD_IP": "$(POD_IP_DUMMY)",
        "PADDLE_MASTER": master,
        "PADDLE_JOB_ID": "digits",
        "PADDLE_NNODES": nnodes,
        **({} if rank is None else {"PADDLE_RANK": str(rank)}),
        **more,
    }


def tf_config(cluster: Json, kind: str, index: int) -> Json:
    return {"TF_CONFIG": {"cluster": cluster, "task": {"type": kind, "index": index}, "environment": "cloud"}}


def sparse(cluster: Json, kind: str, index: int) -> Json:
    """Twice, as TensorFlow reads it and as training-operator writes it."""
    theirs: Json = {"worker": {}, "ps": []} | cluster
    return {"TF_CONFIG": {"cluster": cluster, "sparseCluster": theirs, "task": {"type": kind, "index": index}}}


def tf_host(role: str, index: int, port: int = 2222) -> str:
    return f"digits-{role}-{index}.default.svc:{port}"


OPEN_MPI = {
    "PRTE_MCA_prte_default_hostfile": "/etc/mpi/hostfile",
    "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile",
}
HYDRA = {"HYDRA_HOST_FILE": "/etc/mpi/hydra_hostfile", "I_MPI_HYDRA_HOST_FILE": "/etc/mpi/hydra_hostfile"}
CHIEF_AND_WORKERS = {"chief": [tf_host("chief", 0)], "worker": [tf_host("worker", 0), tf_host("worker", 1)]}
PS_AND_WORKERS = {"ps": [tf_host("ps", 0)], "worker": [tf_host("worker", 0), tf_host("worker", 1)]}
ELASTIC = {"replicas": 2, "least": 2, "most": 4}


@dataclass(frozen=True)
class Case:
    job: JobBuilder
    want: Mapping[str, Mapping[str, object]]
    """Pod -> its framework's variables, all of them."""
    want_master: str = ""


CASES: dict[str, Case] = {
    "pytorch: the master is rank 0, workers come after it": Case(
        job("pytorch", Master=1, Worker=2),
        {
            "digits-master-0": torch(0, 3, "digits-master-0"),
            "digits-worker-0": torch(1, 3, "digits-master-0"),
            "digits-worker-1": torch(2, 3, "digits-master-0"),
        },
        "digits-master-0",
    ),
    "pytorch: without a master worker 0 is it": Case(
        job("pytorch", worker=2),
        {f"digits-worker-{i}": torch(i, 2, "digits-worker-0") for i in range(2)},
        "digits-worker-0",
    ),
    "pytorch: elastic, torchrun's rendezvous tells who is who": Case(
        job("pytorch", worker=ELASTIC),
        {"digits-worker-0": torchrun("2:4", host=True), "digits-worker-1": torchrun("2:4", host=False)},
        "digits-worker-0",
    ),
    "pytorch: elastic with a master, which is one node more": Case(
        job("pytorch", master=1, worker=ELASTIC | {"limit": 7}),
        {
            "digits-master-0": torchrun("3:5", host=True, endpoint="digits-master-0:23456", restarts=7),
            "digits-worker-0": torchrun("3:5", host=False, endpoint="digits-master-0:23456", restarts=7),
            "digits-worker-1": torchrun("3:5", host=False, endpoint="digits-master-0:23456", restarts=7),
        },
        "digits-master-0",
    ),
    "jax: worker 0 is the coordinator": Case(
        job("jax", worker=2), {f"digits-worker-{i}": jax(i, 2) for i in range(2)}, "digits-worker-0"
    ),
    "xgboost: the master has the tracker and is worker 0 of the collective": Case(
        job("xgboost", master=1, worker=2),
        {
            "digits-master-0": xgboost(0, 3, "digits-worker-0,digits-worker-1"),
            "digits-worker-0": xgboost(1, 3, "digits-worker-0,digits-worker-1"),
            "digits-worker-1": xgboost(2, 3, "digits-worker-0,digits-worker-1"),
        },
        "digits-master-0",
    ),
    "xgboost: a master alone has no workers to name": Case(
        job("xgboost", master=1), {"digits-master-0": xgboost(0, 1, "")}, "digits-master-0"
    ),
    "paddle, collective: replica 0 knows itself as the master by its IP": Case(
        job("paddle", worker=2),
        {
            "digits-worker-0": paddle("$(POD_IP_DUMMY):36543", "2", 0),
            "digits-worker-1": paddle("digits-worker-0:36543", "2", 1),
        },
        "digits-worker-0",
    ),
    "paddle, parameter servers: each pod has one server or one trainer": Case(
        job("paddle", master=1, worker=1),
        {
            "digits-master-0": paddle("$(POD_IP_DUMMY):36543", "2", 0, PADDLE_SERVER_NUM="1"),
            "digits-worker-0": paddle("digits-master-0:36543", "2", 1, PADDLE_TRAINER_NUM="1"),
        },
        "digits-master-0",
    ),
    "paddle, elastic: bounds, and no rank": Case(
        job("paddle", worker=ELASTIC),
        {
            "digits-worker-0": paddle("$(POD_IP_DUMMY):36543", "2:4", None),
            "digits-worker-1": paddle("digits-worker-0:36543", "2:4", None),
        },
        "digits-worker-0",
    ),
    "tensorflow: chief, workers and an evaluator that is not of the cluster": Case(
        job("tensorflow", Chief=1, Worker=2, Evaluator=1),
        {
            "digits-chief-0": tf_config(CHIEF_AND_WORKERS, "chief", 0),
            "digits-worker-0": tf_config(CHIEF_AND_WORKERS, "worker", 0),
            "digits-worker-1": tf_config(CHIEF_AND_WORKERS, "worker", 1),
            "digits-evaluator-0": tf_config(CHIEF_AND_WORKERS, "evaluator", 0),
        },
        "digits-chief-0",
    ),
    "tensorflow: parameter servers, where worker 0 is the master": Case(
        job("tensorflow", PS=1, Worker=2),
        {
            "digits-ps-0": tf_config(PS_AND_WORKERS, "ps", 0),
            "digits-worker-0": tf_config(PS_AND_WORKERS, "worker", 0),
            "digits-worker-1": tf_config(PS_AND_WORKERS, "worker", 1),
        },
        "digits-worker-0",
    ),
    "tensorflow: a pod alone looks for nobody": Case(
        job("tensorflow", worker=1), {"digits-worker-0": {}}, "digits-worker-0"
    ),
    "tensorflow: an elastic worker knows itself and the parameter servers": Case(
        job("tensorflow", ps=1, worker=ELASTIC),
        {
            "digits-ps-0": sparse({"ps": [tf_host("ps", 0)]}, "ps", 0),
            "digits-worker-0": sparse({"ps": [tf_host("ps", 0)], "worker": {"0": tf_host("worker", 0)}}, "worker", 0),
            "digits-worker-1": sparse({"ps": [tf_host("ps", 0)], "worker": {"1": tf_host("worker", 1)}}, "worker", 1),
        },
        "digits-worker-0",
    ),
    "mpi: the launcher knows where its hostfiles are": Case(
        job("mpi", launcher=1, worker=2),
        {"digits-launcher-0": OPEN_MPI | HYDRA, "digits-worker-0": {}, "digits-worker-1": {}},
        "digits-launcher-0",
    ),
    "any: nothing beside the operator's own": Case(
        job("any", master=1, worker=1), {"digits-master-0": {}, "digits-worker-0": {}}, "digits-master-0"
    ),
}


@pytest.mark.parametrize("sentence", CASES)
def test_what_a_replica_is_told(sentence: str) -> None:
    case = CASES[sentence]
    built = case.job.metadata(uid="uid-digits").build()
    found = {name: told(body, built) for name, body in bodies(built).items()}
    for env in found.values():
        if isinstance(env.get("TF_CONFIG"), str):
            env["TF_CONFIG"] = json.loads(str(env["TF_CONFIG"]))
    assert found == case.want
    masters = [n for n, body in bodies(built).items() if body["metadata"]["labels"].get("job-role") == "master"]
    assert masters == [case.want_master]


PORT = {"spec": {"containers": [{"name": "main", "image": "i", "ports": [{"name": "aitj-p", "containerPort": 7000}]}]}}


@pytest.mark.parametrize(
    ("framework", "variable", "want"),
    [
        ("pytorch", "MASTER_PORT", "7000"),
        ("jax", "JAX_COORDINATOR_ADDRESS", "digits-worker-0:7000"),
        ("xgboost", "DMLC_TRACKER_PORT", "7000"),
        ("paddle", "PADDLE_MASTER", "digits-worker-0:7000"),
    ],
)
def test_a_port_that_counts_is_the_one_that_others_are_told(framework: str, variable: str, want: str) -> None:
    built = make_job().spec(frameworkType=framework).role("worker", 2, template=PORT).build()
    assert told(bodies(built)["digits-worker-1"], built)[variable] == want


@pytest.mark.parametrize("framework", ["pytorch", "tensorflow", "paddle"])
def test_scaling_changes_nothing_of_what_running_replicas_were_told(framework: str) -> None:
    roles: Json = {"ps": 1} if framework == "tensorflow" else {}
    few, many = (job(framework, **roles, worker={"replicas": n, "least": 2, "most": 4}).build() for n in (2, 4))
    before, after = bodies(few), bodies(many)
    assert {n: told(before[n], few) for n in before} == {n: told(after[n], many) for n in before}
    assert find_framework(many).order(many)[-1] == "worker"


# -- the order in which things are made, and what is refused -------------------------------------------


@pytest.mark.parametrize(
    ("built", "want"),
    [
        (job("pytorch", Worker=1, Master=1), ["Master", "Worker"]),
        (job("tensorflow", Worker=1, Chief=1, PS=1, Evaluator=1), ["PS", "Chief", "Worker", "Evaluator"]),
        (job("xgboost", Worker=1, Master=1), ["Master", "Worker"]),
        (job("mpi", Launcher=1, Worker=1), ["Worker", "Launcher"]),
        (job("any", b=1, a=1), ["a", "b"]),
    ],
)
def test_roles_are_made_in_the_order_of_the_framework(built: JobBuilder, want: list[str]) -> None:
    job = built.build()
    assert find_framework(job).order(job) == want


REFUSED: dict[str, tuple[JobBuilder, str, str]] = {
    "two masters of pytorch": (
        job("pytorch", Master=2, Worker=1),
        "spec.replicaSpecs.Master.replicas",
        "has one master; set it to 1",
    ),
    "two chiefs": (job("tensorflow", chief=2, worker=1), "spec.replicaSpecs.chief.replicas", "has one chief"),
    "a chief and a master": (job("tensorflow", chief=1, master=1), "spec.replicaSpecs", "two names of one role"),
    "roles of no TensorFlow": (job("tensorflow", trainer=2), "spec.replicaSpecs", "has trainer, but"),
    "two masters of xgboost": (job("xgboost", master=2), "spec.replicaSpecs.master.replicas", "has one master"),
    "two launchers": (job("mpi", launcher=2, worker=1), "spec.replicaSpecs.launcher.replicas", "has one launcher"),
    "no launcher": (job("mpi", worker=2), "spec.replicaSpecs", "the role launcher"),
    "jax that the autoscaler moves": (
        job("jax", worker=ELASTIC | {"edl": "Auto"}),
        "spec.replicaSpecs.worker.edlPolicy",
        "set it to Manual",
    ),
    "hostfiles that no pod can carry": (
        job("mpi", name="a-rather-long-name-of-a-job", launcher=1, worker=9000),
        "spec.replicaSpecs",
        "hostfiles",
    ),
    "a TF_CONFIG that Linux cannot pass to a program": (
        job("tensorflow", worker=9000),
        "spec.replicaSpecs",
        "TF_CONFIG",
    ),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_what_the_framework_cannot_run_is_refused_and_nothing_is_made(sentence: str) -> None:
    built, path, words = REFUSED[sentence]
    plan = decide(built.build())
    assert not plan.writes
    assert plan.status is not None
    (failed,) = [c for c in plan.status.conditions if c.type == "Failed"]
    assert (failed.status, failed.reason) == ("True", "InvalidSpec")
    assert failed.message.startswith(f"{path}: ")
    assert words in failed.message


def test_a_list_that_linux_cannot_pass_to_a_program_is_left_out() -> None:
    """Of LightGBM's workers: XGBoost, for which the variable is not there, needs none."""
    built = job("xgboost", master=1, worker=9000).build()
    role = built.role("worker")
    env = told(pod_body(built, role, 8999, 0, {}), built)
    assert ("WORKER_ADDRS" in env, env["DMLC_TASK_ID"], env["WORLD_SIZE"]) == (False, "9000", "9001")
