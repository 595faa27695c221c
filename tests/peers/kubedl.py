"""KubeDL 0.5 (kubedl-io/kubedl v0.5.0): PyTorchJob, TFJob, XGBoostJob, XDLJob, MarsJob, MPIJob, ElasticDLJob."""

from __future__ import annotations

from typing import Any

from tests.peers.table import (
    DONE,
    HELD,
    KILLED,
    LATE,
    ONCE,
    W0,
    W1,
    WRONG,
    C,
    Has,
    Json,
    L,
    M,
    P,
    Play,
    Row,
    S,
    after,
    evicted,
    patch,
    pod_status,
    roles,
    some,
)
from tests.peers.training_operator import with_env, with_pod, with_requests
from tests.scenarios.test_kubeflow import role

_GROUP = "training.kubedl.io"
TF, PYTORCH, XGB, XDL, MARS, MPI, ELASTICDL = (
    f"{kind}jobs.{_GROUP}" for kind in ("tf", "pytorch", "xgboost", "xdl", "mars", "mpi", "elasticdl")
)
ALL = (TF, PYTORCH, XGB, XDL, MARS, MPI, ELASTICDL)
FIRST = {
    TF: "Chief",
    PYTORCH: "Master",
    XGB: "Master",
    XDL: "PS",
    MARS: "Scheduler",
    MPI: "Launcher",
    ELASTICDL: "Master",
}
FIRST_POD = {kind: f"digits-{name.lower()}-0" for kind, name in FIRST.items()}
CONTAINER = {TF: "tensorflow", PYTORCH: "pytorch", XGB: "xgboostjob", XDL: "xdl"}
_REPO = "kubedl-io/kubedl"
_JOB, _POD = f"{_REPO} pkg/job_controller/job.go", f"{_REPO} pkg/job_controller/pod.go"
_STATUS = f"{_REPO} controllers/{{}}: updateGeneralJobStatus"
RUNS, FAILED, SUCCEEDED = {"state": "Running"}, {"state": "Failed"}, {"state": "Succeeded"}


def play(kind: str, made: Json, theirs: Json, ours: Json | None = None, **more: Any) -> Play:
    return Play(kind, made, theirs, ours, **more)


def whole(kind: str, *, restart: str = "", **of_roles: Any) -> Json:
    """A job of this kind with its first role and, but for an ElasticDLJob, two workers."""
    made = roles(FIRST[kind], workers=0 if kind == ELASTICDL else 2, **of_roles)
    return {name: {**one, "restartPolicy": restart} if restart else one for name, one in made.items()}


def pods_of(kind: str) -> tuple[str, ...]:
    return tuple(sorted((FIRST_POD[kind], *(() if kind == ELASTICDL else (W0, W1)))))


def named(kind: str, restart: str, *containers: str) -> Json:
    """One worker with these containers, whose status is written by hand; and the first role, which runs."""
    worker = role(1, restart, **HELD)
    worker["template"]["spec"]["containers"] = [{"name": name, "image": "trainer:1"} for name in containers]
    return roles(FIRST[kind], workers=0) | {"Worker": worker}


def with_unschedulable(made: Json) -> Json:
    """No node has what its pods ask for: they wait, and KubeDL counts none of them as active."""
    return with_pod(made, nodeSelector={"disk": "none"})


def with_port(made: Json, name: str, port: int) -> Json:
    made["template"]["spec"]["containers"][0]["ports"] = [{"name": name, "containerPort": port}]
    return made


def with_args(made: Json, *args: str) -> Json:
    made["template"]["spec"]["containers"][0]["args"] = list(args)
    return made


ENDS = (
    Row(
        "When a job ends",
        "A PyTorchJob ends with the success of its master and of all its workers.",
        f"{_STATUS.format('pytorch/status.go')}",
        (
            play(
                PYTORCH,
                whole(PYTORCH, of_first=DONE),
                {"true Succeeded": False, "pods": (M, W0, W1)},
                run={"cleanPodPolicy": "Running"},
            ),
            play(PYTORCH, whole(PYTORCH, of_workers=DONE), RUNS),
            play(PYTORCH, whole(PYTORCH, of_first=DONE, of_workers={"run_seconds": 20, "exit_code": 0}), SUCCEEDED),
            play(PYTORCH, roles("Master", of_first=DONE, workers=0), SUCCEEDED),
        ),
    ),
    Row(
        "When a job ends",
        "A TFJob ends with the success of its chief or master, and with `successPolicy: AllWorkers` with that of"
        " all its"
        " workers, too; without a chief with worker 0, and with `AllWorkers` with the last worker.",
        f"{_STATUS.format('tensorflow/status.go')}",
        (
            play(TF, whole(TF, of_first=DONE), SUCCEEDED),
            play(TF, whole(TF, of_workers=DONE), RUNS),
            play(
                TF,
                whole(TF, of_first=DONE),
                {"true Succeeded": False, "pods": (C, W0, W1)},
                spec={"successPolicy": "AllWorkers"},
            ),
            play(TF, whole(TF, of_first=DONE, of_workers=DONE), SUCCEEDED, spec={"successPolicy": "AllWorkers"}),
            play(TF, roles("PS"), SUCCEEDED, pods={W0: DONE}),
            play(TF, roles("PS"), RUNS, pods={W1: DONE}),
            play(TF, roles("PS"), RUNS, pods={W0: DONE}, spec={"successPolicy": "AllWorkers"}),
            play(TF, roles("PS", of_workers=DONE), SUCCEEDED, spec={"successPolicy": "AllWorkers"}),
        ),
    ),
    Row(
        "When a job ends",
        "An XGBoostJob and an ElasticDLJob end with the success of their master, a MarsJob with that of its"
        " schedulers, an"
        " MPIJob with that of its launcher, whatever the workers do.",
        f"{_REPO} controllers/xgboost/job.go, elasticdl/status.go, mars/status.go, mpi/job.go: UpdateJobStatus",
        tuple(play(kind, whole(kind, of_first=DONE), SUCCEEDED) for kind in (XGB, ELASTICDL, MARS, MPI)),
    ),
    Row(
        "When a job ends",
        "An XDLJob ends when enough of Worker and ExtendRole have succeeded: `minFinishWorkRate` in percent, by default"
        " 90 and rounded up, or `minFinishWorkNum`.",
        f"{_REPO} controllers/xdl/status.go: calculateMinFinish",
        (
            play(
                XDL,
                {"PS": role(), "Worker": role(2, **DONE), "ExtendRole": role()},
                SUCCEEDED,
                spec={"minFinishWorkRate": 60},
            ),
            play(XDL, {"PS": role(), "Worker": role(2, **DONE), "ExtendRole": role()}, RUNS),
            play(
                XDL, {"PS": role(), "Worker": role(2, **DONE), "ExtendRole": role()}, RUNS, spec={"minFinishWorkNum": 3}
            ),
            play(XDL, {"PS": role(), "Worker": role(2, **DONE), "ExtendRole": role(**DONE)}, SUCCEEDED),
        ),
    ),
    Row(
        "When a job ends",
        "A failed pod that is not replaced ends a PyTorchJob, a TFJob, an XGBoostJob, an XDLJob and an ElasticDLJob,"
        " whatever its role.",
        f"{_REPO} controllers/*: updateGeneralJobStatus",
        (
            *(play(kind, whole(kind, restart="Never"), FAILED, pods={W1: WRONG}) for kind in (PYTORCH, TF, XGB, XDL)),
            *(
                play(kind, whole(kind, restart="Never", of_first=WRONG), FAILED)
                for kind in (PYTORCH, TF, XGB, XDL, ELASTICDL)
            ),
        ),
    ),
    Row(
        "When a job ends",
        "A failed worker does not end a MarsJob; a failed scheduler does, whatever its `restartPolicy`.",
        f"{_STATUS.format('mars/status.go')}",
        (
            play(MARS, whole(MARS, restart="Never", of_workers=WRONG), {"true Failed": False}),
            play(MARS, whole(MARS, restart="Never", of_first=WRONG), FAILED),
            play(MARS, whole(MARS, restart="ExitCode", of_first=KILLED), FAILED),
        ),
    ),
    Row(
        "When a job ends",
        "A failed worker does not end an MPIJob: its launcher and its other workers go on. A failed launcher"
        " does, whatever its `restartPolicy`.",
        f"{_REPO} controllers/mpi/job.go: UpdateJobStatus",
        (
            play(
                MPI,
                whole(MPI, restart="Never"),
                {"true Failed": False, "pods": (L, W0, W1)},
                pods={W1: {**WRONG, "run_seconds": 15}},
            ),
            play(
                MPI,
                whole(MPI, restart="Never", of_first={"run_seconds": 30, "exit_code": 0}),
                SUCCEEDED,
                pods={W1: {**WRONG, "run_seconds": 15}},
                steps=(after(60),),
            ),
            play(MPI, whole(MPI, restart="Never", of_first=DONE, of_workers={"ready_seconds": 60, **WRONG}), SUCCEEDED),
            play(MPI, whole(MPI, restart="Never", of_first=WRONG), FAILED),
            play(MPI, whole(MPI, restart="ExitCode", of_first=KILLED), FAILED),
        ),
    ),
    Row(
        "When a job ends",
        "An evicted worker of an MPIJob, `restartPolicy: Never`, ends it.",
        f"{_REPO} controllers/mpi/job.go: UpdateJobStatus",
        (play(MPI, whole(MPI, restart="Never"), FAILED, steps=(after(5), evicted(W1), after(60))),),
    ),
)

RESTARTS = (
    Row(
        "Restarts",
        "Roles without a `restartPolicy`: `ExitCode` in a TFJob and for the master of a PyTorchJob and the workers of a"
        " MarsJob, `OnFailure` for the workers of a PyTorchJob, `Never` in an XDLJob and an MPIJob and for the"
        " scheduler"
        " of a MarsJob.",
        f"{_REPO} apis/training/v1alpha1/*_constants.go, *_defaults.go",
        (
            play(TF, whole(TF), FAILED, pods={W0: WRONG}),
            play(TF, whole(TF), {"true Failed": False, "restarted": True}, pods={W0: KILLED}),
            play(PYTORCH, whole(PYTORCH), FAILED, pods={M: WRONG}),
            play(PYTORCH, roles("Master", of_workers=ONCE), {**RUNS, "restarted": True}),
            play(XDL, whole(XDL), FAILED, pods={W0: KILLED}),
            play(MPI, whole(MPI), FAILED, pods={L: KILLED}),
            play(MARS, whole(MARS), {"true Failed": False, "restarted": True}, pods={W0: KILLED}),
        ),
    ),
    Row(
        "Restarts",
        "The exit code of the container with the kind's own name counts (`tensorflow`, `pytorch`, `xgboostjob`,"
        " `xdl`), not"
        " that of the first container.",
        f"{_POD}: reconcileOnePod (GetDefaultContainerName)",
        (
            *(
                play(
                    kind,
                    named(kind, "ExitCode", "sidecar", name),
                    {"true Failed": False, "restarted": True},
                    steps=(pod_status(W0, "Failed", {"sidecar": 0, name: 137}), after(10)),
                )
                for kind, name in CONTAINER.items()
            ),
            play(
                TF,
                named(TF, "ExitCode", "sidecar", "tensorflow"),
                {"true Failed": True, "restarted": False},
                steps=(pod_status(W0, "Failed", {"sidecar": 137, "tensorflow": 1}), after(10)),
            ),
        ),
    ),
    Row(
        "Restarts",
        "With `ExitCode` a pod is replaced as soon as that container has ended with a retryable code, also while"
        " a sidecar"
        " runs on.",
        f"{_POD}: reconcileOnePod (exitCode != initialExitCode)",
        tuple(
            play(
                kind,
                named(kind, "ExitCode", name, "sidecar"),
                {"true Failed": False, "restarted": True},
                steps=(pod_status(W0, "Running", {name: 137, "sidecar": None}), after(10)),
            )
            for kind, name in some(CONTAINER.items())
        ),
    ),
    Row(
        "Restarts",
        "With `ExitCode` a pod without an exit code of that container ends the job: its init container failed,"
        " or its status"
        " names no container.",
        f"{_POD}: reconcileOnePod (0xbeef); pkg/util/train/train_util.go: IsRetryableExitCode",
        tuple(
            play(
                kind,
                named(kind, "ExitCode", name),
                {"true Failed": True, "restarted": False},
                steps=(pod_status(W0, "Failed", {}, init), after(10)),
            )
            for kind, name in some(CONTAINER.items())
            for init in ({"fetch": 1}, {})
        ),
    ),
    Row(
        "Restarts",
        "the kubelet restarts the container in its pod",
        f"{_POD}: setRestartPolicy",
        (
            play(
                PYTORCH,
                whole(PYTORCH),
                {f"pod {W0} spec.restartPolicy": "OnFailure"},
                {f"pod {W0} spec.restartPolicy": "Never"},
            ),
            play(
                XGB,
                roles("Master", of_first=DONE) | {"Worker": role(1, "Always", **DONE)},
                {f"pod {W0} spec.restartPolicy": "Always"},
                {f"pod {W0} spec.restartPolicy": "Never", f"pod {W0} status.phase": "Succeeded", "state": "Succeeded"},
            ),
            play(
                PYTORCH,
                whole(PYTORCH, restart="OnFailure"),
                FAILED,
                {**RUNS, "restarted": True},
                steps=(after(5), evicted(W0), after(60)),
            ),
        ),
        "the pod is replaced, with a cause and a count, an evicted one, too; a container that ends well is not"
        " started again",
        "`OnFailure`, `Always`",
    ),
    Row(
        "Restarts",
        "tries again after 130, 137, 138, 143",
        f"{_REPO} pkg/util/train/train_util.go: IsRetryableExitCode",
        (
            *(
                play(
                    TF,
                    whole(TF, restart="ExitCode"),
                    {"true Failed": True, "restarted": False},
                    {"true Failed": False, "restarted": True},
                    pods={W0: {"run_seconds": 5, "exit_code": code}},
                )
                for code in (128, 139, 255)
            ),
        ),
        "after 128 to 255, as its API says, and after a lost node",
        "`ExitCode`",
    ),
    Row(
        "Restarts",
        "With `ExitCode` the codes 130, 137, 138 and 143 are tried again, and those below 128 end the job.",
        f"{_REPO} pkg/util/train/train_util.go: IsRetryableExitCode",
        tuple(
            play(
                TF,
                whole(TF, restart="ExitCode"),
                {"true Failed": code < 128, "restarted": code >= 128},
                pods={W0: {"run_seconds": 5, "exit_code": code}},
            )
            for code in (1, 2, 126, 127, 130, 137, 138, 143)
        ),
    ),
    *(
        Row(
            "Restarts",
            f"the pod's own default `Always`: a {which} that is done runs again for ever",
            f"{_REPO} apis/training/v1alpha1/{file}",
            (
                play(
                    kind,
                    made,
                    {"true Succeeded": False},
                    {"true Succeeded": True, f"pod {M} spec.restartPolicy": "Never"},
                ),
            ),
            "`Never`, as its API says",
            f"`restartPolicy` of {name}, not given",
        )
        for kind, name, which, file, made in (
            (
                XGB,
                "an XGBoostJob",
                "program",
                "xgboostjob_defaults.go: setDefaults_XGBoostJobReplicas",
                whole(XGB, of_first=DONE),
            ),
            (ELASTICDL, "an ElasticDLJob", "master", "elasticdljob_defaults.go", whole(ELASTICDL, of_first=DONE)),
        )
    ),
    Row(
        "Restarts",
        "counts restarts in the controller's memory and of containers",
        f"{_JOB}: pastBackoffLimit",
        (play(PYTORCH, roles("Master", workers=1, of_workers=ONCE), FAILED, RUNS, run={"backoffLimit": 1}),),
        "counts the program's own failures over the whole life",
        "`backoffLimit`",
    ),
    Row(
        "Restarts",
        "An XDLJob has the `backoffLimit` 20 unless it sets one.",
        f"{_REPO} apis/training/v1alpha1/xdljob_defaults.go: setDefaults_XDLJobSpec",
        (
            play(
                XDL,
                {"PS": role(), "Worker": role(1, "ExitCode", run_seconds=1, exit_code=137)},
                {"state": "Failed", "says Failed": Has("backoffLimit 20")},
                steps=(lambda w: w.advance(9000, step_seconds=60),),
            ),
        ),
    ),
)


def _limited(kind: str, policy: str, run: Json, **more: Any) -> Play:
    """The first pod and worker 0 run, worker 1 has ended well."""
    pods = pods_of(kind)
    left = {"None": pods, "Running": tuple(pod for pod in pods if pod == W1), "All": ()}[policy]
    made = {**more.pop("pods", {}), **({} if kind == ELASTICDL else {W1: {**DONE, "ready_seconds": 1}})}
    return play(
        kind, whole(kind, **more), {"state": "Failed", "pods": left}, run={"cleanPodPolicy": policy, **run}, pods=made
    )


def _exhausted(kind: str, policy: str) -> Play:
    """Worker 0 fails with no restart left."""
    left = {"None": (P, W0, W1) if kind == XDL else pods_of(kind), "Running": (W0, W1), "All": ()}[policy]
    return play(
        kind,
        whole(kind, restart="ExitCode"),
        {"state": "Failed", "pods": left},
        run={"cleanPodPolicy": policy, "backoffLimit": 0},
        pods={W1: DONE, W0: {"run_seconds": 10, "exit_code": 137}},
    )


CLEAN = (
    Row(
        "What is deleted at the end",
        "`cleanPodPolicy: None` deletes nothing, `Running` the pods that run, `All` all pods: after success and"
        " failure,"
        " and also when a deadline (`activeDeadlineSeconds`) or a used-up `backoffLimit` has ended the job.",
        f"{_JOB}: deletePodsAndServices",
        (
            *(
                _limited(kind, policy, {"activeDeadlineSeconds": 20})
                for kind in some((PYTORCH, XGB, XDL, MARS, ELASTICDL))
                for policy in ("None", "Running", "All")
            ),
            *(_exhausted(kind, policy) for kind, policy in ((PYTORCH, "None"), (TF, "Running"), (XGB, "All"))),
            *(
                play(
                    XGB,
                    whole(XGB),
                    {**SUCCEEDED, "pods": left},
                    run={"cleanPodPolicy": policy},
                    pods={M: {"run_seconds": 10, "exit_code": 0}, W1: DONE},
                )
                for policy, left in (("None", (M, W0, W1)), ("Running", (M, W1)), ("All", ()))
            ),
        ),
    ),
    Row(
        "What is deleted at the end",
        "The default is `Running` for a TFJob and an XDLJob, and `None` for a PyTorchJob, an XGBoostJob and a MarsJob.",
        f"{_REPO} apis/training/v1alpha1/*_defaults.go",
        (
            play(TF, whole(TF, of_first=DONE), {"pods": (C,)}),
            play(XDL, whole(XDL, of_workers=DONE), {"pods": (W0, W1)}),
            play(PYTORCH, whole(PYTORCH, of_first=DONE, of_workers=DONE), {"pods": (M, W0, W1)}),
            play(XGB, whole(XGB, of_first=DONE), {"pods": (M, W0, W1)}),
            play(MARS, whole(MARS, of_first=DONE), {"pods": (S, W0, W1)}),
        ),
    ),
    Row(
        "What is deleted at the end",
        "the controller crashes at the job's end",
        f"{_REPO} apis/training/v1alpha1/mpijob_default.go, elasticdljob_defaults.go: no default; {_JOB}:"
        " deletePodsAndServices",
        (
            play(MPI, whole(MPI, of_first=DONE), {"pods": (L, W0, W1)}, {"pods": (L,), "state": "Succeeded"}),
            play(
                MPI,
                whole(MPI),
                {"pods": (L, W0, W1)},
                {"pods": (), "state": "Failed"},
                run={"activeDeadlineSeconds": 20},
            ),
            play(
                ELASTICDL,
                whole(ELASTICDL),
                {"pods": (M,)},
                {"pods": (), "state": "Failed"},
                run={"activeDeadlineSeconds": 20},
            ),
        ),
        "`Running`, as its API says",
        "`cleanPodPolicy` of an MPIJob or an ElasticDLJob, not given",
    ),
    Row(
        "What is deleted at the end",
        "stay, and may start to run afterwards",
        f"{_JOB}: deletePodsAndServices",
        (
            play(
                XGB,
                whole(XGB, of_first=DONE, of_workers=LATE),
                {"pods": (M, W0, W1)},
                {"pods": (M,)},
                run={"cleanPodPolicy": "Running"},
            ),
        ),
        "go: a job that has ended starts nothing",
        "pods that still wait, with `cleanPodPolicy: Running`",
    ),
    Row(
        "What is deleted at the end",
        "`ttlSecondsAfterFinished` deletes the job so long after its end.",
        f"{_JOB}: cleanupJob",
        tuple(
            play(
                kind,
                whole(kind, of_first=DONE, of_workers=DONE),
                {"state": "deleted"},
                run={"ttlSecondsAfterFinished": 10},
            )
            for kind in some(ALL)
        ),
    ),
    Row(
        "What is deleted at the end",
        "the job and its logs are deleted 100 s after the end",
        f"{_REPO} apis/training/v1alpha1/xgboostjob_defaults.go: setDefaults_XGBoostJobSpec",
        (play(XGB, whole(XGB, of_first=DONE), {"state": "deleted"}, {"state": "Succeeded"}, steps=(after(200),)),),
        "never, as its API says",
        "`ttlSecondsAfterFinished` of an XGBoostJob, not given",
    ),
    Row(
        "What is deleted at the end",
        "An MPIJob's `cleanPodPolicy` may be in the spec itself, where it wins.",
        f"{_REPO} apis/training/v1alpha1/mpijob_default.go: SetDefaults_MPIJob",
        (play(MPI, whole(MPI, of_first=DONE), {"pods": ()}, spec={"cleanPodPolicy": "All"}),),
    ),
)

STATUS = (
    Row(
        "Status",
        "Running is True as soon as the master or chief runs, one worker of a TFJob without a chief or of a"
        " MarsJob, the"
        " launcher and all workers of an MPIJob.",
        f"{_REPO} controllers/*: updateGeneralJobStatus; mpi/job.go: UpdateJobStatus",
        (
            *(play(kind, whole(kind), {"true Running": True}) for kind in ALL),
            play(TF, roles("PS"), {"true Running": True}),
            play(PYTORCH, {"Master": role(), "Worker": with_unschedulable(role(1))}, {"true Running": True}),
            play(PYTORCH, {"Master": with_unschedulable(role()), "Worker": role()}, {"true Running": False}),
            play(TF, {"Chief": role(), "Worker": with_unschedulable(role(1))}, {"true Running": True}),
            play(MARS, {"Scheduler": role(), "Worker": with_unschedulable(role(1))}, {"true Running": False}),
            play(MARS, {"Scheduler": with_unschedulable(role()), "Worker": role()}, {"true Running": True}),
            play(MPI, {"Launcher": role(), "Worker": with_unschedulable(role(1))}, {"true Running": False}),
        ),
    ),
    Row(
        "Status",
        "counts as running: its node is chosen and its init containers are done",
        f"{_REPO} pkg/job_controller/status.go: updateJobReplicaStatuses",
        (
            play(
                PYTORCH,
                whole(PYTORCH, of_first=LATE),
                {"true Running": True, "counts": {"Master": {"active": 1}, "Worker": {"active": 2}}},
                {"true Running": False, "counts": {"Master": {}, "Worker": {"active": 2}}},
            ),
        ),
        "does not: a program that has not started trains nothing",
        "a pod whose containers are being started",
    ),
    Row(
        "Status",
        "True as soon as their pods are made",
        f"{_REPO} controllers/xgboost/job.go, xdl/status.go: UpdateJobStatus",
        (
            play(XGB, whole(XGB, of_first=LATE), {"true Running": True}, {"true Running": False}),
            play(XDL, whole(XDL, of_first=LATE, of_workers=LATE), {"true Running": True}, {"true Running": False}),
        ),
        "when the master runs; when any pod runs. Before that nothing trains",
        "Running of an XGBoostJob, an XDLJob",
    ),
    Row(
        "Status",
        "The conditions in their order, with the reasons JobCreated, JobRunning, JobSucceeded, JobFailed;"
        " `replicaStatuses`"
        " counts active, succeeded and failed pods, and after success those that still ran as succeeded.",
        f"{_REPO} pkg/util/status.go; {_JOB}: ReconcileJobs (IsSucceeded)",
        (
            play(
                TF,
                roles("PS"),
                {
                    "conditions": ["Created True JobCreated", "Running True JobRunning"],
                    "counts": {"PS": {"active": 1}, "Worker": {"active": 2}},
                },
            ),
            *(
                play(
                    XGB,
                    whole(XGB, of_first=DONE),
                    {
                        "conditions": [
                            "Created True JobCreated",
                            "Running False JobRunning",
                            "Succeeded True JobSucceeded",
                        ],
                        "counts": {"Master": {"succeeded": 1}, "Worker": {"succeeded": 2}},
                        "time completionTime": True,
                    },
                    run={"cleanPodPolicy": policy},
                )
                for policy in ("None", "Running", "All")
            ),
            play(TF, roles("PS"), {"reason Failed": "JobFailed", "time completionTime": True}, pods={W1: WRONG}),
            play(TF, roles("PS"), {"says Running": "TFJob digits is running."}),
        ),
    ),
    Row(
        "Status",
        "A message names the restart policy that the manifest has.",
        f"{_POD}: ReconcilePods",
        tuple(
            play(
                kind,
                whole(kind, restart="ExitCode"),
                {"says Failed": Has("ExitCode", lacks="OnNodeFail")},
                pods={W0: WRONG},
            )
            for kind in (PYTORCH, TF, XGB, XDL)
        ),
    ),
    Row(
        "Status",
        "`minAvailable` above the number of pods is no error where no gang scheduler is on.",
        f"{_JOB}: ReconcileJobs (EnableGangScheduling)",
        tuple(play(kind, whole(kind), RUNS, run={"schedulingPolicy": {"minAvailable": 10}}) for kind in some(ALL)),
    ),
    Row(
        "Status",
        "has no such field",
        f"{_REPO} pkg/job_controller/api/v1/types.go: RunPolicy",
        tuple(
            play(
                kind,
                whole(kind),
                {"pods": pods_of(kind)},
                {"pods": (), "state": "Suspended"},
                steps=(
                    after(5),
                    patch({"runPolicy": {"suspend": True}} if kind == MPI else {"suspend": True}),
                    after(40),
                ),
            )
            for kind in ALL
        ),
        "`spec.suspend`, of an MPIJob `spec.runPolicy.suspend`, deletes the pods until it is taken back",
        "suspending a job",
    ),
)

_RANKS = {"MASTER_ADDR": M, "WORLD_SIZE": "3"}


def _env_of(pod: str, env: Json) -> Json:
    return {f"env {pod} {name}": value for name, value in env.items()}


_AFFINITY = f"pod {W0} spec.affinity.podAffinity"
PODS = (
    Row(
        "Pods and their environment",
        "The labels `group-name`, `job-name`, `replica-type` in lower case, `replica-index` and `job-role`; the"
        " port of the"
        " kind; `TF_CONFIG`, `MASTER_ADDR`, `RANK` and their like, `TASK_NAME` and `TASK_INDEX`, `MARS_*`.",
        f"{_POD}: createNewPod; {_REPO} controllers/*: SetClusterSpec",
        (
            play(
                PYTORCH,
                whole(PYTORCH),
                {
                    **_env_of(W1, {**_RANKS, "RANK": "2", "MASTER_PORT": "23456"}),
                    **{
                        f"pod {M} metadata.labels.{k}": v
                        for k, v in {"group-name": _GROUP, "replica-type": "master", "job-role": "master"}.items()
                    },
                    f"pod {W1} spec.containers.0.ports": [
                        {"name": "pytorchjob-port", "containerPort": 23456, "protocol": "TCP"}
                    ],
                },
            ),
            play(XDL, whole(XDL), _env_of(W1, {"TASK_NAME": "worker", "TASK_INDEX": "1"})),
            play(MARS, whole(MARS), {f"env {S} MARS_K8S_GROUP_LABELS": "job-name"}),
            play(
                XDL,
                with_env(whole(XDL), ZK_ADDR="zfs://zk:2181/xdl/"),
                {f"env {W0} ZK_ADDR": Has("zfs://zk:2181/xdl/")},
            ),
        ),
    ),
    Row(
        "Pods and their environment",
        "`XDL_CONFIG` of an XDLJob: the cluster and the task as JSON.",
        f"{_REPO} controllers/xdl/xdl.go: genXDLConfigJSON",
        (
            play(
                XDL,
                whole(XDL),
                {
                    f"env {W1} XDL_CONFIG": {
                        "cluster": {"ps": [f"{P}:2222"], "worker": [f"{W0}:2222", f"{W1}:2222"]},
                        "task": {"type": "worker", "index": 1},
                    }
                },
            ),
        ),
    ),
    Row(
        "Pods and their environment",
        "A variable that the template sets keeps its value, where the operator itself sets none of that name.",
        f"{_REPO} controllers/*: SetClusterSpec",
        (
            play(PYTORCH, with_env(whole(PYTORCH), WORKER_HOSTS="mine:1"), _env_of(W0, {"WORKER_HOSTS": "mine:1"})),
            play(TF, with_env(roles("PS"), PS_HOSTS="mine:1"), _env_of(W0, {"PS_HOSTS": "mine:1"})),
        ),
    ),
    Row(
        "Pods and their environment",
        "a worker's pod is made when its master or PS runs",
        f"{_REPO} apis/training/v1alpha1/*_defaults.go: setDefault*DAGCondition",
        (
            play(PYTORCH, whole(PYTORCH, of_first=LATE), {"pods": (M,)}, {"pods": (M, W0, W1)}),
            play(TF, roles("PS", of_first=LATE), {"pods": (P,)}, {"pods": (P, W0, W1)}),
        ),
        "all at once; each launcher tries until the others are there",
        "roles start",
    ),
    Row(
        "Pods and their environment",
        "the master's alone, unless elastic",
        f"{_REPO} controllers/pytorch/service.go",
        (play(PYTORCH, whole(PYTORCH), {"services": (M,)}, {"services": (M, W0, W1)}),),
        "each pod's",
        "services of a PyTorchJob",
    ),
    Row(
        "Pods and their environment",
        "`localhost`",
        f"{_REPO} controllers/pytorch/pytorchjob_controller.go: SetClusterSpec",
        (play(PYTORCH, whole(PYTORCH), {f"env {M} MASTER_ADDR": "localhost"}, {f"env {M} MASTER_ADDR": M}),),
        "the master's name, as its workers have it: processes agree on the address they meet at",
        "`MASTER_ADDR` in the master of a PyTorchJob",
    ),
    Row(
        "Pods and their environment",
        "`0`",
        f"{_REPO} controllers/pytorch/pytorchjob_controller.go: SetClusterSpec",
        (play(PYTORCH, whole(PYTORCH), {f"env {M} PYTHONUNBUFFERED": "0"}, {f"env {M} PYTHONUNBUFFERED": "1"}),),
        "`1`; either switches buffering off",
        "`PYTHONUNBUFFERED`",
    ),
    Row(
        "Pods and their environment",
        "that of the master and of worker 0 are both 0",
        f"{_REPO} controllers/xgboost/pod.go: SetPodEnv",
        (
            play(
                XGB,
                whole(XGB),
                {f"env {M} RANK": "0", f"env {W0} RANK": "0"},
                {f"env {M} RANK": "0", f"env {W0} RANK": "1"},
            ),
        ),
        "0 to n - 1",
        "`RANK` of an XGBoostJob",
    ),
    Row(
        "Pods and their environment",
        "`--rdzv_backend` and its like before the arguments of every container",
        f"{_REPO} controllers/pytorch/pod.go",
        (
            play(
                PYTORCH,
                whole(PYTORCH),
                {f"pod {W0} spec.containers.0.args.0": "--rdzv_backend=etcd"},
                {
                    f"pod {W0} spec.containers.0.args": None,
                    f"env {W0} PET_RDZV_BACKEND": "etcd",
                    f"env {W0} PET_NNODES": "2:4",
                },
                spec={"enableElastic": True}
                | {
                    "elasticPolicy": {
                        "rdzvBackend": "etcd",
                        "rdzvEndpoint": "etcd:2379",
                        "minReplicas": 1,
                        "maxReplicas": 3,
                        "nProcPerNode": 1,
                    }
                },
            ),
        ),
        "torchrun reads the same from `PET_*`; the number of nodes counts the master, the rendezvous is one of"
        " this job alone",
        "elastic PyTorchJob",
    ),
    Row(
        "When a job ends",
        "all workers of a PyTorchJob must succeed",
        f"{_STATUS.format('pytorch/status.go')}",
        (
            play(
                PYTORCH,
                {
                    "Master": role(run_seconds=20, exit_code=0),
                    "Worker": with_requests(role(2, run_seconds=20, exit_code=0), cpu="5"),
                },
                {"true Succeeded": False},
                {"true Succeeded": True},
                spec={"enableElastic": True}
                | {"elasticPolicy": {"rdzvBackend": "etcd", "rdzvEndpoint": "e:1", "minReplicas": 1, "maxReplicas": 3}},
                nodes=1,
            ),
        ),
        "those beyond `minReplicas` that never started are not waited for, once every worker that ran has succeeded",
        "elastic workers that never found room",
    ),
    Row(
        "Pods and their environment",
        "11111 whatever the container's port is",
        f"{_REPO} controllers/mars/mars.go",
        (
            play(
                MARS,
                {"Scheduler": with_port(role(), "mars-port", 7777), "Worker": role(2)},
                {f"env {S} MARS_BIND_PORT": "11111"},
                {f"env {S} MARS_BIND_PORT": "7777"},
            ),
        ),
        "the container's port",
        "`MARS_BIND_PORT`",
    ),
    Row(
        "Pods and their environment",
        "all pods of a role on one node, unless an annotation says otherwise",
        f"{_REPO} pkg/job_controller",
        (play(PYTORCH, whole(PYTORCH), {_AFFINITY: Has("")}, {_AFFINITY: None}),),
        "none but that of the template: a role that is larger than a node would never run",
        "pod affinity",
    ),
    Row(
        "Pods and their environment",
        "act",
        f"{_REPO} pkg/job_controller/api/v1/types.go",
        (
            *(
                play(
                    TF,
                    roles("PS"),
                    {"says Created": Has("is created", lacks="not acted on")},
                    {"says Created": Has(name)},
                    spec=spec,
                )
                for name, spec in (
                    ("modelVersion", {"modelVersion": {"imageRepo": "a"}}),
                    ("cacheBackend", {"cacheBackend": {"mountPath": "/a"}}),
                    ("cronPolicy", {"cronPolicy": {"schedule": "* * * * *"}}),
                    ("gitSyncConfig", {"gitSyncConfig": {"source": "a"}}),
                    ("schedulingPolicy.priority", {"schedulingPolicy": {"priority": 1}}),
                )
            ),
            play(
                MARS,
                whole(MARS),
                {"says Created": Has("is created", lacks="not acted on")},
                {"says Created": Has("webHost")},
                spec={"webHost": "mars.example.com"},
            ),
            play(
                TF,
                {name: {**one, "spotReplicaSpec": {"spotReplicaNumber": 1}} for name, one in roles("PS").items()},
                {"says Created": Has("is created", lacks="not acted on")},
                {"says Created": Has("spotReplicaSpec")},
            ),
            play(
                TF,
                roles("PS"),
                {"says Created": Has("is created", lacks="not acted on")},
                {"says Created": Has("pod-affinity-strategy")},
                meta={"annotations": {"kubedl.io/pod-affinity-strategy": "a"}},
            ),
            play(
                PYTORCH,
                whole(PYTORCH),
                {"says Created": Has("is created", lacks="not acted on")},
                {"says Created": Has("enable-elastic-training")},
                meta={"annotations": {"kubedl.io/enable-elastic-training": "true"}},
            ),
        ),
        "named in the condition Created as not acted on",
        "`modelVersion`, `cacheBackend`, `gitSyncConfig`, `cronPolicy`, `webHost`, `spotReplicaSpec`,"
        " `schedulingPolicy.priority`; annotations for affinity and `enable-elastic-training`",
    ),
    Row(
        "Pods and their environment",
        "watches a job's errors",
        f"{_REPO} pkg/job_controller/aimaster.go",
        (
            play(
                TF,
                {"AIMaster": role(), **roles("PS")},
                RUNS,
                {"refused": Has("a role of a TFJob is PS, Worker, Chief, Master or Evaluator")},
            ),
        ),
        "refused: it asks for the operator's own part",
        "the role `AIMaster`",
    ),
)

_LABEL = "metadata.labels.job-role"
AGENT = (
    Row(
        "MPIJob",
        "none",
        f"{_REPO} controllers/mpi/mpijob_controller.go",
        (play(MPI, whole(MPI), {"services": ()}, {"services": (L, W0, W1)}),),
        "each pod's: the agent is found by the pod's name",
        "services of an MPIJob",
    ),
    Row(
        "MPIJob",
        "none",
        f"{_REPO} controllers/mpi/mpijob_controller.go: IsMasterRole",
        (play(MPI, whole(MPI), {f"pod {L} {_LABEL}": None}, {f"pod {L} {_LABEL}": "master"}),),
        "`master` on its launcher, as in Kubeflow's",
        "the label `job-role` of an MPIJob",
    ),
    Row(
        "MPIJob",
        "always, with `slotsPerWorker` of its own, unless the controller has `--launcher-runs-workloads=false`",
        f"{_REPO} controllers/mpi/mpi_config.go",
        (
            play(
                MPI,
                whole(MPI),
                {f"file {L} hostfile": f"{L} slots=1\n{W0} slots=1\n{W1} slots=1\n"},
                {f"file {L} hostfile": f"{W0} slots=1\n{W1} slots=1\n"},
            ),
        ),
        "when it has GPUs, as that flag's own description says",
        "an MPIJob's launcher in the hostfile",
    ),
    Row(
        "MPIJob",
        "is made when all workers run",
        f"{_REPO} apis/training/v1alpha1/mpijob_default.go",
        (
            play(
                MPI,
                whole(MPI, of_workers={"ready_seconds": 100}),
                {"pods": (L, W0, W1)},
                {"pods": (W0, W1), "waits": Has("is ready: 0 of 2")},
            ),
        ),
        "is made when all are ready",
        "an MPIJob's launcher",
    ),
    Row(
        "MPIJob",
        "A worker that has ended does not keep the launcher from its start.",
        f"{_REPO} pkg/job_controller/job.go: dagConditionsReady",
        (
            play(
                MPI,
                whole(MPI, restart="Never"),
                {"pods": (L, W0, W1)},
                pods={W1: {**DONE, "ready_seconds": 20}, W0: {"ready_seconds": 15}},
            ),
        ),
    ),
    Row(
        "MPIJob",
        "ends the job",
        f"{_REPO} controllers/mpi/job.go: UpdateJobStatus",
        (
            play(
                MPI,
                whole(MPI, restart="OnFailure"),
                FAILED,
                {**RUNS, "restarted": True},
                steps=(after(5), evicted(W1), after(60)),
            ),
        ),
        "is replaced, unless its `restartPolicy` is `Never`",
        "an evicted worker of an MPIJob",
    ),
    Row(
        "MPIJob",
        "go to the image's entrypoint",
        f"{_REPO} controllers/mpi/mpijob_controller.go: setupMPIWorker",
        (
            play(
                MPI,
                {"Launcher": role(), "Worker": with_args(role(1), "--flag")},
                {f"pod {W0} spec.containers.0.args": ["--flag"]},
                {f"pod {W0} spec.containers.0.args": None, "says Created": Has("args")},
            ),
        ),
        "not acted on, and the condition Created says so: the agent is the command. Set one",
        "`args` of a worker without a `command`",
    ),
    Row(
        "MPIJob",
        "those of the spec, which nothing acts on",
        f"{_REPO} apis/training/v1alpha1/mpijob_types.go: printcolumn",
        (
            play(
                MPI,
                whole(MPI),
                {"column Max-Lifetime": ".spec.activeDeadlineSeconds"},
                {"column Max-Lifetime": ".spec.runPolicy.activeDeadlineSeconds"},
            ),
        ),
        "those of `runPolicy`",
        "columns `Max-Lifetime` and `TTL-After-Finished` of an MPIJob",
    ),
    Row(
        "MPIJob",
        "a ConfigMap, of a name that another object may have",
        f"{_REPO} controllers/mpi/mpi_config.go: newJobConfigMap",
        (
            play(
                MPI,
                whole(MPI),
                {"exists configmaps digits-config": True},
                {"exists configmaps digits-config": False, f"file {L} kubexec.sh": Has("#!/bin/sh")},
            ),
        ),
        "annotations of the pods",
        "a job's `<job>-config`",
    ),
)

ROWS = (*ENDS, *RESTARTS, *CLEAN, *STATUS, *PODS, *AGENT)
