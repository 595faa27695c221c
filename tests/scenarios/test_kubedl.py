"""What users of KubeDL's kinds read. Their pods are in test_guest_pods; how their jobs end, restart and clean up is in
tests/peers.

What KubeDL makes and writes is said in its source: `createNewPod` and `CreateNewService` of pkg/job_controller,
`SetClusterSpec` and `updateGeneralJobStatus` of each controller, pkg/util/status.go.
"""

from __future__ import annotations

import re
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


M, W0, W1, L = "digits-master-0", "digits-worker-0", "digits-worker-1", "digits-launcher-0"


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
