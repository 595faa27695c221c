"""KubeDL's kinds, from the manifest to the internal job: what KubeDL defaults and decides (`apis/training/v1alpha1/
*_defaults.go`, `*_constants.go`, `controllers/*/status.go`), and what is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.unit.tjworker.api.guest_cases import Case, Refusal, manifest, read, refusal_of, role
from tjworker.api import crd
from tjworker.api.ignored import Ignored
from tjworker.api.kinds import KNOWN_KINDS, kubedl
from tjworker.api.model import Enough, MPILaunch, TrainingJob

TF, PYTORCH, _, XDL, MARS, MPI, ELASTICDL = (kind.resource for kind in kubedl.JOB_KINDS)


CASES: dict[str, Case] = {
    "defaults of a TFJob": Case(
        TF,
        {"Worker": role(None), "ps": role(2)},
        want={
            "framework": "tensorflow",
            "clean_pod_policy": "Running",
            "ttl_seconds_after_finished": None,
            "Worker.replicas": 1,
            "Worker.restart_policy": "OnNodeFailWithExitCode",
            "Worker.complete_policy": "Rank0",
            "PS.complete_policy": "None",
            "PS.spec_path": "spec.tfReplicaSpecs.ps.replicas",
        },
    ),
    "an elastic PyTorchJob": Case(
        PYTORCH,
        {"Master": role(), "Worker": role(1)},
        {"enableElastic": True, "elasticPolicy": {"minReplicas": 1, "maxReplicas": 3}},
        {"Worker.elastic": True, "Worker.max_replicas": 3, "ignored": ()},
    ),
    "defaults of an XDLJob: nine tenths of the workers are enough": Case(
        XDL,
        {"Worker": role(15), "ExtendRole": role(6), "PS": role(), "Scheduler": role()},
        want={
            "framework": "xdl",
            "clean_pod_policy": "Running",
            "backoff_limit": 20,
            "enough": Enough(("Worker", "ExtendRole"), 19),
        },
    ),
    "a MarsJob lives and dies with its schedulers": Case(
        MARS,
        {"Scheduler": role(), "Worker": role(2), "WebService": role()},
        {"webHost": "mars.example.com"},
        {
            "Scheduler.complete_policy": "All",
            "Scheduler.fail_policy": "Any",
            "Scheduler.restart_policy": "Never",
            "Worker.fail_policy": "None",
            "Worker.restart_policy": "OnNodeFailWithExitCode",
            "WebService.restart_policy": "Always",
            "ignored": (Ignored("spec.webHost"),),
        },
    ),
    "defaults of an MPIJob": Case(
        MPI,
        {"Launcher": role(None), "Worker": role(None)},
        want={
            "framework": "mpi",
            "clean_pod_policy": "Running",
            "backoff_limit": None,
            "Launcher.complete_policy": "All",
            "Launcher.restart_policy": "Never",
            "Worker.restart_policy": "Never",
            "Worker.replicas": 1,
            "mpi": MPILaunch(slots=1, implementation="OpenMPI", agent=True, on_launcher=False, waits=True),
            "subdomain": "",
        },
    ),
    "the run policy of an MPIJob stands in runPolicy": Case(
        MPI,
        {"Launcher": role(), "Worker": role(2)},
        {
            "runPolicy": {
                "cleanPodPolicy": "All",
                "ttlSecondsAfterFinished": 5,
                "activeDeadlineSeconds": 6,
                "backoffLimit": 7,
                "suspend": True,
                "schedulingPolicy": {"minAvailable": 2, "priority": 1},
                "cronPolicy": {"schedule": "* * * * *"},
            }
        },
        {
            "clean_pod_policy": "All",
            "ttl_seconds_after_finished": 5,
            "active_deadline_seconds": 6,
            "backoff_limit": 7,
            "suspend": True,
            "suspend_field": "spec.runPolicy.suspend",
            "min_available": 2,
            "ignored": (Ignored("spec.runPolicy.schedulingPolicy.priority"), Ignored("spec.runPolicy.cronPolicy")),
        },
    ),
    "an MPIJob of v1alpha2, with its distribution": Case(
        MPI,
        {"Launcher": role(), "Worker": role(2)},
        {"mpiDistribution": "IntelMPI", "slotsPerWorker": 4},
        {"mpi": MPILaunch(slots=4, implementation="Intel", agent=True, on_launcher=False, waits=True)},
    ),
    "a launcher with GPUs has processes, too": Case(
        MPI,
        {"Launcher": role(1, {"resources": {"limits": {"nvidia.com/gpu": 1}}}), "Worker": role(2)},
        want={"mpi": MPILaunch(slots=1, implementation="OpenMPI", agent=True, on_launcher=True, waits=True)},
    ),
    "arguments that no entrypoint of the image will get are told": Case(
        MPI,
        {"Launcher": role(), "worker": role(2, {"args": ["-De"]})},
        want={
            "ignored": (
                Ignored("spec.mpiReplicaSpecs.worker.template.spec.containers[0].args", "without a command; set one"),
            )
        },
    ),
    "an ElasticDLJob is its master": Case(
        ELASTICDL,
        {"Master": role(None)},
        {"gitSyncConfig": {"source": "a"}},
        {
            "framework": "",
            "clean_pod_policy": "Running",
            "Master.replicas": 1,
            "Master.restart_policy": "Never",
            "Master.complete_policy": "All",
            "scale_role": None,
            "ignored": (Ignored("spec.gitSyncConfig"),),
        },
    ),
    "what nothing acts on is told": Case(
        TF,
        {"Worker": role(1, spotReplicaSpec={"spotReplicaNumber": 1})},
        {
            "cronPolicy": {"schedule": "* * * * *"},
            "modelVersion": {"imageRepo": "a"},
            "cacheBackend": {},
            "schedulingPolicy": {"queue": "q", "priority": 1},
        },
        {
            "ignored": (
                Ignored("spec.schedulingPolicy.priority"),
                Ignored("spec.cronPolicy"),
                Ignored("spec.modelVersion"),
                Ignored("spec.tfReplicaSpecs.Worker.spotReplicaSpec"),
            )
        },
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_what_a_manifest_becomes(case: Case) -> None:
    assert case.found() == case.want


REFUSED: dict[str, Refusal] = {
    "two masters, named as the user wrote them": (
        PYTORCH,
        manifest(PYTORCH, {"master": role(2)}),
        "spec.pytorchReplicaSpecs.master.replicas: 2: must be 1",
    ),
    "a PyTorchJob without a master": (
        PYTORCH,
        manifest(PYTORCH, {"Worker": role()}),
        "spec.pytorchReplicaSpecs.Master: required value: a PyTorchJob has a Master",
    ),
    "a MarsJob without a scheduler": (
        MARS,
        manifest(MARS, {"Worker": role()}),
        "spec.marsReplicaSpecs.Scheduler: required value",
    ),
    "a role of another kind": (XDL, manifest(XDL, {"Master": role()}), "is no role of an XDLJob: use PS, Scheduler"),
    "more percent than there are": (
        XDL,
        manifest(XDL, {"PS": role()}, minFinishWorkRate=101),
        "spec.minFinishWorkRate",
    ),
    "an MPIJob without workers": (
        MPI,
        manifest(MPI, {"Launcher": role()}),
        "spec.mpiReplicaSpecs.Worker: required value: the launcher starts its processes in workers; add them",
    ),
    "an MPIJob with a mainContainer that no worker has": (
        MPI,
        manifest(MPI, {"Launcher": role(), "Worker": role()}, mainContainer="other"),
        "spec.mainContainer: 'other' is no container of a worker: use main",
    ),
    "an ElasticDLJob with workers, which its master makes": (
        ELASTICDL,
        manifest(ELASTICDL, {"Master": role(), "Worker": role()}),
        "spec.elasticdlReplicaSpecs.Worker: is no role of an ElasticDLJob: use Master",
    ),
    "a size that is none": (
        MARS,
        manifest(MARS, {"Scheduler": role()}, workerMemoryTuningPolicy={"workerCacheSize": "much"}),
        "spec.workerMemoryTuningPolicy.workerCacheSize: 'much'",
    ),
}


V1ALPHA1: tuple[tuple[str, Any, str], ...] = (
    ("gpus", 4, "write mpiReplicaSpecs.Worker.replicas and slotsPerWorker"),
    ("gpusPerNode", 4, "write slotsPerWorker"),
    ("processingUnits", 4, "write mpiReplicaSpecs.Worker.replicas and slotsPerWorker"),
    ("processingUnitsPerNode", 4, "write slotsPerWorker"),
    ("processingResourceType", "cpu", "write slotsPerWorker, and the resource into the limits"),
    ("launcherOnMaster", True, "write a nodeSelector into the launcher's template"),
    ("replicas", 4, "write mpiReplicaSpecs.Worker.replicas"),
    ("template", {"spec": {}}, "write mpiReplicaSpecs.Launcher.template and mpiReplicaSpecs.Worker.template"),
)
REFUSED |= {
    f"{name}, a field of MPIJob v1alpha1": (
        MPI,
        manifest(MPI, {"Launcher": role(), "Worker": role()}, **{name: value}),
        f"spec.{name}: is a field of MPIJob v1alpha1, which is not served; {instead}",
    )
    for name, value, instead in V1ALPHA1
}


def test_a_whole_manifest_of_v1alpha1_is_told_what_to_write() -> None:
    """It has no mpiReplicaSpecs, which no schema may ask for then."""
    told = refusal_of(MPI, {**manifest(MPI, {}), "spec": {"gpus": 4, "template": {"spec": {"containers": []}}}})
    assert "spec.gpus: is a field of MPIJob v1alpha1, which is not served; write mpiReplicaSpecs.Worker" in told
    assert "spec.template: is a field of MPIJob v1alpha1" in told
    assert "spec.mpiReplicaSpecs: has no role; an MPIJob has Launcher or Worker" in told
    assert "required" not in crd.schema(KNOWN_KINDS[MPI])["properties"]["spec"]


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str) -> None:
    kind, raw, want = REFUSED[name]
    assert want in refusal_of(kind, raw), name


def environment(job: TrainingJob, role_name: str) -> Mapping[str, str]:
    return {e["name"]: e["value"] for e in job.role(role_name).template["spec"]["containers"][0].get("env", ())}


def test_jobs_that_share_a_zookeeper_have_a_folder_each_there() -> None:
    zk = {"env": [{"name": "ZK_ADDR", "value": "zfs://zk:2181/xdl/"}, {"name": "A", "value": "b"}]}
    assert environment(read(XDL, {"Worker": role(1, zk)}), "Worker") == {"ZK_ADDR": "zfs://zk:2181/xdl/u", "A": "b"}
