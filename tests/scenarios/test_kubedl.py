"""What users of KubeDL's kinds read, and the pods that they find. How their jobs end, restart and clean up is in
tests/peers.

What KubeDL makes and writes is said in its source: `createNewPod` and `CreateNewService` of pkg/job_controller,
`SetClusterSpec` and `updateGeneralJobStatus` of each controller, pkg/util/status.go.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import pytest

from tests.scenarios.test_kubeflow import DONE, conditions, environment, role, state
from tests.scenarios.test_mpijob import file
from tests.scenarios.world import World
from tests.support import fast_yaml as yaml
from tests.support.paths import ROOT
from tjworker.api.kinds import kubedl

Json = dict[str, Any]
KINDS = {kind.kind: kind for kind in kubedl.JOB_KINDS}
TF, PYTORCH, XGB, XDL, MARS, MPI, ELASTICDL = KINDS


def world(*more: str, **settings: Any) -> World:
    return World(kinds=",".join((*(kind.resource for kind in kubedl.JOB_KINDS), *more)), **settings)


def job(kind: str, roles: dict[str, Json], **spec: Any) -> Json:
    return {
        "apiVersion": "training.kubedl.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": "digits"},
        "spec": {KINDS[kind].roles_field: roles, **spec},
    }


def test_what_its_users_read() -> None:
    w = world().apply(job(TF, {"PS": role(), "Worker": role(2)})).run()
    w.until("it runs", lambda: state(w) == "Running")
    assert conditions(w) == {"Created": "True JobCreated", "Running": "True JobRunning"}
    assert w.status()["conditions"][1]["message"] == "TFJob digits is running."
    assert w.status()["replicaStatuses"] == {"PS": {"active": 1}, "Worker": {"active": 2}}
    w.patch_job("digits", {"spec": {"suspend": True}}).run().advance(40)
    assert (list(w.pods()), state(w)) == ([], "Suspended")


PORTS = {TF: ("tfjob-port", 2222), PYTORCH: ("pytorchjob-port", 23456), XGB: ("xgboostjob-port", 9999)}
PORTS |= {XDL: ("xdljob-port", 2222), MARS: ("mars-port", 11111), MPI: ("mpi-port", 2222)}
M, W0, W1, P0, S0 = "digits-master-0", "digits-worker-0", "digits-worker-1", "digits-ps-0", "digits-scheduler-0"
L = "digits-launcher-0"
UNBUFFERED = {"PYTHONUNBUFFERED": "1"}
SVC = ".default.svc"
RENDEZVOUS = {"MASTER_ADDR": M, "WORLD_SIZE": "3", **UNBUFFERED}
MARS_CLUSTER = {"scheduler": [f"{S0}{SVC}:11111"], "worker": [f"{W0}{SVC}:11111", f"{W1}{SVC}:11111"]}


@dataclass(frozen=True)
class Made:
    roles: tuple[str, str]
    """The one of one replica, and its place; two workers beside it."""
    env: dict[str, Json]
    """Of each pod."""
    master: str = ""
    """The pod that has job-role=master."""


MADE: dict[str, Made] = {
    TF: Made(
        ("PS", P0),
        {
            pod: {
                "TF_CONFIG": {
                    "cluster": {"ps": [f"{P0}{SVC}:2222"], "worker": [f"{W0}{SVC}:2222", f"{W1}{SVC}:2222"]},
                    "task": {"type": task, "index": index},
                    "environment": "cloud",
                }
            }
            for pod, task, index in ((P0, "ps", 0), (W0, "worker", 0), (W1, "worker", 1))
        },
        master=W0,
    ),
    PYTORCH: Made(
        ("Master", M),
        {pod: RENDEZVOUS | {"RANK": str(i), "MASTER_PORT": "23456"} for i, pod in enumerate((M, W0, W1))},
        master=M,
    ),
    XGB: Made(
        ("Master", M),
        {pod: RENDEZVOUS | {"RANK": str(i), "MASTER_PORT": "9999"} for i, pod in enumerate((M, W0, W1))},
        master=M,
    ),
    XDL: Made(
        ("PS", P0),
        {
            P0: {"TASK_NAME": "ps", "TASK_INDEX": "0"},
            W0: {"TASK_NAME": "worker", "TASK_INDEX": "0"},
            W1: {"TASK_NAME": "worker", "TASK_INDEX": "1"},
        },
    ),
    MPI: Made(
        ("Launcher", L),
        {
            L: {"OMPI_MCA_plm_rsh_agent": "/etc/mpi/kubexec.sh", "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile"},
            W0: {},
        },
        master=L,
    ),
    MARS: Made(
        ("Scheduler", S0),
        {
            S0: {
                "MARS_TASK_DETAIL": {"cluster": MARS_CLUSTER, "task": {"type": "scheduler", "index": 0}},
                "MARS_BIND_PORT": "11111",
                "MARS_K8S_GROUP_LABELS": "job-name",
                "MARS_CPU_USE_PROCESS_STAT": "1",
                "MARS_MEM_USE_CGROUP_STAT": "1",
            },
            W1: {
                "MARS_TASK_DETAIL": {
                    "cluster": MARS_CLUSTER,
                    "task": {"type": "worker", "index": 1, "resources": {"cpu_procs": 2, "phy_mem": 1024}},
                },
                "MARS_CPU_TOTAL": "2",
                "MARS_MEMORY_TOTAL": str(1 << 30),
                "MARS_PLASMA_DIRS": "/dev/shm",  # noqa: S108
            },
        },
    ),
}


@pytest.mark.parametrize("kind", MADE)
def test_pods_and_services_are_those_that_kubedl_makes(kind: str) -> None:
    made = MADE[kind]
    first, pod = made.roles
    worker = role(2)
    worker["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1500m", "memory": "1Gi"}}
    w = world().apply(job(kind, {first: role(), "Worker": worker})).run()
    w.until("it runs", lambda: state(w) == "Running")
    assert (sorted(w.pods()), w.services()) == (sorted([pod, W0, W1]), sorted([pod, W0, W1]))
    for name, told in w.pods().items():
        labels = told["metadata"]["labels"]
        _, type_, index = name.rsplit("-", 2)
        want = {"group-name": "training.kubedl.io", "job-name": "digits", "replica-type": type_, "replica-index": index}
        assert want.items() <= labels.items()
        assert (labels.get("job-role") == "master") is (name == made.master)
        ports = told["spec"]["containers"][0]["ports"]
        assert [(port["name"], port["containerPort"]) for port in ports] == [PORTS[kind]]
    for name, want_env in made.env.items():
        found = environment(w, name)
        assert {n: json.loads(v) if v[:1] == "{" else v for n, v in found.items()}.items() >= want_env.items()


PAGE = [
    yaml.safe_load(block)
    for block in re.findall(r"```yaml\n(.*?)```", (ROOT / "docs/kubedl.md").read_text(encoding="utf-8"), re.DOTALL)
]


@pytest.mark.parametrize("manifest", PAGE, ids=[one["kind"] for one in PAGE])
def test_a_manifest_of_the_page_runs(manifest: Json) -> None:
    w = world().apply({**manifest, "metadata": {"name": "digits"}}).run()
    w.until("it runs", lambda: state(w) == "Running")
    assert "not acted on" not in w.status()["conditions"][0]["message"]


def test_each_kind_has_an_example_that_the_page_leads_to() -> None:
    examples = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in ROOT.glob("examples/kinds/kubedl-*.yaml")]
    assert sorted(one["kind"] for one in examples) == sorted(KINDS)


IMPLEMENTATIONS: dict[str, tuple[Json, Json, str]] = {
    "Open MPI": (
        {},
        {"OMPI_MCA_plm_rsh_agent": "/etc/mpi/kubexec.sh", "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile"},
        f"{W0} slots=2\n{W1} slots=2\n",
    ),
    "Intel MPI": (
        {"mpiDistribution": "IntelMPI"},
        {"I_MPI_HYDRA_BOOTSTRAP_EXEC": "/etc/mpi/kubexec.sh", "I_MPI_HYDRA_HOST_FILE": "/etc/mpi/hostfile"},
        f"{W0}:2\n{W1}:2\n",
    ),
    "MPICH": (
        {"mpiDistribution": "MPICH"},
        {"HYDRA_LAUNCHER_EXEC": "/etc/mpi/kubexec.sh", "HYDRA_HOST_FILE": "/etc/mpi/hostfile"},
        f"{W0}:2\n{W1}:2\n",
    ),
}


@pytest.mark.parametrize("sentence", IMPLEMENTATIONS)
def test_what_mpirun_finds_is_what_kubedl_gives_it(sentence: str) -> None:
    """`setupLauncherMainContainers` and `newJobConfigMap`; the agent is in the place of kubectl."""
    spec, want, hosts = IMPLEMENTATIONS[sentence]
    w = world().apply(job(MPI, {"Launcher": role(), "Worker": role(2)}, slotsPerWorker=2, **spec)).run()
    w.until("it runs", lambda: state(w) == "Running")
    assert {k: v for k, v in environment(w, L).items() if k in want} == want
    others = {name for _, env, _ in IMPLEMENTATIONS.values() for name in env} - want.keys()
    assert not others & {*environment(w, L), *environment(w, W0), *want} - {"I_MPI_HYDRA_BOOTSTRAP_EXEC"}
    assert file(w, L, "hostfile") == hosts
    assert file(w, L, "agent.py") == file(w, W0, "agent.py")
    pod = w.pods()[W0]["spec"]
    assert pod["containers"][0]["command"] == ["python3", "/etc/mpi/agent.py", "serve"]
    assert w.pods()[L]["spec"].get("serviceAccountName", "default") == "default", "it needs no rights"
    assert len(w.cluster.client.get("/api/v1/namespaces/default/secrets")["items"]) == 1


def test_the_launcher_of_an_mpijob_is_made_when_its_workers_are_ready() -> None:
    w = world().apply(job(MPI, {"Launcher": role(), "Worker": role(2, ready_seconds=30)})).run().advance(10)
    assert sorted(w.pods()) == [W0, W1]
    w.until("it runs", lambda: state(w) == "Running")


def made_by_the_master(w: World, name: str, *, owned: bool) -> None:
    """As ElasticDL's `create_pod` makes one: with its master pod as the owner, where it finds that."""
    master = w.pods()[M]["metadata"]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": M, "uid": master["uid"], "blockOwnerDeletion": True}
    labels = {"app": "elasticdl", "elasticdl-job-name": "digits", "elasticdl-replica-type": "worker"}
    w.create_pod(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": labels, **({"ownerReferences": [owner]} if owned else {})},
            "spec": {"containers": [{"name": name, "image": "elasticdl:1"}], "restartPolicy": "Never"},
        }
    )


def test_an_elasticdl_master_has_the_labels_of_kubedl_and_no_service() -> None:
    w = world().apply(job(ELASTICDL, {"Master": role()})).run()
    w.until("it runs", lambda: state(w) == "Running")
    assert (sorted(w.pods()), w.services()) == ([M], [])
    want = {"group-name": "training.kubedl.io", "job-name": "digits", "replica-type": "master", "replica-index": "0"}
    pod = w.pods()[M]
    assert (want | {"job-role": "master"}).items() <= pod["metadata"]["labels"].items()
    assert "ports" not in pod["spec"]["containers"][0], "KubeDL has no defaults for this kind"
    assert w.status()["replicaStatuses"] == {"Master": {"active": 1}}


def test_pods_that_an_elasticdl_master_makes_are_nobodys_here_and_go_with_it_where_it_owns_them() -> None:
    w = world().apply(job(ELASTICDL, {"Master": role()})).run()
    w.until("it runs", lambda: state(w) == "Running")
    made_by_the_master(w, "elasticdl-digits-worker-0", owned=True)
    made_by_the_master(w, "elasticdl-digits-worker-1", owned=False)
    before = w.uids()
    w.run().advance(90, step_seconds=10)
    assert w.make_runtime("orphans").orphans.collect() == (0, 0)
    assert w.uids() == before, "neither counted as surplus nor as orphans"
    assert w.status()["replicaStatuses"] == {"Master": {"active": 1}}, "nor in the status"
    w.delete("digits").run().advance(90, step_seconds=10)
    assert sorted(w.pods()) == ["elasticdl-digits-worker-1"], "the garbage collector takes what the master owned"


def test_what_the_framework_refuses_is_named_as_the_user_wrote_it() -> None:
    w = world().apply(job(TF, {"Evaluator": role()})).run()
    (failed,) = [c for c in w.status()["conditions"] if c["type"] == "Failed"]
    assert failed["reason"] == "JobFailedValidation"
    assert "spec.tfReplicaSpecs: has evaluator, but a TFJob has at least one of the roles" in failed["message"]


def test_kinds_of_one_name_and_two_groups_live_side_by_side() -> None:
    w = world("tfjobs.kubeflow.org").apply(job(TF, {"Worker": role(**DONE)}, ttlSecondsAfterFinished=60))
    theirs = job(TF, {"Worker": role()}) | {"apiVersion": "kubeflow.org/v1", "metadata": {"name": "other"}}
    w.apply(theirs).run().advance(20)
    found = {
        name: w.cluster.client.get(f"/apis/{version}/namespaces/default/tfjobs/{name}")["status"]["conditions"][-1]
        for version, name in (("training.kubedl.io/v1alpha1", "digits"), ("kubeflow.org/v1", "other"))
    }
    assert {name: c["reason"] for name, c in found.items()} == {"digits": "JobSucceeded", "other": "TFJobRunning"}
    assert w.make_runtime("orphans").orphans.collect() == (0, 0)
    w.advance(90, step_seconds=10)
    items = w.cluster.client.get("/apis/training.kubedl.io/v1alpha1/namespaces/default/tfjobs")["items"]
    assert (items, sorted(w.pods())) == ([], ["other-worker-0"])
