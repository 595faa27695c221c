"""training-operator's own test cases (v1.9.3), played as black-box tests: each names its Go test. Where its test calls
a function with a made-up status, the pods here come to that state by themselves. `why`: what this operator does
otherwise on purpose, or why the case differs from the Go table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from localcluster.kubelet.node import NodeConfig
from tests.peers.table import (
    DONE,
    W0,
    W1,
    W2,
    W3,
    WRONG,
    C,
    Has,
    Json,
    L,
    M,
    P,
    Play,
    Step,
    after,
    judge,
    patch,
    roles,
    then,
)
from tests.peers.training_operator import (
    ALL,
    GPU_LAUNCHER,
    JAX,
    MPI,
    PADDLE,
    PYTORCH,
    TF,
    play,
    whole,
    with_env,
    with_pod,
)
from tests.scenarios.test_kubeflow import role
from tests.support.guests import KIND_OF
from tests.support.tiers import one_in
from tjworker.base import GroupResource

KILLED_130: Json = {"start_seconds": 20, "run_seconds": 5, "exit_code": 130}
PS1 = "digits-ps-1"


@dataclass(frozen=True)
class Case:
    go: str
    """File below pkg/controller.v1, and the test."""
    play: Play
    why: str = ""


def named_of(kind: str) -> str:
    return KIND_OF[GroupResource(kind)].kind


def counted(chief: str, ps: tuple[Json, ...], workers: tuple[Json, ...], want: str, **more: Any) -> Play:
    """A TFJob whose pods go like this. `chief`: "" for none."""
    plays: dict[str, Json] = {"succeeded": DONE, "failed": WRONG, "killed": KILLED_130, "running": {}}
    made = {
        **({"Chief": role(1)} if chief else {}),
        **({"PS": role(len(ps))} if ps else {}),
        "Worker": role(len(workers)),
    }
    if more.pop("restart", ""):
        made = {name: {**one, "restartPolicy": "ExitCode"} for name, one in made.items()}
    pods = {f"digits-ps-{i}": one for i, one in enumerate(ps)} | {
        f"digits-worker-{i}": one for i, one in enumerate(workers)
    }
    pods |= {C: plays[chief]} if chief else {}
    return play(TF, made, {"state": want}, pods={name: one for name, one in pods.items() if one}, **more)


def with_meta(made: Json, **meta: dict[str, str]) -> Json:
    """The role with these labels and annotations in its template."""
    made["template"]["metadata"] = {**made["template"]["metadata"], **meta}
    return made


def with_port(made: Json, name: str, port: int) -> Json:
    """Every role has this port in its template."""
    for one in made.values():
        one["template"]["spec"]["containers"][0]["ports"] = [{"name": name, "containerPort": port}]
    return made


def with_service_account(name: str) -> Step:
    body = {"metadata": {"name": name}}
    return lambda w: w.cluster.client.create("/api/v1/namespaces/default/serviceaccounts", body)


def tf_config(**more: list[str]) -> Json:
    cluster = {"ps": [f"{P}.default.svc:2222"], "worker": [f"{W0}.default.svc:2222"], **more}
    return {"cluster": cluster, "task": {"type": "worker", "index": 0}, "environment": "cloud"}


RUN: Json = {}
TWO_PS = (RUN, RUN)
ALL_WORKERS = {"successPolicy": "AllWorkers"}
_STATUS = "tensorflow/status_test.go: Test Status: "
STATUS: dict[str, Play] = {
    "Chief worker is succeeded": counted("succeeded", (), (DONE,), "Succeeded"),
    "Chief worker is running": counted("running", (), (RUN,), "Running"),
    "Chief worker is failed": counted("failed", (), (RUN,), "Failed"),
    "(No chief worker) Worker is failed": counted("", (), (WRONG,), "Failed"),
    "(No chief worker) Worker is succeeded": counted("", (), (DONE,), "Succeeded"),
    "(No chief worker) Worker is running": counted("", (), (RUN,), "Running"),
    "(No chief worker) 2 workers are succeeded, 2 workers are active": counted(
        "", TWO_PS, (RUN, DONE, DONE, RUN), "Running"
    ),
    "(No chief worker) 2 workers are running, 2 workers are failed": counted(
        "", TWO_PS, (WRONG, WRONG, RUN, RUN), "Failed"
    ),
    "(No chief worker) 2 workers are succeeded, 2 workers are failed": counted(
        "", TWO_PS, (WRONG, DONE, DONE, WRONG), "Failed"
    ),
    "(No chief worker) worker-0 are succeeded, 3 workers are active": counted(
        "", TWO_PS, (DONE, RUN, RUN, RUN), "Succeeded"
    ),
    "(No chief worker, successPolicy: AllWorkers) worker-0 are succeeded, 3 workers are active": counted(
        "", (), (DONE, RUN, RUN, RUN), "Running", spec=ALL_WORKERS
    ),
    "(No chief worker, successPolicy: AllWorkers) 4 workers are succeeded": counted(
        "", (), (DONE, DONE, DONE, DONE), "Succeeded", spec=ALL_WORKERS
    ),
    "(No chief worker, successPolicy: AllWorkers) worker-0 is succeeded, 2 workers are running, 1 is failed": counted(
        "", (), (DONE, WRONG, RUN, RUN), "Failed", spec=ALL_WORKERS
    ),
    "Chief is running, workers are succeeded": counted("running", TWO_PS, (DONE, DONE, DONE, DONE), "Running"),
    "Chief is running, a PS is failed": counted("running", (WRONG, RUN), (DONE, DONE, DONE, DONE), "Failed"),
    "Chief is failed, workers are succeeded": counted("failed", TWO_PS, (DONE, DONE, DONE, DONE), "Failed"),
    "Chief is succeeded, workers are failed": counted("succeeded", TWO_PS, (WRONG, WRONG, WRONG, WRONG), "Succeeded"),
    "Chief is failed and restarting": counted(
        "killed", TWO_PS, (RUN, RUN, RUN, RUN), "Restarting", restart="ExitCode", steps=(after(36),)
    ),
}
_TABLE_LOOKS_AT_ONE_CALL = (
    "the Go table looks at the condition after one call; a job that runs under training-operator 1.9 becomes Failed by"
    " the failed workers, and so it does here"
)


def _clean(policy: str, pods: dict[str, Json], left: tuple[str, ...]) -> Play:
    return play(
        TF,
        {"Worker": role(4), "PS": role(2)},
        {"state": "Succeeded", "pods": left, "services": left},
        run={"cleanPodPolicy": policy},
        pods=pods,
    )


SIX = (P, PS1, W0, W1, W2, W3)
_ENDED = dict.fromkeys(SIX, DONE)
_JOB, _POD = "tensorflow/job_test.go: ", "tensorflow/pod_test.go: "
CASES: dict[str, Case] = {f"status: {name}": Case(_STATUS + name, one) for name, one in STATUS.items()}
CASES |= {
    "status: Chief is running, workers are failed": Case(
        _STATUS + "Chief is running, workers are failed",
        counted("running", TWO_PS, (WRONG, WRONG, WRONG, WRONG), "Failed"),
        _TABLE_LOOKS_AT_ONE_CALL,
    ),
    "clean-up: 4 workers and 2 ps is running, policy is all": Case(
        _JOB + "Test Delete Pods and Services", _clean("All", {W0: DONE}, ())
    ),
    "clean-up: 4 workers and 2 ps is running, policy is running": Case(
        _JOB + "Test Delete Pods and Services",
        _clean("Running", {W0: DONE}, (W0,)),
        "the Go test calls a job Succeeded whose pods all run; here it is worker 0 that has ended, and it stays",
    ),
    "clean-up: 4 workers and 2 ps is succeeded, policy is running": Case(
        _JOB + "Test Delete Pods and Services",
        _clean("Running", {**_ENDED, W0: {"run_seconds": 9, "exit_code": 0}}, SIX),
    ),
    "clean-up: 4 workers and 2 ps is succeeded, policy is None": Case(
        _JOB + "Test Delete Pods and Services", _clean("None", _ENDED, SIX)
    ),
    "deadline: 4 workers and 2 ps is running, ActiveDeadlineSeconds unset": Case(
        _JOB + "Test Active Deadline Seconds",
        play(TF, {"Worker": role(4), "PS": role(2)}, {"state": "Running", "pods": SIX, "services": SIX}),
    ),
    "deadline: 4 workers and 2 ps is running, ActiveDeadlineSeconds is 2": Case(
        _JOB + "Test Active Deadline Seconds",
        play(
            TF,
            {"Worker": role(4), "PS": role(2)},
            {"state": "Failed", "pods": (), "services": ()},
            run={"activeDeadlineSeconds": 2},
        ),
    ),
    "back-off: 4 workers each having 1 restartCount, backoffLimit 4": Case(
        _JOB + "Test Backoff For On Failure(",
        play(
            TF,
            {"Worker": role(4, "OnFailure", failing_attempts=1, failing_run_seconds=5), "PS": role(2)},
            {"state": "Failed", "pods": ()},
            {"state": "Running", "restarted": True, "pods": SIX},
            run={"backoffLimit": 4},
        ),
        "`backoffLimit` 4 allows four failures, as that of a batch Job; there it ends the job with the fourth",
    ),
    "TTL: succeeded job with TTL 3s": Case(
        _JOB + "Test TTL Seconds After Finished",
        play(TF, roles("", workers=1, of_workers=DONE), {"state": "deleted"}, run={"ttlSecondsAfterFinished": 3}),
    ),
    "TTL: failed job with TTL 3s": Case(
        _JOB + "Test TTL Seconds After Finished",
        play(TF, roles("", workers=1, of_workers=WRONG), {"state": "deleted"}, run={"ttlSecondsAfterFinished": 3}),
    ),
    "TTL: TFJob shouldn't be removed since TTL is nil": Case(
        _JOB + "TFJob is created and is cleaned up", play(TF, roles("", of_workers=DONE), {"state": "Succeeded"})
    ),
    "TTL: no error with TTL is set and completionTime is nil, if suspended": Case(
        _JOB + "TFJob is created and is cleaned up",
        play(TF, roles(""), {"state": "Suspended"}, run={"ttlSecondsAfterFinished": 10, "suspend": True}),
    ),
    "TTL: TFJob is removed since TTL is 0s": Case(
        _JOB + "TFJob is created and is cleaned up",
        play(TF, roles("", of_workers=DONE), {"state": "deleted"}, run={"ttlSecondsAfterFinished": 0}),
    ),
    "service: succeeded to create service": Case(
        _JOB + "CreateNewService",
        play(
            TF,
            roles("", workers=1),
            {
                f"object services {W0} spec.ports.0.name": "tfjob-port",
                f"object services {W0} spec.ports.0.port": 2222,
                f"object services {W0} spec.clusterIP": "None",
                f"object services {W0} metadata.labels.[training.kubeflow.org/replica-index]": "0",
            },
        ),
    ),
    "labels: copied from the template to its pods": Case(
        _JOB + "Test Copy Labels and Annotation",
        play(
            TF,
            {"Worker": with_meta(role(1), labels={"label1": "1"}, annotations={"annotation1": "1"})},
            {f"pod {W0} metadata.labels.label1": "1", f"pod {W0} metadata.annotations.annotation1": "1"},
        ),
    ),
    "cluster spec: one worker": Case(
        _POD + "Test ClusterSpec", play(TF, roles("", workers=1), {f"env {W0} TF_CONFIG": None})
    ),
    "cluster spec: a worker and a parameter server": Case(
        _POD + "Test ClusterSpec", play(TF, roles("PS", workers=1), {f"env {W0} TF_CONFIG": tf_config()})
    ),
    "cluster spec: an evaluator": Case(
        _POD + "Test ClusterSpec",
        play(
            TF,
            {**roles("PS", workers=1), "Evaluator": role()},
            {f"env {W0} TF_CONFIG": tf_config(evaluator=["digits-evaluator-0.default.svc:2222"])},
            {f"env {W0} TF_CONFIG": tf_config()},
        ),
        "TensorFlow's evaluator is none of the training cluster",
    ),
    **{
        f"restart policy: {policy} of the pods": Case(
            _POD + "Test Restart Policy",
            play(
                TF,
                {"Worker": role(1, policy)},
                {f"pod {W0} spec.restartPolicy": "Never" if policy == "ExitCode" else policy},
                {f"pod {W0} spec.restartPolicy": "Never"} if policy in ("Always", "OnFailure") else None,
            ),
            "a pod that fails is replaced, not its container" if policy in ("Always", "OnFailure") else "",
        )
        for policy in ("ExitCode", "Never", "Always", "OnFailure")
    },
    "exit code: 130 deletes the pod": Case(
        _POD + "Test Exit Code",
        play(TF, {"Worker": role(1, "ExitCode", **KILLED_130)}, {"restarted": True, "true Failed": False}),
    ),
    "exit code: 1 sets the job to Failed": Case(
        _POD + "Test Unretryable Exit Code",
        play(TF, {"Worker": role(1, "ExitCode", **WRONG)}, {"state": "Failed", "reason Failed": "TFJobFailed"}),
    ),
    "scale down deletes redundant pods": Case(
        _POD + "Test Scale Down",
        play(
            TF,
            roles("", workers=3),
            {"pods": (W0, W1)},
            spec={"enableDynamicWorker": True},
            steps=(after(5), patch({"tfReplicaSpecs": {"Worker": {"replicas": 2}}}), after(30)),
        ),
    ),
    "scale up creates missing pods": Case(
        _POD + "Test Scale Up",
        play(
            TF,
            roles("", workers=1),
            {"pods": (W0, W1, W2)},
            spec={"enableDynamicWorker": True},
            steps=(after(5), patch({"tfReplicaSpecs": {"Worker": {"replicas": 3}}}), after(30)),
        ),
    ),
}
SUSPEND, RESUME = patch({"runPolicy": {"suspend": True}}), patch({"runPolicy": {"suspend": False}})
for kind in ALL:
    name, folder = named_of(kind), named_of(kind).removesuffix("Job").lower()
    go = f"{ {'tf': 'tensorflow', 'paddle': 'paddlepaddle'}.get(folder, folder) }/*_controller_test.go: "
    pods = {MPI: (L, W0, W1), JAX: (W0, W1)}.get(
        kind, tuple(sorted((f"digits-{'chief' if kind == TF else 'master'}-0", W0, W1)))
    )
    created = [f"Created True {name}Created"]
    CASES |= {
        f"{name}: suspended at creation": Case(
            f"{go}Shouldn't create resources if {name} is suspended",
            play(
                kind,
                whole(kind),
                {
                    "pods": (),
                    "services": (),
                    "time startTime": False,
                    "conditions": [*created, f"Suspended True {name}Suspended"],
                },
                run={"suspend": True},
            ),
        ),
        f"{name}: suspended while it runs, and resumed": Case(
            f"{go}Should delete resources after {name} is suspended; Should resume {name} after {name} is unsuspended",
            play(
                kind,
                whole(kind),
                {
                    "pods": pods,
                    "conditions": [*created, f"Suspended False {name}Resumed", f"Running True {name}Running"],
                },
                steps=(
                    after(10),
                    then(pods=pods, conditions=[*created, f"Running True {name}Running"]),
                    SUSPEND,
                    after(40),
                    then(
                        pods=(),
                        services=(),
                        conditions=[*created, f"Running False {name}Suspended", f"Suspended True {name}Suspended"],
                        counts={name_of_role: {} for name_of_role in whole(kind)},
                    ),
                    RESUME,
                    after(30),
                ),
            ),
            "`startTime` stays, where training-operator sets it anew; deadlines do not count the time in between",
        ),
        f"{name}: managed by an external controller": Case(
            f"{go}Should not reconcile a job while managed by external controller",
            play(
                kind,
                whole(kind),
                {"pods": (), "services": (), "conditions": [], "time startTime": False},
                run={"managedBy": "kueue.x-k8s.io/multikueue", "suspend": True},
                steps=(after(10), RESUME, after(30)),
            ),
        ),
    }

_MPI, _TORCH = "mpi/mpijob_controller_test.go: ", "pytorch/pytorchjob_controller_test.go: "
_BOUNDS: Json = {"minReplicas": 1, "maxReplicas": 3, "maxRestarts": 3, "rdzvBackend": "c10d"}
CASES |= {
    "managedBy: another controller is refused": Case(
        "pkg/webhooks/pytorch/pytorchjob_webhook_test.go: attempt to set unsupported managedBy controller name"
        " gets rejected",
        play(
            PYTORCH, whole(PYTORCH), {"refused": Has("managedBy")}, run={"managedBy": "kueue.x-k8s.io/other-controller"}
        ),
    ),
    "queue: cannot be changed": Case(
        _TORCH
        + "Shouldn't be updated resources if spec.runPolicy.schedulingPolicy.queue is changed after the job is created",
        play(
            PYTORCH,
            whole(PYTORCH),
            {"refused": Has("spec.runPolicy.schedulingPolicy.queue is immutable")},
            run={"schedulingPolicy": {"queue": "initial-queue"}},
            steps=(patch({"runPolicy": {"schedulingPolicy": {"queue": "test"}}}),),
        ),
    ),
    "PyTorchJob: its pods, services and end": Case(
        _TORCH + "Should get the corresponding resources successfully",
        play(
            PYTORCH,
            with_port(whole(PYTORCH), "pytorchjob-port", 8080),
            {
                "state": "Succeeded",
                f"pod {M} spec.containers.0.ports.0.containerPort": 8080,
                f"env {M} MASTER_PORT": "8080",
                f"env {M} MASTER_ADDR": M,
                f"env {M} PET_NPROC_PER_NODE": "auto",
                f"object services {M} spec.ports.0.port": 8080,
                f"pod {M} metadata.ownerReferences.0.kind": "PyTorchJob",
                f"object services {M} metadata.ownerReferences.0.kind": "PyTorchJob",
            },
            pods={M: DONE},
        ),
    ),
    "PaddleJob: its pods, services and end": Case(
        "paddlepaddle/paddlepaddle_controller_test.go: Should get the corresponding resources successfully",
        play(
            PADDLE,
            with_port(whole(PADDLE), "master", 8080),
            {
                "state": "Succeeded",
                f"pod {M} spec.containers.0.ports.0.containerPort": 8080,
                f"env {M} PADDLE_SERVER_NUM": "1",
                f"env {W0} PADDLE_MASTER": f"{M}:8080",
                f"env {W0} PADDLE_NNODES": "3",
                f"env {W0} PADDLE_JOB_ID": "digits",
                f"object services {M} spec.ports.0.port": 8080,
                f"pod {M} metadata.ownerReferences.0.kind": "PaddleJob",
            },
            pods={M: DONE},
        ),
    ),
    "elastic: its pods, services and end": Case(
        _TORCH + "When creating the elastic PyTorchJob: Should get the corresponding resources successfully",
        play(
            PYTORCH,
            with_port(roles("", workers=1), "pytorchjob-port", 8080),
            {
                "state": "Succeeded",
                f"env {W0} PET_RDZV_BACKEND": "c10d",
                f"env {W0} PET_NNODES": "1:3",
                f"env {W0} PET_RDZV_ENDPOINT": f"{W0}:8080",
                f"env {W0} PET_MAX_RESTARTS": "3",
                f"object services {W0} spec.ports.0.port": 8080,
            },
            spec={"elasticPolicy": _BOUNDS},
            pods={W0: DONE},
        ),
    ),
    "elastic: its HorizontalPodAutoscaler goes when it is suspended": Case(
        _TORCH + "Should delete HPA once the PyTorchJob is suspended",
        play(
            PYTORCH,
            roles("", workers=1),
            {"says Created": Has("is created", lacks="elasticPolicy.metrics")},
            {"says Created": Has("elasticPolicy.metrics"), "pods": ()},
            spec={"elasticPolicy": {**_BOUNDS, "metrics": [{"type": "Resource"}]}},
            steps=(after(5), SUSPEND, after(30)),
        ),
        "no HorizontalPodAutoscaler is made: the condition Created says what to do",
    ),
    "elastic: the variables of a whole policy": Case(
        "pytorch/elastic_test.go: TestElasticGenerate: With ElasticPolicy",
        play(
            PYTORCH,
            roles("", workers=1),
            {
                f"env {W0} PET_MAX_RESTARTS": "3",
                f"env {W0} PET_RDZV_BACKEND": "c10d",
                f"env {W0} PET_RDZV_ENDPOINT": "localhost:1234",
                f"env {W0} PET_RDZV_ID": "rdzv-id",
                f"env {W0} PET_RDZV_CONF": "rdzv-conf-name=rdzv-conf-value,rdzv-conf-name-1=rdzv-conf-value-1",
                f"env {W0} PET_NNODES": "1:3",
            },
            spec={
                "elasticPolicy": {
                    **_BOUNDS,
                    "rdzvPort": 1234,
                    "rdzvHost": "localhost",
                    "rdzvId": "rdzv-id",
                    "rdzvConf": [
                        {"key": f"rdzv-conf-name{end}", "value": f"rdzv-conf-value{end}"} for end in ("", "-1")
                    ],
                }
            },
        ),
    ),
    "init container: of the workers": Case(
        "pytorch/initcontainer_test.go: TestInitContainer",
        play(
            PYTORCH,
            whole(PYTORCH),
            {f"pod {W0} spec.initContainers.0.name": "init-pytorch"},
            {f"pod {W0} spec.initContainers": None, f"pod {M} spec.initContainers": None},
        ),
        "the master's name resolves before the master is ready, and `torch.distributed` tries again",
    ),
    "JAX: successful environment variable setup": Case(
        "jax/envvar_test.go: TestSetPodEnv: successful environment variable setup",
        play(
            JAX,
            with_port(roles("", workers=1), "jaxjob-port", 6666),
            {
                f"env {W0} PYTHONUNBUFFERED": "1",
                f"env {W0} COORDINATOR_PORT": "6666",
                f"env {W0} COORDINATOR_ADDRESS": W0,
                f"env {W0} NUM_PROCESSES": "1",
                f"env {W0} PROCESS_ID": "0",
            },
        ),
    ),
    "MPI: a launcher with GPUs is in the hostfile": Case(
        _MPI + "Test launcher is GPU launcher",
        play(
            MPI,
            {"Launcher": GPU_LAUNCHER, "Worker": role(1)},
            {f"file {L} hostfile": Has(f"{L} slots=1\n{W0}")},
            nodes=[NodeConfig("node-0", gpus=1)],
        ),
    ),
    "MPI: succeeded launcher": Case(
        _MPI + "Test MPIJob with succeeded launcher Pod: Should contains desired launcher ReplicaStatus",
        play(MPI, whole(MPI), {"counts": {"Launcher": {"succeeded": 1}, "Worker": {}}}, pods={L: DONE}),
    ),
    "MPI: failed launcher": Case(
        _MPI + "Test MPIJob with failed launcher Pod: Should contains desired launcher ReplicaStatus",
        play(MPI, whole(MPI), {"counts": {"Launcher": {"failed": 1}, "Worker": {}}}, pods={L: WRONG}),
    ),
    "MPI: running launcher and pending workers": Case(
        _MPI + "Test MPIJob with Running launcher Pod and Pending worker Pods",
        play(
            MPI,
            whole(MPI, of_workers={"start_seconds": 600}),
            {"counts": {"Launcher": {"active": 1}, "Worker": {}}},
            {"counts": {"Launcher": {}, "Worker": {}}, "pods": (W0, W1)},
        ),
        "the launcher is made when all workers are ready",
    ),
    "MPI: running launcher and running workers": Case(
        _MPI + "Test MPIJob with Running launcher Pod and Running worker Pods",
        play(MPI, roles("Launcher", workers=8), {"counts": {"Launcher": {"active": 1}, "Worker": {"active": 8}}}),
    ),
    "MPI: running workers, and a launcher that is made": Case(
        _MPI + "Test MPIJob with Running worker Pods",
        play(
            MPI,
            roles("Launcher", of_first={"start_seconds": 600}, workers=16),
            {"counts": {"Launcher": {}, "Worker": {"active": 16}}, f"pod {L} metadata.name": L},
        ),
    ),
    "MPI: a service account of the template": Case(
        _MPI + "MPI Job succeeds with predefined service account",
        play(
            MPI,
            {"Launcher": with_pod(role(), serviceAccountName="launcher-sa"), "Worker": role(1)},
            {f"pod {L} spec.serviceAccountName": "launcher-sa"},
            steps=(with_service_account("launcher-sa"), after(60)),
        ),
    ),
    **{
        f"MPI: Intel MPI, {test}": Case(
            _MPI + f"Test launcher's Intel MPI handling: {test}",
            play(
                MPI,
                with_env(whole(MPI), **env),
                {
                    f"env {L} I_MPI_HYDRA_BOOTSTRAP": env.get("I_MPI_HYDRA_BOOTSTRAP", "rsh"),
                    f"env {L} I_MPI_HYDRA_BOOTSTRAP_EXEC": env.get("I_MPI_HYDRA_BOOTSTRAP_EXEC", "/etc/mpi/kubexec.sh"),
                },
            ),
        )
        for test, env in {
            "withoutIMPIValues": {"X_MPI_HYDRA_BOOTSTRAP": "foo"},
            "withIMPIBootstrap": {"I_MPI_HYDRA_BOOTSTRAP": "RSH"},
            "withIMPIBootstrapExec": {"I_MPI_HYDRA_BOOTSTRAP_EXEC": "/script.sh"},
            "withIMPIBootstrapAndExec": {"I_MPI_HYDRA_BOOTSTRAP": "RSH", "I_MPI_HYDRA_BOOTSTRAP_EXEC": "/script.sh"},
        }.items()
    },
}


@pytest.mark.parametrize("name", one_in(2, CASES))
def test_a_case_of_training_operator(name: str) -> None:
    case = CASES[name]
    try:
        judge(case.play)
    except AssertionError as error:
        error.add_note(f"Go: {case.go}" + (f"\nwhy: {case.why}" if case.why else ""))
        raise


def test_a_case_that_differs_says_why() -> None:
    assert [name for name, case in CASES.items() if case.play.ours is not None and not case.why] == []
