"""mpi-operator 0.6 (kubeflow/mpi-operator v0.6.0): the MPIJob of version v2beta1."""

from __future__ import annotations

from typing import Any

from tests.peers.table import DONE, LATE, ONCE, W0, W1, W2, WRONG, Has, Json, L, Play, Row, after, evicted, patch
from tests.peers.training_operator import MPI
from tests.scenarios.test_kubeflow import role

_REPO = "kubeflow/mpi-operator"
_CONTROLLER = f"{_REPO} pkg/controller/mpi_job_controller.go"
_STATUS = f"{_CONTROLLER}: updateMPIJobStatus"
RUNS, FAILED, SUCCEEDED = {"state": "Running"}, {"state": "Failed"}, {"state": "Succeeded"}
_SECOND_SUFFIX = ".digits.default.svc"


def play(made: Json, theirs: Json, ours: Json | None = None, **more: Any) -> Play:
    return Play(MPI, made, theirs, ours, version="v2beta1", **more)


def job(workers: int = 2, *, restart: str = "", launcher: Json | None = None, worker: Json | None = None) -> Json:
    made = {"Launcher": role(1, restart, **(launcher or {}))}
    return made | ({"Worker": role(workers, **(worker or {}))} if workers else {})


ENDS = (
    Row(
        "When a job ends",
        "The launcher's success ends the job with success; a worker that ends well ends nothing.",
        _STATUS,
        (
            play(job(launcher=DONE), SUCCEEDED),
            play(job(), {"true Succeeded": False, "true Failed": False}, pods={W0: DONE}),
        ),
    ),
    Row(
        "When a job ends",
        "A failed launcher is started again, by default up to 6 times, then the job has failed; failures of workers"
        " use up nothing of this. The default"
        " `restartPolicy` is `OnFailure` of the launcher and `Never` of the workers.",
        f"{_CONTROLLER}: newLauncherJob; kubernetes batch/v1 Job: backoffLimit",
        (
            play(job(launcher={"failing_attempts": 2, "failing_run_seconds": 2}), {**RUNS, "restarted": True}),
            play(
                job(restart="Never", launcher={"failing_attempts": 2, "failing_run_seconds": 2}),
                {**RUNS, "restarted": True},
            ),
            play(job(launcher=WRONG), FAILED, run={"backoffLimit": 1}, steps=(after(120),)),
            play(job(launcher=WRONG), FAILED, run={"backoffLimit": 0}),
            play(
                {"Launcher": role(), "Worker": role(1, "OnFailure", **ONCE)},
                {"true Failed": False, "restarted": True},
                run={"backoffLimit": 0},
            ),
        ),
    ),
    Row(
        "When a job ends",
        "stays failed, and the launcher is started again until `backoffLimit`",
        f"{_CONTROLLER}: getOrCreateWorker",
        (
            play(
                {"Launcher": role(), "Worker": role(2, "Never")},
                {"true Failed": False},
                {"true Failed": True, "says Failed": Has("exited with code 1")},
                pods={W1: WRONG},
            ),
        ),
        "ends the job and says why. `OnFailure` replaces it",
        "a worker that has failed (`Never`)",
    ),
    Row(
        "When a job ends",
        "the condition Failed, while the launcher runs on",
        _STATUS,
        (
            play(
                {"Launcher": role(), "Worker": role(2, "OnFailure")},
                {"true Failed": True, "time completionTime": False},
                {**RUNS, "restarted": True},
                steps=(after(5), evicted(W1), after(60)),
            ),
            play(
                {"Launcher": role(), "Worker": role(2, "Never")},
                {"true Failed": True, "time completionTime": False},
                {"true Failed": True, "time completionTime": True},
                steps=(after(5), evicted(W1), after(60)),
            ),
        ),
        "the worker is replaced; with `Never` it ends the job",
        "a worker that was evicted",
    ),
    Row(
        "When a job ends",
        "the kubelet's, in its pod",
        f"{_CONTROLLER}: newLauncherPodTemplate",
        (play(job(), {f"pod {L} spec.restartPolicy": "OnFailure"}, {f"pod {L} spec.restartPolicy": "Never"}),),
        "a new pod each; at most `backoffLimit`, by default 6 as that of a batch Job",
        "the launcher's restarts",
    ),
)

CLEAN = (
    Row(
        "What is deleted",
        "`cleanPodPolicy: Running` and `All` delete workers alone, after success and after failure: the launcher's pod,"
        " with the log of `mpirun`, stays. `None`, the default, deletes nothing.",
        f"{_CONTROLLER}: cleanUpWorkerPods, deleteWorkerPods",
        (
            *(
                play(
                    job(launcher={"run_seconds": 5, "exit_code": code}, restart="Never"),
                    {"state": "Failed" if code else "Succeeded", "pods": pods},
                    run={"cleanPodPolicy": policy, "backoffLimit": 0},
                )
                for policy, pods in (("None", (L, W0, W1)), ("Running", (L,)), ("All", (L,)))
                for code in (0, 1)
            ),
            play(
                job(launcher={"run_seconds": 20, "exit_code": 0}),
                {**SUCCEEDED, "pods": (L, W0)},
                run={"cleanPodPolicy": "Running"},
                pods={W0: {**DONE, "ready_seconds": 1}},
            ),
        ),
    ),
    Row(
        "What is deleted",
        "A deadline (`activeDeadlineSeconds`) ends the job and deletes the launcher's pod; workers go as"
        " `cleanPodPolicy`"
        " says.",
        f"{_CONTROLLER}: newLauncherJob; kubernetes batch/v1 Job: activeDeadlineSeconds",
        tuple(
            play(job(), {**FAILED, "pods": pods}, run={"activeDeadlineSeconds": 20, "cleanPodPolicy": policy})
            for policy, pods in (("None", (W0, W1)), ("Running", ()), ("All", ()))
        ),
    ),
    Row(
        "What is deleted",
        "deletes the launcher's batch Job, and leaves the MPIJob",
        f"{_CONTROLLER}: newLauncherJob",
        (
            play(
                job(launcher=DONE),
                {"state": "Succeeded", "pods": (W0, W1)},
                {"state": "deleted", "pods": ()},
                run={"ttlSecondsAfterFinished": 5},
            ),
        ),
        "deletes the MPIJob, with its pods",
        "`ttlSecondsAfterFinished`",
    ),
    Row(
        "What is deleted",
        "Workers above `replicas` are deleted, missing workers are made.",
        f"{_CONTROLLER}: getOrCreateWorker",
        (
            play(
                job(3),
                {"pods": (L, W0), "state": "Running"},
                steps=(after(5), patch({"mpiReplicaSpecs": {"Worker": {"replicas": 1}}}), after(30)),
            ),
            play(
                job(1),
                {"pods": (L, W0, W1, W2), "state": "Running"},
                steps=(after(5), patch({"mpiReplicaSpecs": {"Worker": {"replicas": 3}}}), after(30)),
            ),
            play(job(), {"pods": (L, W0, W1)}, steps=(after(5), lambda w: w.delete_pod(W1), after(30))),
        ),
    ),
)

STATUS = (
    Row(
        "Status",
        "Running is True when the launcher and all workers run, and stays so until the job ends or is suspended.",
        _STATUS,
        (
            play(job(), {"true Running": True}),
            play(job(), {"true Running": False}, pods={W1: LATE}),
            play(
                job(),
                {"true Running": True},
                steps=(after(5), patch({"mpiReplicaSpecs": {"Worker": role(3, **LATE)}}), after(30)),
            ),
        ),
    ),
    Row(
        "Status",
        "`replicaStatuses` counts launcher and workers while they run; after success the launcher is `succeeded`"
        " and the"
        " workers are not counted any more.",
        _STATUS,
        (
            play(job(), {"counts": {"Launcher": {"active": 1}, "Worker": {"active": 2}}}),
            *(
                play(
                    job(launcher=DONE),
                    {"counts": {"Launcher": {"succeeded": 1}, "Worker": {}}},
                    run={"cleanPodPolicy": policy},
                )
                for policy in ("None", "Running")
            ),
        ),
    ),
    Row(
        "Status",
        "The conditions in their order: Created, Running; then Running False and Succeeded or Failed.",
        f"{_REPO} pkg/controller/mpi_job_controller_status.go: setCondition",
        (
            play(job(), {"conditions": ["Created True MPIJobCreated", "Running True MPIJobRunning"]}),
            play(
                job(launcher=DONE),
                {
                    "conditions": [
                        "Created True MPIJobCreated",
                        "Running False MPIJobRunning",
                        "Succeeded True MPIJobSucceeded",
                    ]
                },
            ),
        ),
    ),
    Row(
        "Status",
        "A suspended job has no pods; created suspended it has no `startTime`. It goes on when it is resumed.",
        f"{_CONTROLLER}: syncHandler",
        (
            play(job(), {"pods": (), "state": "Suspended", "time startTime": False}, run={"suspend": True}),
            play(
                job(),
                {"pods": (), "state": "Suspended", "true Running": False},
                steps=(after(5), patch({"runPolicy": {"suspend": True}}), after(40)),
            ),
            play(
                job(),
                {"pods": (L, W0, W1), "state": "Running", "true Suspended": False},
                run={"suspend": True},
                steps=(after(5), patch({"runPolicy": {"suspend": False}}), after(30)),
            ),
        ),
    ),
    Row(
        "Status",
        "`managedBy: kubeflow.org/mpi-operator` is this operator's own name; a job of"
        " `kueue.x-k8s.io/multikueue` is left"
        " alone.",
        f"{_REPO} pkg/apis/kubeflow/validation/validation.go: validManagedBy",
        (
            play(job(), RUNS, run={"managedBy": "kubeflow.org/mpi-operator"}),
            play(job(), {"pods": (), "conditions": []}, run={"managedBy": "kueue.x-k8s.io/multikueue"}),
        ),
    ),
    Row(
        "Status",
        "an event ValidationError, and nothing more",
        f"{_CONTROLLER}: syncHandler (ValidateMPIJob)",
        (
            play(job(), {"conditions": []}, {"refused": Has("managedBy")}, run={"managedBy": "example.org/other"}),
            play(
                {"Launcher": role(2), "Worker": role(1)},
                {"conditions": []},
                {"refused": Has("an MPIJob has one Launcher: set its replicas to 1")},
            ),
            play(
                {"Launcher": role(1, "ExitCode"), "Worker": role(1)},
                {"conditions": []},
                {
                    "reason Failed": "MPIJobFailedValidation",
                    "says Failed": Has("Launcher.restartPolicy: ExitCode: must be Never or OnFailure"),
                },
            ),
        ),
        "the API server refuses what its schema can judge; else the condition Failed names the field and the rule",
        "a job that cannot be",
    ),
)

PODS = (
    Row(
        "Launcher and workers",
        "with the workers",
        f"{_REPO} pkg/apis/kubeflow/v2beta1/default.go: SetDefaults_MPIJob",
        (
            play(
                job(worker={"ready_seconds": 100}),
                {"pods": (L, W0, W1)},
                {"pods": (W0, W1), "waits": Has("is made when the role Worker is ready: 0 of 2 are")},
            ),
            play(
                job(worker={"ready_seconds": 100}),
                {"pods": (W0, W1)},
                {"pods": (L, W0, W1)},
                spec={"launcherCreationPolicy": "AtStartup"},
            ),
        ),
        "when all workers are ready: `mpirun` would fail and use up `backoffLimit`. `launcherCreationPolicy:"
        " AtStartup`,"
        " written out, has it at once",
        "the launcher's start",
    ),
    Row(
        "Launcher and workers",
        "A worker that has ended with 0 does not keep the launcher from its start.",
        f"{_CONTROLLER}: syncHandler",
        (play(job(), {"pods": (L, W0, W1)}, pods={W1: {**DONE, "ready_seconds": 20}, W0: {"ready_seconds": 15}}),),
    ),
    Row(
        "Launcher and workers",
        "a batch Job `<job>-launcher`",
        f"{_CONTROLLER}: newLauncherJob",
        (
            play(
                job(),
                {"exists jobs.batch digits-launcher": True},
                {"exists jobs.batch digits-launcher": False, f"pod {L} spec.hostname": "digits-launcher"}
                | {f"pod {L} metadata.labels.[training.kubeflow.org/job-role]": "launcher"},
            ),
        ),
        "a pod `<job>-launcher-0`, with the host name `<job>-launcher`; its label"
        " `training.kubeflow.org/job-role` finds"
        " it as there, and `kubectl logs` takes the pod's name in place of the Job's",
        "the launcher",
    ),
    Row(
        "Launcher and workers",
        "the workers that run just now",
        f"{_CONTROLLER}: updateDiscoverHostsInConfigMap",
        (
            play(
                job(1),
                {f"file {L} discover_hosts.sh": f"#!/bin/sh\necho {W0}{_SECOND_SUFFIX}\necho {W1}{_SECOND_SUFFIX}\n"},
                {f"file {L} discover_hosts.sh": f"#!/bin/sh\necho {W0}{_SECOND_SUFFIX}\n"},
                steps=(after(5), patch({"mpiReplicaSpecs": {"Worker": {"replicas": 2}}}), after(30)),
            ),
        ),
        "all workers, as they were when the launcher was made: scaling a job that runs is not seen by its launcher",
        "`discover_hosts.sh`",
    ),
    Row(
        "Launcher and workers",
        "a ConfigMap with hostfile and `discover_hosts.sh`; all Secrets and ConfigMaps of the cluster can be read",
        f"{_CONTROLLER}: newConfigMap",
        (
            play(
                job(),
                {"exists configmaps digits-config": True},
                {"exists configmaps digits-config": False}
                | {f"file {L} hostfile": f"{W0}{_SECOND_SUFFIX} slots=1\n{W1}{_SECOND_SUFFIX} slots=1\n"},
            ),
        ),
        "the same files in `/etc/mpi`, as annotations of the pod",
        "`<job>-config`",
    ),
    Row(
        "Launcher and workers",
        "its Secret's name; the operator lists all Secrets",
        f"{_CONTROLLER}: newSSHAuthSecret",
        (
            play(
                job(),
                {f"pod {W0} spec.volumes.0.secret.secretName": "digits-ssh"},
                {f"pod {W0} spec.volumes.0.secret.secretName": Has("digits-ssh-")},
            ),
        ),
        "`<job>-ssh-<uid>`: it is made without reading any",
        "`<job>-ssh`",
    ),
    Row(
        "Launcher and workers",
        "reads none of the variables `OMPI_MCA_orte_*` and `OMPI_MCA_plm_*`",
        f"{_CONTROLLER}: ompiEnvVars",
        (
            play(
                job(),
                {
                    f"env {L} OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile",
                    f"env {L} PRTE_MCA_prte_default_hostfile": None,
                },
                {
                    f"env {L} OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile",
                    f"env {L} PRTE_MCA_prte_default_hostfile": "/etc/mpi/hostfile",
                },
            ),
        ),
        "has those, and `PRTE_MCA_*`",
        "Open MPI 5",
    ),
    Row(
        "Launcher and workers",
        "`runLauncherAsWorker: true` runs the launcher without workers.",
        f"{_REPO} pkg/apis/kubeflow/validation/validation.go: validateMPIReplicaSpecs",
        (play(job(0, launcher=DONE), SUCCEEDED, spec={"runLauncherAsWorker": True}),),
    ),
)

ROWS = (*ENDS, *CLEAN, *STATUS, *PODS)
