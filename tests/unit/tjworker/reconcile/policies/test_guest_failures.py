"""What a failed pod brings to a job of another operator's kind. Each case names the function of that operator that
decides so: of training-operator 1.9 (`common/` is pkg/controller.v1/common), of mpi-operator 0.6, of KubeDL 0.5
(`job_controller/` is pkg/job_controller)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tests.support.builders import PodBuilder
from tests.support.guests import parsed
from tests.unit.tjworker.api.guest_cases import manifest
from tests.unit.tjworker.reconcile.passes import World, condition
from tjworker.api.model import TrainingJob
from tjworker.api.observed import ContainerRecord
from tjworker.base import GroupResource

Json = dict[str, Any]
PT, TF, XGB, MPI = (GroupResource(f"{one}jobs.kubeflow.org") for one in ("pytorch", "tf", "xgboost", "mpi"))
PT2, TF2, MARS, MPI2 = (GroupResource(f"{one}jobs.training.kubedl.io") for one in ("pytorch", "tf", "mars", "mpi"))
Containers = Mapping[str, int | None]
"""Name -> the exit code, None while it runs. A name that begins with `init-` is an init container."""


@dataclass(frozen=True)
class Case:
    says: str
    """The operator, and its function."""
    kind: GroupResource
    roles: Mapping[str, str]
    """Role -> its restart policy. The pod is replica 0 of the first."""
    containers: Containers
    want: str
    """"restarted", the phase of the end, or "" where nothing follows."""
    message: str = ""
    """Words of the message of the end."""
    phase: str = "Failed"
    """Of the pod."""
    pod: Json = field(default_factory=dict)
    """Further fields of its record."""
    spec: Json = field(default_factory=dict)


TO = "training-operator common/pod.go `ReconcilePods`: "
TO_TF = "training-operator tensorflow/tfjob_controller.go `ReconcilePods`: "
KD = "KubeDL job_controller/pod.go `reconcileOnePod`: "
BEEF = "0xbeef stands in for an exit code that is not there; "
CASES: dict[str, Case] = {
    # which container's exit code counts
    "the code of `tensorflow` counts, not that of a sidecar that stands before it": Case(
        TO_TF + "GetDefaultContainerName", TF, {"Worker": "ExitCode"}, {"proxy": 0, "tensorflow": 137}, "restarted"
    ),
    "a sidecar's code is not retried": Case(
        TO_TF + "GetDefaultContainerName",
        TF,
        {"Worker": "ExitCode"},
        {"proxy": 137, "tensorflow": 1},
        "Failed",
        "restartPolicy ExitCode: exit code 1 is not retryable",
    ),
    "a name with `aitj-` means nothing here": Case(
        TO + "GetDefaultContainerName", PT, {"Master": "ExitCode"}, {"aitj-proxy": 0, "pytorch": 137}, "restarted"
    ),
    "Kubeflow's calls it xgboost": Case(
        TO + "xgboost_types.go", XGB, {"Master": "ExitCode"}, {"xgboostjob": 0, "xgboost": 137}, "restarted"
    ),
    # no exit code
    "an init container that fails is retried": Case(
        TO + BEEF + "it is >= 128", PT, {"Master": "ExitCode"}, {"init-fetch": 1, "pytorch": None}, "restarted"
    ),
    "a failed pod without container statuses is retried": Case(
        TO + BEEF + "it is >= 128", PT, {"Master": "ExitCode"}, {}, "restarted"
    ),
    "KubeDL retries none of them": Case(
        KD + BEEF + "it is none of 130, 137, 138, 143",
        PT2,
        {"Master": "ExitCode"},
        {"init-fetch": 1, "pytorch": None},
        "Failed",
        "container init-fetch exited with code 1; restartPolicy ExitCode: a failure without an exit",
    ),
    "but one that was evicted": Case(
        KD + "IsRetryablePodFailedReason(Evicted)",
        TF2,
        {"Worker": "ExitCode"},
        {},
        "restarted",
        pod={"reason": "Evicted", "message": "low on memory", "disruption": "TerminationByKubelet"},
    ),
    # the main container has ended, another runs
    "KubeDL fails a pod over whose main container was killed, though a sidecar runs": Case(
        KD + "`Failed || exitCode != initialExitCode`",
        TF2,
        {"Worker": "ExitCode"},
        {"tensorflow": 137, "proxy": None},
        "restarted",
        phase="Running",
    ),
    "not one whose code is final: that waits for the sidecar": Case(
        KD + "ShouldPodFailOver", TF2, {"Worker": "ExitCode"}, {"tensorflow": 1, "proxy": None}, "", phase="Running"
    ),
    "training-operator waits for the sidecar": Case(
        TO_TF + "`pod.Status.Phase == PodFailed`",
        TF,
        {"Worker": "ExitCode"},
        {"tensorflow": 137, "proxy": None},
        "",
        phase="Running",
    ),
    "with OnFailure the kubelet starts the container again at once; here the pod is": Case(
        "training-operator core/pod.go `SetRestartPolicy`: the pod's own restartPolicy",
        PT,
        {"Worker": "OnFailure"},
        {"proxy": None, "pytorch": 1},
        "restarted",
        phase="Running",
    ),
    # roles with rules of their own
    "a worker of KubeDL's MPIJob that has failed ends nothing": Case(
        "KubeDL controllers/mpi/job.go `UpdateJobStatus`: no branch",
        MPI2,
        {"Worker": "Never", "Launcher": ""},
        {"mpi": 1},
        "",
    ),
    "one that was evicted ends the job": Case(
        "KubeDL controllers/mpi/job.go `UpdateJobStatus`: `workerStatus.Evicted > 0`",
        MPI2,
        {"Worker": "Never", "Launcher": ""},
        {},
        "Failed",
        "restartPolicy is Never",
        pod={"reason": "Evicted", "message": "low on memory", "disruption": "TerminationByKubelet"},
    ),
    "a scheduler ends its MarsJob, though its code is retryable": Case(
        "KubeDL controllers/mars/status.go `updateGeneralJobStatus`: `rtype == Scheduler`",
        MARS,
        {"Scheduler": "ExitCode", "Worker": ""},
        {"mars": 137},
        "Failed",
        "restartPolicy is ExitCode, which restarts no scheduler of a MarsJob",
    ),
    "but a used-up backoffLimit does": Case(
        "KubeDL job_controller/job.go `ReconcileJobs`: `jobExceedsLimit`",
        MARS,
        {"Worker": "OnFailure", "Scheduler": ""},
        {"mars": 1},
        "Failed",
        "container mars exited with code 1; backoffLimit 0 of the job is used up",
        spec={"backoffLimit": 0},
    ),
    "likewise of dynamic workers of a TFJob, which end nothing else": Case(
        "training-operator common/job.go `ReconcileJobs`: `jobExceedsLimit`",
        TF,
        {"Worker": "OnFailure", "PS": ""},
        {"tensorflow": 1},
        "Failed",
        "backoffLimit 0",
        spec={"enableDynamicWorker": True, "runPolicy": {"backoffLimit": 0}},
    ),
    "a launcher of v2beta1 with Never is made again": Case(
        "mpi-operator `newLauncherJob`: a batch Job with backoffLimit 6",
        MPI,
        {"Launcher": "Never", "Worker": ""},
        {"mpi": 1},
        "restarted",
    ),
    "until backoffLimit is used up": Case(
        "mpi-operator `newLauncherJob`",
        MPI,
        {"Launcher": "Never", "Worker": ""},
        {"mpi": 1},
        "Failed",
        "backoffLimit 0",
        spec={"runPolicy": {"backoffLimit": 0}},
    ),
}


def read(case: Case) -> TrainingJob:
    names = [name for name in case.containers if not name.startswith("init-")] or ["main"]
    containers = [{"name": name, "image": "trainer:1"} for name in names]
    roles = {
        name: {"replicas": 1, "restartPolicy": policy or "Never", "template": {"spec": {"containers": containers}}}
        for name, policy in case.roles.items()
    }
    return parsed(case.kind, manifest(case.kind, roles, **case.spec))


def ended(case: Case) -> Callable[[PodBuilder], PodBuilder]:
    def change(pod: PodBuilder) -> PodBuilder:
        records = [
            ContainerRecord(name, init=name.startswith("init-"), **state(name, code))
            for name, code in case.containers.items()
        ]
        return pod.running().but(phase=case.phase, containers=tuple(records), **case.pod)

    def state(name: str, code: int | None) -> Json:
        if code is None:
            return {"state": "running" if case.phase == "Running" else "waiting"}
        return {"state": "terminated", "exit_code": code, "reason": "Error" if code else "Completed"}

    return change


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_what_a_failed_pod_brings(case: Case) -> None:
    first = next(iter(case.roles))
    pod = f"digits-{first.lower()}-0"
    # Of an MPIJob pods alone: no launcher that waits, no Secret.
    job = replace(read(case), framework="any", mpi=None, secret=None, subdomain="")
    world = World(job).settle().all("running").settle()
    world.pods[pod] = ended(case)(world.pods[pod])
    world.settle()
    status = world.job.status
    got = "restarted" if world.attempts().get(pod) else status.phase if status.ended else ""
    assert got == case.want, case.says
    if case.message:
        assert status.ending is not None
        assert case.message in status.ending.message
    policies = {"OnNodeFailWithExitCode", "OnNodeFail"}
    told = " ".join(c.message for c in status.conditions)
    assert not any(policy in told for policy in policies), "no manifest of this kind can have that policy"


def test_a_pod_whose_main_container_fails_again_and_again_beside_a_sidecar_rests() -> None:
    """As every pod whose program fails: a kubelet lets it rest in its crash loop, too."""
    case = CASES["KubeDL fails a pod over whose main container was killed, though a sidecar runs"]
    pod = "digits-worker-0"
    world = World(read(case)).settle()
    for _ in range(3):
        world.all("running").settle()
        world.pods[pod] = ended(case)(world.pods[pod])
        world.step()
        world.step()
    assert world.attempts() == {pod: 2}, "the failed pod stays, for its log"
    assert condition(world.job.status, "Running")[:2] == ("False", "BackOff")
    world.now += 30
    world.settle()
    assert world.attempts() == {pod: 3}
