"""training-operator 1.9 (kubeflow/training-operator v1.9.3): PyTorchJob, TFJob, XGBoostJob, PaddleJob, JAXJob, and the
MPIJob of version v1."""

from __future__ import annotations

from typing import Any

from localcluster.kubelet.node import NodeConfig
from tests.peers.table import (
    DONE,
    E0,
    HELD,
    KILLED,
    LATE,
    ONCE,
    W0,
    W1,
    WRONG,
    Has,
    Json,
    L,
    M,
    P,
    Play,
    Row,
    after,
    evicted,
    node_fails,
    patch,
    pod_status,
    roles,
    scaled,
    some,
    tried,
    with_priority_class,
)
from tests.scenarios.test_kubeflow import role

PYTORCH, TF, XGB = "pytorchjobs.kubeflow.org", "tfjobs.kubeflow.org", "xgboostjobs.kubeflow.org"
PADDLE, JAX, MPI = "paddlejobs.kubeflow.org", "jaxjobs.kubeflow.org", "mpijobs.kubeflow.org"
V1 = "v1"
FIRST = {PYTORCH: "Master", TF: "Chief", XGB: "Master", PADDLE: "Master", MPI: "Launcher"}
"""The role whose success is the job's."""
FIRST_POD = {kind: f"digits-{name.lower()}-0" for kind, name in FIRST.items()}
CONTAINER = {PYTORCH: "pytorch", TF: "tensorflow", XGB: "xgboost", PADDLE: "paddle", JAX: "jax"}
ALL = (*FIRST, JAX)
_REPO = "kubeflow/training-operator"
_COMMON = f"{_REPO} pkg/controller.v1/common"
_JOBS, _PODS = f"{_COMMON}/job.go: ReconcileJobs", f"{_COMMON}/pod.go: ReconcilePods"
UPDATE = f"{_REPO} pkg/controller.v1/*/*_controller.go: UpdateJobStatus"
RUNS, FAILED, SUCCEEDED = {"state": "Running"}, {"state": "Failed"}, {"state": "Succeeded"}


def play(kind: str, made: Json, theirs: Json, ours: Json | None = None, **more: Any) -> Play:
    """An MPIJob is one of v1: the version of training-operator."""
    return Play(kind, made, theirs, ours, version=V1 if kind == MPI else "", **more)


def whole(kind: str, *, restart: str = "", **of_roles: Any) -> Json:
    """A job of this kind with its first role, where it has one, and two workers."""
    made = roles(FIRST.get(kind, ""), **of_roles)
    return {name: {**one, "restartPolicy": restart} if restart else one for name, one in made.items()}


def named(kind: str, restart: str, *containers: str) -> Json:
    """One worker with these containers, whose status is written by hand; and the first role, which runs."""
    worker = role(1, restart, **HELD)
    worker["template"]["spec"]["containers"] = [{"name": name, "image": "trainer:1"} for name in containers]
    return (roles(FIRST[kind], workers=0) if kind in FIRST else {}) | {"Worker": worker}


def with_env(made: Json, **env: str) -> Json:
    """Every container has these variables from its template."""
    for one in made.values():
        one["template"]["spec"]["containers"][0]["env"] = [{"name": k, "value": v} for k, v in env.items()]
    return made


def with_pod(made: Json, **spec: Any) -> Json:
    """The role with these fields in the spec of its template."""
    made["template"]["spec"].update(spec)
    return made


def with_requests(made: Json, **requests: str) -> Json:
    """The role whose container asks for these resources."""
    made["template"]["spec"]["containers"][0]["resources"] = {"requests": requests}
    return made


def ended(kind: str) -> tuple[str, ...]:
    """The pods of `whole`."""
    return tuple(sorted((*([FIRST_POD[kind]] if kind in FIRST else []), W0, W1)))


ENDS = (
    Row(
        "When a job ends",
        "The success of the master, the chief or the launcher ends the job, whatever its workers do. A TFJob with a"
        " chief ignores `successPolicy`.",
        UPDATE,
        (
            *(play(kind, whole(kind, of_first=DONE), SUCCEEDED) for kind in FIRST),
            play(TF, roles("Master", of_first=DONE), SUCCEEDED),
            play(TF, whole(TF, of_first=DONE), SUCCEEDED, spec={"successPolicy": "AllWorkers"}),
        ),
    ),
    Row(
        "When a job ends",
        "The success of the workers does not end a job that has a master or a chief.",
        UPDATE,
        tuple(play(kind, whole(kind, of_workers=DONE), RUNS) for kind in (PYTORCH, TF, XGB, PADDLE)),
    ),
    Row(
        "When a job ends",
        "A PaddleJob with several masters needs the success of all of them.",
        UPDATE,
        (
            play(PADDLE, {"Master": role(2), "Worker": role(1)}, RUNS, pods={M: DONE}),
            play(PADDLE, {"Master": role(2, **DONE), "Worker": role(1)}, SUCCEEDED),
        ),
    ),
    Row(
        "When a job ends",
        "Without a master, a PyTorchJob, a PaddleJob and a JAXJob end with the success of all workers; a PyTorchJob"
        " with an `elasticPolicy` ends with the first worker that succeeds.",
        UPDATE,
        (
            *(play(kind, roles("", of_workers=DONE), SUCCEEDED) for kind in (PYTORCH, PADDLE, JAX)),
            *(play(kind, roles(""), RUNS, pods={W0: DONE}) for kind in (PYTORCH, PADDLE, JAX)),
            play(
                PYTORCH,
                roles(""),
                SUCCEEDED,
                pods={W1: DONE},
                spec={"elasticPolicy": {"minReplicas": 1, "maxReplicas": 3}},
            ),
        ),
    ),
    Row(
        "When a job ends",
        "A TFJob without a chief ends with the success of worker 0, and with `successPolicy: AllWorkers` with the"
        " success of the last worker. Parameter servers and evaluators that end well do not count.",
        f"{_REPO} pkg/controller.v1/tensorflow/tfjob_controller.go: UpdateJobStatus, IsWorker0Completed",
        (
            play(TF, roles("PS"), SUCCEEDED, pods={W0: DONE}),
            play(TF, roles("PS"), RUNS, pods={W1: DONE}),
            play(TF, roles(""), RUNS, pods={W0: DONE}, spec={"successPolicy": "AllWorkers"}),
            play(TF, roles("", of_workers=DONE), SUCCEEDED, spec={"successPolicy": "AllWorkers"}),
            play(TF, {**roles("PS", of_first=DONE), "Evaluator": role(**DONE)}, RUNS),
        ),
    ),
    Row(
        "When a job ends",
        "With `restartPolicy: Never` the first failed pod of any role ends the job.",
        UPDATE,
        (
            *(play(k, whole(k, restart="Never"), FAILED, pods={W1: WRONG}) for k in ALL if k != MPI),
            play(MPI, whole(MPI, restart="Never"), FAILED, pods={L: WRONG}),
            play(MPI, whole(MPI, restart="Never", of_first=LATE), FAILED, pods={W1: {"ready_seconds": 1, **WRONG}}),
            play(TF, {"Chief": role(), "Worker": role(), "PS": role(1, "Never", **WRONG)}, FAILED),
            play(TF, {"Chief": role(), "Worker": role(), "Evaluator": role(1, "Never", **WRONG)}, FAILED),
        ),
    ),
    Row(
        "When a job ends",
        "The failed workers of a TFJob with `enableDynamicWorker` do not end it.",
        f"{_REPO} pkg/controller.v1/tensorflow/tfjob_controller.go: UpdateJobStatus",
        (play(TF, whole(TF, of_workers=WRONG), RUNS, spec={"enableDynamicWorker": True}),),
    ),
)

NAMES = (
    Row(
        "When a job ends",
        "Role names may have any case.",
        f"{_REPO} pkg/apis/kubeflow.org/v1/*_defaults.go: setTypeNamesToCamelCase",
        (play(PYTORCH, {"master": role(**DONE), "WORKER": role(1)}, {**SUCCEEDED, "pods": (M, W0)}),),
    ),
)

RESTARTS = (
    Row(
        "Restarts",
        "Roles without a `restartPolicy` have `OnFailure` in a PyTorchJob and a PaddleJob and `Never` in a TFJob, an"
        " XGBoostJob, a JAXJob and an MPIJob.",
        f"{_REPO} pkg/apis/kubeflow.org/v1/*_types.go: *DefaultRestartPolicy",
        (
            *(play(kind, whole(kind, of_workers=ONCE), {**RUNS, "restarted": True}) for kind in (PYTORCH, PADDLE)),
            *(play(kind, whole(kind), FAILED, pods={W0: WRONG}) for kind in (TF, XGB, JAX)),
            play(MPI, whole(MPI), FAILED, pods={L: WRONG}),
        ),
    ),
    Row(
        "Restarts",
        "With `ExitCode` a pod is replaced after the exit codes 128 to 255; 1 to 127 end the job.",
        f"{_PODS}; pkg/util/train/train_util.go: IsRetryableExitCode",
        tuple(
            play(
                kind,
                whole(kind, restart="ExitCode"),
                {"true Failed": code < 128, "restarted": code >= 128},
                pods={W1: {"run_seconds": 5, "exit_code": code}},
            )
            for kind, codes in {PYTORCH: (127, 128, 255), **dict.fromkeys((TF, XGB, PADDLE, JAX), (1, 137))}.items()
            for code in codes
        ),
    ),
    Row(
        "Restarts",
        "The exit code of the container with the kind's own name counts (`pytorch`, `tensorflow`, `xgboost`, `paddle`,"
        " `jax`), not that of the first container.",
        f"{_PODS} (GetDefaultContainerName)",
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
                PYTORCH,
                named(PYTORCH, "ExitCode", "sidecar", "pytorch"),
                {"true Failed": True, "restarted": False},
                steps=(pod_status(W0, "Failed", {"sidecar": 137, "pytorch": 1}), after(10)),
            ),
        ),
    ),
    Row(
        "Restarts",
        "With `ExitCode` a pod without an exit code of that container is replaced: its init container failed, or its"
        " status names no container.",
        f"{_PODS} (0xbeef)",
        (
            *(
                play(
                    kind,
                    named(kind, "ExitCode", name),
                    {"true Failed": False, "restarted": True},
                    steps=(pod_status(W0, "Failed", {}, {"fetch": 1}), after(10)),
                )
                for kind, name in some(CONTAINER.items())
            ),
            *(
                play(
                    kind,
                    named(kind, "ExitCode", name),
                    {"true Failed": False, "restarted": True},
                    steps=(pod_status(W0, "Failed", {}), after(10)),
                )
                for kind, name in some(CONTAINER.items())
            ),
        ),
    ),
    Row(
        "Restarts",
        "the runtime's code 128 is tried again for ever",
        f"{_REPO} pkg/util/train/train_util.go: IsRetryableExitCode",
        (
            play(
                PYTORCH,
                named(PYTORCH, "ExitCode", "pytorch"),
                {"true Failed": False, "restarted": True},
                {"true Failed": True, "restarted": False},
                steps=(pod_status(W0, "Failed", {"pytorch": 128}, reason="StartError"), after(10)),
            ),
        ),
        "ends the job: another try would end in the same way",
        "`ExitCode`, and a command that cannot be started",
    ),
    Row(
        "Restarts",
        "The `restartPolicy` of the pod template does not count.",
        f"{_REPO} pkg/core/pod.go: SetRestartPolicy",
        (
            play(
                PYTORCH,
                {"Worker": with_pod(role(1, "Never"), restartPolicy="Always")},
                {f"pod {W0} spec.restartPolicy": "Never"},
            ),
        ),
    ),
    Row(
        "Restarts",
        "the kubelet restarts the container in its pod; with `Always` also one that has ended well, so that the job"
        " never ends",
        f"{_REPO} pkg/core/pod.go: SetRestartPolicy",
        (
            play(
                PYTORCH,
                {"Master": role(1, "OnFailure")},
                {f"pod {M} spec.restartPolicy": "OnFailure"},
                {f"pod {M} spec.restartPolicy": "Never"},
            ),
            play(
                PYTORCH,
                {"Master": role(1, "Always", **DONE)},
                {f"pod {M} spec.restartPolicy": "Always", "state": "Running"},
                {f"pod {M} spec.restartPolicy": "Never", "state": "Succeeded"},
            ),
            play(
                PYTORCH,
                {"Master": role(), "Worker": role(1, "OnFailure", **ONCE)},
                {"object pods digits-worker-0 status.containerStatuses.0.restartCount": 1},
                {"object pods digits-worker-0 status.containerStatuses.0.restartCount": 0, "restarted": True},
            ),
            play(
                PYTORCH,
                named(PYTORCH, "OnFailure", "pytorch", "sidecar"),
                {"restarted": False},
                {"restarted": True},
                steps=(pod_status(W0, "Running", {"pytorch": 1, "sidecar": None}), after(10)),
            ),
        ),
        "the pod is replaced (its `restartPolicy` is `Never`, as with `ExitCode` there), also while a sidecar runs: a"
        " restart then has a cause, is"
        " counted, leaves its log in the status, and can leave a bad node. A program that ends well is not started"
        " again",
        "`OnFailure`, `Always`",
    ),
    Row(
        "Restarts",
        "counts restarts of containers of pods that run just then, and ends the job with the n-th",
        f"{_REPO} pkg/core/job.go: PastBackoffLimit",
        (play(PYTORCH, roles("", workers=1, of_workers=ONCE), FAILED, RUNS, run={"backoffLimit": 1}),),
        "counts the program's own failures over the whole life, and ends the job with the one after the n-th, as"
        " a batch"
        " Job does; lost nodes and evictions do not count",
        "`backoffLimit`",
    ),
    Row(
        "Restarts",
        "`backoffLimit: 0` allows no restart.",
        f"{_REPO} pkg/core/job.go: PastBackoffLimit",
        (play(PYTORCH, roles("Master"), FAILED, run={"backoffLimit": 0}, pods={W0: WRONG}),),
    ),
    Row(
        "Restarts",
        "its pod stays in deletion until the node is back",
        f"{_REPO} pkg/core/status.go: UpdateJobReplicaStatuses",
        (
            play(
                PYTORCH,
                roles("", workers=1),
                {"restarted": False},
                {"restarted": True, "state": "Running"},
                steps=(
                    after(5),
                    node_fails("node-0"),
                    node_fails("node-1"),
                    lambda w: w.recover_node("node-1"),
                    after(120),
                ),
            ),
        ),
        "replaced after 30 s, with `ExitCode`, too",
        "a lost node",
    ),
    Row(
        "Restarts",
        "ends an XGBoostJob, and an MPIJob `v1`, whatever their `restartPolicy`",
        UPDATE,
        tuple(
            play(
                kind,
                whole(kind, restart="OnFailure"),
                FAILED,
                {"state": "Running", "restarted": True},
                steps=(after(5), evicted(W0), after(60)),
            )
            for kind in (XGB, MPI)
        ),
        "replaced, as in the other kinds there: the program has not failed",
        "a pod that was evicted, with `OnFailure`",
    ),
    Row(
        "Restarts",
        "none: a failed pod stays, and the condition Restarting is True for ever",
        f"{_REPO} pkg/controller.v1/mpi/mpijob_controller.go: ReconcilePods, UpdateJobStatus",
        (
            play(
                MPI,
                whole(MPI, restart="ExitCode"),
                {"restarted": False, "state": "Restarting"},
                {"restarted": True},
                pods={L: KILLED},
            ),
        ),
        "the pod is replaced, as in the other kinds there",
        "`ExitCode` of an MPIJob `v1`",
    ),
)

LIMITS = (
    Row(
        "Deadline, backoffLimit and TTL",
        "A deadline (`activeDeadlineSeconds`) ends the job and deletes all pods and services, whatever `cleanPodPolicy`"
        " says.",
        f"{_JOBS} (jobExceedsLimit), DeletePodsAndServices",
        (
            *(
                play(kind, whole(kind), {**FAILED, "pods": (), "services": ()}, run={"activeDeadlineSeconds": 20})
                for kind in some(ALL)
            ),
            play(
                PYTORCH,
                whole(PYTORCH),
                {**FAILED, "pods": (), "services": ()},
                run={"activeDeadlineSeconds": 20, "cleanPodPolicy": "Running"},
                pods={W0: DONE},
            ),
        ),
    ),
    Row(
        "Deadline, backoffLimit and TTL",
        "A used-up `backoffLimit` ends the job and deletes all pods and services, whatever `cleanPodPolicy` says.",
        f"{_JOBS} (jobExceedsLimit), DeletePodsAndServices",
        tuple(
            play(
                kind,
                whole(kind, restart="OnFailure"),
                {**FAILED, "pods": (), "services": ()},
                run={"backoffLimit": 0},
                pods={FIRST_POD.get(kind, W0): WRONG},
            )
            for kind in some(ALL)
        ),
    ),
    Row(
        "Deadline, backoffLimit and TTL",
        "`ttlSecondsAfterFinished` deletes the job so long after its end, and never while it is suspended.",
        f"{_COMMON}/job.go: CleanupJob",
        (
            *(
                play(
                    kind,
                    whole(kind, of_first=DONE),
                    {"state": "deleted", "pods": ()},
                    run={"ttlSecondsAfterFinished": 10},
                )
                for kind in some(FIRST)
            ),
            play(JAX, whole(JAX), {"state": "deleted"}, run={"ttlSecondsAfterFinished": 10}, pods={W0: WRONG}),
            play(PYTORCH, whole(PYTORCH), {"state": "Suspended"}, run={"ttlSecondsAfterFinished": 0, "suspend": True}),
        ),
    ),
    Row(
        "Deadline, backoffLimit and TTL",
        "is not set, so that `ttlSecondsAfterFinished` never deletes the job",
        f"{_PODS} (JobFailed), {_COMMON}/job.go: CleanupJob",
        (
            play(
                PYTORCH,
                whole(PYTORCH, restart="ExitCode"),
                {"time completionTime": False},
                {"time completionTime": True},
                pods={W0: WRONG},
            ),
            play(
                PYTORCH,
                whole(PYTORCH, restart="ExitCode"),
                {"state": "Failed"},
                {"state": "deleted"},
                run={"ttlSecondsAfterFinished": 10},
                pods={W0: WRONG},
            ),
        ),
        "is set, as at every other end",
        "`completionTime` of a job that `ExitCode` has ended",
    ),
)


def _cleaned(kind: str, policy: str, *, fails: bool) -> Play:
    """Master and worker 0 run, worker 1 has ended; then the job ends."""
    first, stay = FIRST_POD.get(kind, W0), {"None": 3, "Running": 2, "All": 0}[policy]
    pods = tuple(sorted((*([first] if kind in FIRST else []), W0, W1)))
    if kind == JAX:
        # Its end is a failure, or all its workers have ended well.
        left = pods if policy == "None" or not fails else (W1,)
        ends = {W1: WRONG} if fails else {W0: DONE, W1: DONE}
        return play(
            kind,
            whole(kind),
            {"state": "Failed" if fails else "Succeeded", "pods": () if policy == "All" else left},
            run={"cleanPodPolicy": policy},
            pods=ends,
        )
    left = pods if stay == 3 else tuple(sorted({first, W1})) if stay == 2 else ()
    return play(
        kind,
        whole(kind, restart="Never"),
        {"state": "Failed" if fails else "Succeeded", "pods": left, "services": left},
        run={"cleanPodPolicy": policy},
        pods={first: {"run_seconds": 20, "exit_code": 1 if fails else 0}, W1: {**DONE, "ready_seconds": 1}},
    )


CLEAN = (
    Row(
        "What is deleted at the end",
        "After success and after failure, `cleanPodPolicy: None`, the default, deletes nothing; `Running` deletes the"
        " pods that run or wait, and `All` deletes all pods. The service of a pod goes with it.",
        f"{_COMMON}/job.go: DeletePodsAndServices",
        (
            *(
                _cleaned(kind, policy, fails=fails)
                for kind, policies in {
                    **dict.fromkeys((PYTORCH, JAX), ("None", "Running", "All")),
                    **dict.fromkeys((TF, XGB, PADDLE), ("Running",)),
                }.items()
                for policy in policies
                for fails in (False, True)
            ),
            play(PYTORCH, whole(PYTORCH, of_first=DONE), {"pods": (M, W0, W1)}),
            play(
                PYTORCH,
                whole(PYTORCH, of_first=DONE, of_workers=LATE),
                {"pods": (M,)},
                run={"cleanPodPolicy": "Running"},
            ),
        ),
    ),
    Row(
        "What is deleted at the end",
        "An MPIJob keeps its launcher's pod with `Running` and loses all pods with `All`; the policy may be in the"
        " spec itself, too.",
        f"{_COMMON}/job.go: DeletePodsAndServices; pkg/apis/kubeflow.org/v1/mpi_defaults.go",
        (
            play(MPI, whole(MPI, of_first=DONE), {"pods": (L, W0, W1)}),
            play(MPI, whole(MPI, of_first=DONE), {"pods": (L,)}, run={"cleanPodPolicy": "Running"}),
            play(MPI, whole(MPI, of_first=DONE), {"pods": ()}, run={"cleanPodPolicy": "All"}),
            play(MPI, whole(MPI, of_first=DONE), {"pods": (L,)}, spec={"cleanPodPolicy": "Running"}),
        ),
    ),
)

_RUNNING_ROWS: tuple[tuple[str, Json, bool], ...] = (
    (PYTORCH, {"Master": role(), "Worker": role(2, **LATE)}, True),
    (PYTORCH, {"Master": role(**LATE), "Worker": role(2)}, False),
    (TF, {"Chief": role(), "Worker": role(**LATE), "PS": role(**LATE)}, True),
    (TF, {"Worker": role(), "PS": role(**LATE)}, True),
    (TF, {"Worker": role(**LATE), "PS": role()}, False),
    (XGB, {"Master": role(), "Worker": role(**LATE)}, True),
    (XGB, {"Master": role(**LATE), "Worker": role()}, False),
    (PADDLE, {"Master": role(), "Worker": role(**LATE)}, True),
    (PADDLE, {"Master": role(**LATE), "Worker": role()}, False),
    (JAX, {"Worker": role(2)}, True),
)
STATUS = (
    Row(
        "Status",
        "Running is True as soon as the master or chief runs, and without one as soon as one worker does.",
        UPDATE,
        (
            *(play(kind, made, {"true Running": runs}) for kind, made, runs in _RUNNING_ROWS),
            *(play(kind, roles(""), {"true Running": True}, pods={W1: LATE}) for kind in (PYTORCH, TF, PADDLE, JAX)),
        ),
    ),
    Row(
        "Status",
        "True as soon as the launcher runs, whatever its workers do",
        UPDATE,
        (
            play(
                MPI,
                whole(MPI),
                {"true Running": True, "pods": (L, W0, W1)},
                {"true Running": False, "pods": (W0, W1)},
                pods={W1: LATE},
            ),
        ),
        "when launcher and all workers run: before that nothing trains",
        "Running of an MPIJob `v1`",
    ),
    Row(
        "Status",
        "`replicaStatuses` counts pods that run as `active`, and those that have ended as `succeeded` or `failed`.",
        f"{_REPO} pkg/core/status.go: UpdateJobReplicaStatuses",
        (
            *(
                play(kind, whole(kind), {"counts": {FIRST[kind]: {"active": 1}, "Worker": {"active": 2}}})
                for kind in some(FIRST)
            ),
            play(JAX, whole(JAX), {"counts": {"Worker": {"active": 1}}}, pods={W1: LATE}),
            play(
                PADDLE,
                whole(PADDLE),
                {"counts": {"Master": {"active": 1}, "Worker": {"active": 1, "succeeded": 1}}},
                pods={W1: DONE},
            ),
            play(
                TF,
                roles("PS"),
                {"counts": {"PS": {"active": 1}, "Worker": {"active": 1, "failed": 1}}},
                pods={W1: WRONG},
            ),
        ),
    ),
    Row(
        "Status",
        "After success `replicaStatuses` counts the pods that still ran as `succeeded`, with every `cleanPodPolicy`.",
        f"{_JOBS} (IsSucceeded)",
        tuple(
            play(
                kind,
                whole(kind, of_first=DONE),
                {"counts": {FIRST[kind]: {"succeeded": 1}, "Worker": {"succeeded": 2}}},
                run={"cleanPodPolicy": policy},
            )
            for kind, policy in ((PYTORCH, "None"), (TF, "Running"), (XGB, "All"), (PADDLE, "Running"))
        ),
    ),
    Row(
        "Status",
        "The workers of an MPIJob `v1` are not counted any more after its end.",
        f"{_REPO} pkg/controller.v1/mpi/mpijob_controller.go: ReconcilePods, updateMPIJobStatus",
        tuple(
            play(
                MPI,
                whole(MPI),
                {"counts": {"Launcher": {"failed" if code else "succeeded": 1}, "Worker": {}}},
                pods={L: {"run_seconds": 5, "exit_code": code}},
            )
            for code in (0, 1)
        ),
    ),
    Row(
        "Status",
        "The conditions in their order, with their reasons: Created and Running while the job runs; Running is False"
        " beside Succeeded or Failed.",
        f"{_REPO} pkg/util/status.go: setCondition, filterOutCondition",
        (
            play(
                PYTORCH,
                whole(PYTORCH),
                {"conditions": ["Created True PyTorchJobCreated", "Running True PyTorchJobRunning"]},
            ),
            *(
                play(
                    kind,
                    whole(kind, of_first=DONE),
                    {
                        "conditions": [
                            f"Created True {name}Created",
                            f"Running False {name}Running",
                            f"Succeeded True {name}Succeeded",
                        ]
                    },
                )
                for kind, name in (
                    (PYTORCH, "PyTorchJob"),
                    (TF, "TFJob"),
                    (XGB, "XGBoostJob"),
                    (PADDLE, "PaddleJob"),
                    (MPI, "MPIJob"),
                )
            ),
            play(TF, whole(TF), {"reason Failed": "TFJobFailed", "time completionTime": True}, pods={W0: WRONG}),
        ),
    ),
    Row(
        "Status",
        "While no pod runs yet, Created is the only condition; `status.operator.message` says what the job waits for.",
        f"{_REPO} pkg/controller.v1/*/*_controller.go: onOwnerCreateFunc",
        (
            play(
                PYTORCH,
                whole(PYTORCH, of_first=LATE, of_workers=LATE),
                {"conditions": ["Created True PyTorchJobCreated"], "waits": Has("is starting on node")},
            ),
            play(PYTORCH, whole(PYTORCH, of_workers=LATE), {"state": "Running", "waits": Has("is starting on node")}),
        ),
    ),
    Row(
        "Status",
        "the condition Restarting is of the last failure and may stay",
        f"{_REPO} pkg/util/status.go: filterOutCondition",
        (
            play(
                PYTORCH,
                roles("Master", workers=1, of_workers={**ONCE, "start_seconds": 20}),
                {"true Restarting": False, "true Running": True},
                {"true Restarting": True, "true Running": False},
                steps=(after(35),),
            ),
        ),
        "is True until every pod runs again",
        "a restart",
    ),
    Row(
        "Status",
        "The messages of Created, Running, Suspended and Succeeded are those of training-operator.",
        f"{UPDATE}, onOwnerCreateFunc; {_JOBS}",
        (
            play(
                PYTORCH,
                whole(PYTORCH),
                {"says Created": "PyTorchJob digits is created.", "says Running": "PyTorchJob digits is running."},
            ),
            play(PYTORCH, whole(PYTORCH), {"says Suspended": "PyTorchJob digits is suspended."}, run={"suspend": True}),
            play(TF, roles("PS"), {"says Running": "TFJob default/digits is running."}),
            play(TF, whole(TF, of_first=DONE), {"says Succeeded": "TFJob default/digits successfully completed."}),
            play(XGB, whole(XGB, of_first=DONE), {"says Succeeded": "XGBoostJob digits is successfully completed."}),
        ),
    ),
    Row(
        "Status",
        "names the role that failed",
        f"{UPDATE}; {_PODS}",
        (
            play(
                PYTORCH,
                whole(PYTORCH, restart="Never"),
                {"says Failed": "PyTorchJob digits is failed because 1 Worker replica(s) failed."},
                {"says Failed": Has("container main exited with code 1; restartPolicy is Never")},
                pods={W0: WRONG},
            ),
        ),
        "names the pod, its node, the container, its exit code and the rule",
        "the message of Failed and of Restarting",
    ),
    Row(
        "Status",
        "A message names the restart policy that the manifest has.",
        f"{_PODS} (non-retryable exit code)",
        tuple(
            play(
                kind,
                whole(kind, restart="ExitCode"),
                {"says Failed": Has("ExitCode", lacks="OnNodeFail"), "says Running": Has("", lacks="OnNodeFail")},
                pods={W0: WRONG},
            )
            for kind in (PYTORCH, TF, XGB, PADDLE, JAX)
        ),
    ),
)

SUSPENDED = (
    Row(
        "Suspend, managedBy and queues",
        "A job that is created suspended has no pods, no services and no `startTime`, and the conditions Created and"
        " Suspended.",
        f"{_JOBS} (IsJobSuspended)",
        tuple(
            play(
                kind,
                whole(kind),
                {
                    "pods": (),
                    "services": (),
                    "time startTime": False,
                    "state": "Suspended",
                    "true Created": True,
                    "true Running": False,
                },
                run={"suspend": True},
            )
            for kind in some(ALL)
        ),
    ),
    Row(
        "Suspend, managedBy and queues",
        "A job that is suspended while it runs loses its pods and services, keeps its `startTime`, counts nothing as"
        " active, and goes on when it is resumed.",
        f"{_JOBS} (IsJobSuspended)",
        (
            *(
                play(
                    kind,
                    whole(kind),
                    {"pods": (), "services": (), "time startTime": True, "state": "Suspended", "true Running": False},
                    steps=(after(5), patch({"runPolicy": {"suspend": True}}), after(40)),
                )
                for kind in some(ALL)
            ),
            *(
                play(
                    kind,
                    whole(kind),
                    {"pods": ended(kind), "state": "Running", "true Suspended": False},
                    steps=(
                        after(5),
                        patch({"runPolicy": {"suspend": True}}),
                        after(40),
                        patch({"runPolicy": {"suspend": False}}),
                        after(20),
                    ),
                )
                for kind in some(ALL)
            ),
        ),
    ),
    Row(
        "Suspend, managedBy and queues",
        "sets a new `startTime` when the job goes on",
        f"{_JOBS} (IsSuspended)",
        (
            play(
                PYTORCH,
                whole(PYTORCH),
                {"state": "Running", "job status.startTime": "2026-01-01T00:00:45Z"},
                {"state": "Running", "job status.startTime": "2026-01-01T00:00:00Z"},
                run={"activeDeadlineSeconds": 60},
                steps=(
                    after(5),
                    patch({"runPolicy": {"suspend": True}}),
                    after(40),
                    patch({"runPolicy": {"suspend": False}}),
                    after(30),
                ),
            ),
        ),
        "`startTime` stays; deadlines do not count the time in between",
        "`suspend`",
    ),
    Row(
        "Suspend, managedBy and queues",
        "A job with `managedBy: kueue.x-k8s.io/multikueue` is left alone: it gets no pods and no status.",
        f"{_COMMON}/job.go: ManagedByExternalController",
        tuple(
            play(kind, whole(kind), {"pods": (), "conditions": []}, run={"managedBy": "kueue.x-k8s.io/multikueue"})
            for kind in some(ALL)
        ),
    ),
    Row(
        "Suspend, managedBy and queues",
        "Any other `managedBy` is refused when the job is created.",
        f"{_REPO} pkg/webhooks/*/*_webhook.go: validateRunPolicy",
        tuple(
            play(kind, whole(kind), {"refused": Has("managedBy")}, run={"managedBy": "kueue.x-k8s.io/other-controller"})
            for kind in some(ALL)
        ),
    ),
    Row(
        "Suspend, managedBy and queues",
        "`schedulingPolicy.queue` cannot be changed.",
        f"{_REPO} manifests/base/crds: x-kubernetes-validations",
        tuple(
            play(
                kind,
                whole(kind),
                {"refused": Has("queue is immutable")},
                run={"schedulingPolicy": {"queue": "a"}},
                steps=(patch({"runPolicy": {"schedulingPolicy": {"queue": "b"}}}),),
            )
            for kind in some(ALL)
        ),
    ),
    Row(
        "Suspend, managedBy and queues",
        "`minAvailable` above the number of pods is no error: without a gang scheduler it does nothing, with one the"
        " pods wait until it is changed.",
        f"{_JOBS} (EnableGangScheduling)",
        (
            *(play(kind, whole(kind), RUNS, run={"schedulingPolicy": {"minAvailable": 10}}) for kind in some(ALL)),
            play(
                PYTORCH,
                whole(PYTORCH),
                {"true Failed": False, "true Running": False, "state": "Created"},
                run={"schedulingPolicy": {"minAvailable": 10}},
                gang="scheduler-plugins",
            ),
            play(
                PYTORCH,
                whole(PYTORCH),
                {"true Failed": False, "state": "Running"},
                run={"schedulingPolicy": {"minAvailable": 10}},
                gang="scheduler-plugins",
                steps=(after(20), patch({"runPolicy": {"schedulingPolicy": {"minAvailable": 3}}}), after(40)),
            ),
            play(
                PYTORCH,
                whole(PYTORCH),
                {"state": "Succeeded", "pods": (M, W0)},
                run={"schedulingPolicy": {"minAvailable": 3}},
                pods={M: {"run_seconds": 30, "exit_code": 0}},
                steps=(after(5), patch({"pytorchReplicaSpecs": {"Worker": {"replicas": 1}}}), after(60)),
            ),
        ),
    ),
    Row(
        "Suspend, managedBy and queues",
        "makes a PodGroup, where gang scheduling is on",
        _JOBS,
        (
            play(
                PYTORCH,
                whole(PYTORCH),
                {"says Created": Has("is created", lacks="schedulingPolicy")},
                {"says Created": Has("schedulingPolicy.queue")},
                run={"schedulingPolicy": {"queue": "q"}},
            ),
            play(
                PYTORCH,
                whole(PYTORCH),
                {f"pod {M} spec.priorityClassName": None},
                {f"pod {M} spec.priorityClassName": "urgent"},
                run={"schedulingPolicy": {"priorityClass": "urgent"}},
                gang="scheduler-plugins",
                steps=(with_priority_class("urgent"), after(60)),
            ),
        ),
        "[the same](gang.md), and pods whose template names no priority class get `priorityClass`; where it is off,"
        " named in the condition Created",
        "`schedulingPolicy`",
    ),
)

_BOUNDS = {"elasticPolicy": {"minReplicas": 1, "maxReplicas": 3}}
_RDZV = {"PET_RDZV_BACKEND": "c10d", "PET_NNODES": "1:3", "PET_RDZV_ENDPOINT": f"{W0}:23456"}


def _env_of(pod: str, env: Json) -> Json:
    return {f"env {pod} {name}": value for name, value in env.items()}


ELASTIC = (
    Row(
        "Elastic jobs",
        "A job that is scaled out of its elastic bounds goes on: it ends, is suspended and meets its deadline.",
        f"{_REPO} pkg/webhooks/pytorch/pytorchjob_webhook.go: validateSpec judges no replicas",
        tuple(
            play(
                PYTORCH,
                roles("Master", workers=2),
                theirs,
                spec=_BOUNDS,
                run=run,
                pods=pods,
                steps=(after(5), tried(scaled(4)), *steps, after(60)),
            )
            for theirs, run, pods, steps in (
                (SUCCEEDED, {}, {M: {"run_seconds": 30, "exit_code": 0}}, ()),
                ({"state": "Suspended", "pods": ()}, {}, {}, (patch({"runPolicy": {"suspend": True}}),)),
                ({"state": "Failed", "pods": ()}, {"activeDeadlineSeconds": 30}, {}, ()),
            )
        ),
    ),
    Row(
        "Elastic jobs",
        "Workers without `replicas` are one, also below `minReplicas`.",
        f"{_REPO} pkg/apis/kubeflow.org/v1/pytorch_defaults.go: setElasticPolicy",
        (
            play(
                PYTORCH,
                {"Worker": role(None)},
                {"true Failed": False, "true Running": True},
                spec={"elasticPolicy": {"minReplicas": 2, "maxReplicas": 4}},
            ),
        ),
    ),
    Row(
        "Elastic jobs",
        "`PET_RDZV_BACKEND` is `c10d` unless the policy names another, `PET_RDZV_ENDPOINT` is worker 0,"
        " `PET_NNODES` the"
        " bounds; a Master gets the variables of a static job as well (`MASTER_ADDR`, `RANK`, `WORLD_SIZE` ...).",
        f"{_REPO} pkg/controller.v1/pytorch/elastic.go: Generate; envvar.go: setPodEnv",
        (
            play(PYTORCH, roles(""), _env_of(W1, _RDZV), spec=_BOUNDS),
            play(
                PYTORCH,
                roles(""),
                _env_of(W1, {**_RDZV, "PET_NNODES": "2:2"}),
                spec={"elasticPolicy": {"minReplicas": 2, "maxReplicas": 2}},
            ),
            play(
                PYTORCH,
                roles("Master", workers=2),
                _env_of(W1, {"MASTER_ADDR": M, "MASTER_PORT": "23456", "RANK": "2", "WORLD_SIZE": "3"})
                | _env_of(W1, {"PET_NODE_RANK": "2", "PET_NNODES": "1:3"}),
                spec=_BOUNDS,
            ),
        ),
    ),
    Row(
        "Elastic jobs",
        "host `<job>-worker-0`, port of its container",
        f"{_REPO} pkg/controller.v1/pytorch/elastic.go: Generate",
        (
            play(
                PYTORCH,
                roles(""),
                _env_of(W0, {"PET_RDZV_ENDPOINT": f"{W0}:23456", "PET_RDZV_CONF": None}),
                _env_of(W0, {"PET_RDZV_ENDPOINT": f"{W0}:23456", "PET_RDZV_CONF": "is_host=true"}),
                spec=_BOUNDS,
            ),
        ),
        "the same, with a rendezvous of its own for each job and, without `rdzvHost`, `is_host` for worker 0",
        "`PET_RDZV_*`",
    ),
    Row(
        "Elastic jobs",
        "not set: torchrun's default 0 ends the job with the first pod that comes or goes",
        f"{_REPO} pkg/controller.v1/pytorch/elastic.go: Generate",
        (
            play(
                PYTORCH,
                roles(""),
                _env_of(W0, {"PET_MAX_RESTARTS": None}),
                _env_of(W0, {"PET_MAX_RESTARTS": "100"}),
                spec=_BOUNDS,
            ),
        ),
        "100",
        "`PET_MAX_RESTARTS` without `maxRestarts`",
    ),
    Row(
        "Elastic jobs",
        "the number of replicas when the pod was made",
        f"{_REPO} pkg/controller.v1/paddlepaddle/envvar.go: setPodEnv",
        (
            play(
                PADDLE,
                roles(""),
                _env_of(W0, {"PADDLE_NNODES": "2"}),
                _env_of(W0, {"PADDLE_NNODES": "1:3"}),
                spec=_BOUNDS,
            ),
        ),
        "`min:max`, from which Paddle's launcher learns that the number changes",
        "`PADDLE_NNODES` of an elastic PaddleJob",
    ),
    Row(
        "Elastic jobs",
        "all workers of an elastic PaddleJob must succeed",
        UPDATE,
        (
            play(
                PADDLE,
                {"Worker": with_requests(role(2, run_seconds=20, exit_code=0), cpu="5")},
                {"state": "Running"},
                {"state": "Succeeded"},
                spec=_BOUNDS,
                nodes=1,
            ),
        ),
        "those beyond `minReplicas` that never started are not waited for, once every worker that ran has succeeded",
        "elastic workers that never found room",
    ),
    Row(
        "Elastic jobs",
        "makes a HorizontalPodAutoscaler",
        f"{_REPO} pkg/controller.v1/pytorch/hpa.go: ReconcileHPA",
        (
            play(
                PYTORCH,
                roles(""),
                {
                    "says Created": Has("is created", lacks="metrics"),
                    "exists horizontalpodautoscalers.autoscaling digits": True,
                },
                {
                    "says Created": Has("elasticPolicy.metrics"),
                    "exists horizontalpodautoscalers.autoscaling digits": False,
                },
                spec={"elasticPolicy": {**_BOUNDS["elasticPolicy"], "metrics": [{"type": "Resource"}]}},
            ),
        ),
        "named in the condition Created: make one for the job's scale subresource, or use the annotation above",
        "`elasticPolicy.metrics`",
    ),
)

_PS_CLUSTER = {"ps": [f"{P}.default.svc:2222"], "worker": [f"{W0}.default.svc:2222", f"{W1}.default.svc:2222"]}
_TASK = {"task": {"type": "worker", "index": 1}, "environment": "cloud"}
_LABELS = "metadata.labels.[training.kubeflow.org/{}]"
ENVIRONMENT = (
    Row(
        "Pods and their environment",
        "Pods and services are named `<job>-<type>-<index>` and have the labels `training.kubeflow.org/*`; the"
        " columns and"
        " the scale subresource of the workers are the same.",
        f"{_COMMON}/pod.go: createNewPod; {_REPO} pkg/apis/kubeflow.org/v1/*_types.go: kubebuilder marks",
        (
            play(
                PYTORCH,
                whole(PYTORCH),
                {
                    "pods": (M, W0, W1),
                    "services": (M, W0, W1),
                    f"pod {W1} {_LABELS.format('job-name')}": "digits",
                    f"pod {W1} {_LABELS.format('operator-name')}": "pytorchjob-controller",
                    f"pod {W1} {_LABELS.format('replica-type')}": "worker",
                    f"pod {W1} {_LABELS.format('replica-index')}": "1",
                    f"pod {W1} {_LABELS.format('job-role')}": None,
                    f"pod {M} {_LABELS.format('job-role')}": "master",
                    "column State": ".status.conditions[-1:].type",
                    "scale": {"spec": 2, "status": 2},
                },
            ),
        ),
    ),
    Row(
        "Pods and their environment",
        "A program finds the same variables: `MASTER_ADDR`, `MASTER_PORT`, `RANK`, `WORLD_SIZE` and their like;"
        " a JAXJob"
        " `COORDINATOR_ADDRESS`, `NUM_PROCESSES` and `PROCESS_ID`; a PaddleJob `PADDLE_*`"
        " ([jobs.md](jobs.md#what-your-program-gets)).",
        f"{_REPO} pkg/controller.v1/*/envvar.go: setPodEnv",
        (
            play(
                PYTORCH,
                whole(PYTORCH),
                _env_of(
                    W1,
                    {"MASTER_ADDR": M, "MASTER_PORT": "23456", "RANK": "2", "WORLD_SIZE": "3", "PET_NNODES": "3"}
                    | {"PET_NODE_RANK": "2", "PYTHONUNBUFFERED": "1"},
                ),
            ),
        ),
    ),
    Row(
        "Pods and their environment",
        "A variable that the template sets keeps its value, where the operator itself sets none of that name.",
        f"{_REPO} pkg/controller.v1/*/: SetClusterSpec",
        (
            play(
                PYTORCH,
                with_env(whole(PYTORCH), WORKER_HOSTS="mine:1", WORKER_INSTANCES="8", MASTER_PORTS="1"),
                _env_of(W0, {"WORKER_HOSTS": "mine:1", "WORKER_INSTANCES": "8", "MASTER_PORTS": "1"}),
            ),
            play(TF, with_env(roles("PS"), PS_HOSTS="mine:1"), _env_of(W0, {"PS_HOSTS": "mine:1"})),
        ),
    ),
    Row(
        "Pods and their environment",
        "the operator's value",
        f"{_REPO} pkg/controller.v1/pytorch/envvar.go: setPodEnv appends its own",
        (
            play(
                PYTORCH,
                with_env(whole(PYTORCH), MASTER_ADDR="mine"),
                {f"env {W0} MASTER_ADDR": M},
                {f"env {W0} MASTER_ADDR": "mine"},
            ),
        ),
        "the template's: it is intended there",
        "a variable of the operator's that the template sets, too",
    ),
    Row(
        "Pods and their environment",
        "`TF_CONFIG` of a TFJob with more than one pod; none of a TFJob with one.",
        f"{_REPO} pkg/controller.v1/tensorflow/tfjob_controller.go: SetClusterSpec",
        (
            play(TF, roles("PS"), {f"env {W1} TF_CONFIG": {"cluster": _PS_CLUSTER, **_TASK}}),
            play(TF, roles("", workers=1), {f"env {W0} TF_CONFIG": None}),
        ),
    ),
    Row(
        "Pods and their environment",
        "has it in the cluster",
        f"{_REPO} pkg/controller.v1/tensorflow/tensorflow.go: genClusterSpec",
        (
            play(
                TF,
                {"Worker": role(2), "PS": role(), "Evaluator": role()},
                {f"env {W1} TF_CONFIG": {"cluster": {**_PS_CLUSTER, "evaluator": [f"{E0}.default.svc:2222"]}, **_TASK}},
                {f"env {W1} TF_CONFIG": {"cluster": _PS_CLUSTER, **_TASK}},
            ),
        ),
        "has it not: TensorFlow's evaluator is none of the training cluster",
        "`TF_CONFIG` of a TFJob with an evaluator",
    ),
    Row(
        "Pods and their environment",
        "`sparseCluster`, which TensorFlow does not read",
        f"{_REPO} pkg/controller.v1/tensorflow/tensorflow.go: genTFConfigJSONStr",
        (
            play(
                TF,
                roles("PS"),
                {
                    f"env {W1} TF_CONFIG": {
                        "sparseCluster": (
                            sparse := {"ps": [f"{P}.default.svc:2222"], "worker": {"1": f"{W1}.default.svc:2222"}}
                        ),
                        "task": _TASK["task"],
                    }
                },
                {f"env {W1} TF_CONFIG": {"cluster": sparse, "sparseCluster": sparse, "task": _TASK["task"]}},
                spec={"enableDynamicWorker": True},
            ),
        ),
        "that, and the same as `cluster`",
        "`TF_CONFIG` of `enableDynamicWorker`",
    ),
    Row(
        "Pods and their environment",
        "`PADDLE_MASTER` of the first pod of a PaddleJob is its own address, `$(POD_IP_DUMMY):<port>`.",
        f"{_REPO} pkg/controller.v1/paddlepaddle/envvar.go: setPodEnv",
        (
            play(PADDLE, roles(""), {f"env {W0} PADDLE_MASTER": "$(POD_IP_DUMMY):36543"}),
            play(PADDLE, whole(PADDLE), {f"env {M} PADDLE_MASTER": "$(POD_IP_DUMMY):36543"}),
        ),
    ),
    Row(
        "Pods and their environment",
        "Labels and annotations of the job are not copied to its pods.",
        f"{_COMMON}/pod.go: createNewPod",
        (
            play(
                PYTORCH,
                whole(PYTORCH),
                {f"pod {W0} metadata.labels.team": None, f"pod {W0} metadata.annotations.note": None},
                meta={"labels": {"team": "vision"}, "annotations": {"note": "a"}},
            ),
        ),
    ),
    Row(
        "Pods and their environment",
        "none",
        f"{_REPO} pkg/controller.v1/*/: SetClusterSpec",
        (
            play(
                PYTORCH,
                whole(PYTORCH),
                {f"env {W0} TRAININGJOB_NAME": None, f"env {W0} WORKER_INSTANCES_NUM": None},
                {f"env {W0} TRAININGJOB_NAME": "digits", f"env {W0} WORKER_INSTANCES_NUM": "2"},
            ),
        ),
        "those of [all jobs](jobs.md#what-your-program-gets), too: `TRAININGJOB_*`, `<ROLE>_HOSTS` and their like",
        "other variables",
    ),
    Row(
        "Pods and their environment",
        "an init container waits for the master's name",
        f"{_REPO} pkg/controller.v1/pytorch/initcontainer.go: setInitContainer",
        (
            play(
                PYTORCH,
                whole(PYTORCH),
                {f"pod {W0} spec.initContainers.0.name": "init-pytorch"},
                {f"pod {W0} spec.initContainers": None},
            ),
        ),
        "none: the name resolves before the master is ready, and `torch.distributed` tries again",
        "workers of a PyTorchJob",
    ),
    Row(
        "Pods and their environment",
        "a webhook refuses it",
        f"{_REPO} pkg/webhooks/pytorch/pytorchjob_webhook.go: validateSpec",
        (
            play(
                PYTORCH,
                whole(PYTORCH),
                {"refused": Has("pytorch")},
                {f"pod {M} spec.containers.0.ports.0.name": "pytorchjob-port", "state": "Running"},
            ),
        ),
        "the first container has the port",
        "no container named `pytorch`, `tensorflow`",
    ),
    Row(
        "Pods and their environment",
        "all masters of a PaddleJob; none without them",
        f"{_REPO} pkg/controller.v1/paddlepaddle/paddlepaddle_controller.go: IsMasterRole",
        (
            play(
                PADDLE,
                {"Master": role(2), "Worker": role(1)},
                {f"pod digits-master-1 {_LABELS.format('job-role')}": "master"},
                {
                    f"pod digits-master-1 {_LABELS.format('job-role')}": None,
                    f"pod {M} {_LABELS.format('job-role')}": "master",
                },
            ),
            play(
                PADDLE,
                roles(""),
                {f"pod {W0} {_LABELS.format('job-role')}": None},
                {f"pod {W0} {_LABELS.format('job-role')}": "master"},
            ),
        ),
        "replica 0 of the masters, else of the workers",
        "the label `job-role: master`",
    ),
    Row(
        "Pods and their environment",
        "select pods by the job's name, and name those that are ready",
        f"{_COMMON}/service.go: CreateNewService",
        (
            play(
                PYTORCH,
                whole(PYTORCH),
                {f"object services {M} spec.publishNotReadyAddresses": None},
                {f"object services {M} spec.publishNotReadyAddresses": True},
            ),
            play(
                PYTORCH,
                whole(PYTORCH),
                {f"object services {M} spec.selector.[training.kubeflow.org/job-name]": "digits"},
                {f"object services {M} spec.selector.[training.kubeflow.org/job-name]": None},
            ),
        ),
        "select them by the job's UID, so that a job made again under its name finds its own pods, and name those that"
        " start, too: processes look for each other before they are ready",
        "services",
    ),
)

GPU_LAUNCHER = role()
GPU_LAUNCHER["template"]["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
AGENT = (
    Row(
        "MPIJob v1",
        "an init container, service account, Role and RoleBinding",
        f"{_REPO} pkg/controller.v1/mpi/mpijob_controller.go: newLauncher",
        (
            play(
                MPI,
                whole(MPI),
                {
                    f"pod {L} spec.initContainers.0.name": "kubectl-delivery",
                    f"pod {L} spec.serviceAccountName": "digits-launcher",
                },
                {f"pod {L} spec.initContainers": None, f"pod {L} spec.serviceAccountName": None},
            ),
        ),
        "none: the agent needs no rights",
        "`kubectl` in the launcher of v1",
    ),
    Row(
        "MPIJob v1",
        "its host is `<job>-launcher`",
        f"{_REPO} pkg/controller.v1/mpi/mpijob_controller.go: newConfigMap",
        (
            play(
                MPI,
                {"Launcher": GPU_LAUNCHER, "Worker": role(1)},
                {f"file {L} hostfile": "digits-launcher slots=1\ndigits-worker-0 slots=1\n"},
                {f"file {L} hostfile": "digits-launcher-0 slots=1\ndigits-worker-0 slots=1\n"},
                nodes=[NodeConfig("node-0", gpus=1)],
            ),
        ),
        "`<job>-launcher-0`, as its pod",
        "a launcher of v1 with GPUs",
    ),
    Row(
        "MPIJob v1",
        "the launcher runs alone",
        f"{_REPO} pkg/controller.v1/mpi/mpijob_controller.go: ReconcilePods",
        (
            play(MPI, {"Launcher": role()}, RUNS, {"says Failed": Has("spec.mpiReplicaSpecs.Worker: required value")}),
            play(
                MPI,
                {"Launcher": role(), "Worker": role(None)},
                RUNS,
                {"says Failed": Has("Worker.replicas: 0: must be at least 1")},
            ),
        ),
        "refused; in v2beta1 `runLauncherAsWorker: true` without workers is taken",
        "workers without `replicas`, or with 0, in v1",
    ),
    Row(
        "MPIJob v1",
        "a pod `<job>-launcher`",
        f"{_REPO} pkg/controller.v1/mpi/mpijob_controller.go: newLauncher",
        (play(MPI, whole(MPI), {"pods": ("digits-launcher", W0, W1)}, {"pods": (L, W0, W1)}),),
        "`<job>-launcher-0`, as all pods are named",
        "the launcher of v1",
    ),
    Row(
        "MPIJob v1",
        "a ConfigMap with hostfile, `discover_hosts.sh` and `kubexec.sh`; all ConfigMaps of the cluster can be read",
        f"{_REPO} pkg/controller.v1/mpi/mpijob_controller.go: newConfigMap",
        (
            play(
                MPI,
                whole(MPI),
                {"exists configmaps digits-config": True},
                {
                    "exists configmaps digits-config": False,
                    f"file {L} hostfile": f"{W0} slots=1\n{W1} slots=1\n",
                    f"file {L} discover_hosts.sh": f"#!/bin/sh\necho {W0}:1\necho {W1}:1\n",
                },
            ),
        ),
        "the same files in `/etc/mpi`, as annotations of the pod; `discover_hosts.sh` names all workers, as they"
        " were when"
        " the launcher was made",
        "`<job>-config`",
    ),
    Row(
        "MPIJob v1",
        "none",
        f"{_REPO} pkg/controller.v1/mpi/mpijob_controller.go: ReconcileServices",
        (play(MPI, whole(MPI), {"services": ()}, {"services": (L, W0, W1)}),),
        "each pod's: the agent is found by the pod's name",
        "services of v1",
    ),
    Row(
        "MPIJob v1",
        "as soon as its workers are made",
        f"{_REPO} pkg/controller.v1/mpi/mpijob_controller.go: ReconcilePods",
        (
            play(
                MPI,
                whole(MPI, of_workers={"ready_seconds": 100}),
                {"pods": (L, W0, W1)},
                {"pods": (W0, W1), "waits": Has("is made when the role Worker is ready: 0 of 2 are")},
            ),
        ),
        "when all workers are ready: `mpirun` would fail and use up `backoffLimit`",
        "the launcher's start in v1",
    ),
    Row(
        "MPIJob v1",
        "A worker that ends with 0 before its launcher is made does not keep the launcher from its start.",
        f"{_REPO} pkg/controller.v1/mpi/mpijob_controller.go: ReconcilePods",
        (
            play(
                MPI,
                whole(MPI),
                {"pods": (L, W0, W1), "state": "Succeeded"},
                pods={W1: {"ready_seconds": 20, **DONE}, W0: {"ready_seconds": 15}, L: DONE},
            ),
        ),
    ),
    Row(
        "MPIJob v1",
        "Open MPI and Intel MPI start their processes by `/etc/mpi/kubexec.sh`; values of the template win.",
        f"{_REPO} pkg/controller.v1/mpi/mpijob_controller.go: newLauncher",
        (
            play(
                MPI,
                whole(MPI),
                _env_of(
                    L,
                    {
                        "OMPI_MCA_plm_rsh_agent": "/etc/mpi/kubexec.sh",
                        "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile",
                        "I_MPI_HYDRA_BOOTSTRAP": "rsh",
                        "I_MPI_HYDRA_BOOTSTRAP_EXEC": "/etc/mpi/kubexec.sh",
                    },
                ),
            ),
            play(
                MPI,
                with_env(whole(MPI), I_MPI_HYDRA_BOOTSTRAP="RSH"),
                _env_of(L, {"I_MPI_HYDRA_BOOTSTRAP": "RSH", "I_MPI_HYDRA_BOOTSTRAP_EXEC": "/etc/mpi/kubexec.sh"}),
            ),
        ),
    ),
)

ROWS = (*ENDS, *NAMES, *RESTARTS, *LIMITS, *CLEAN, *STATUS, *SUSPENDED, *ELASTIC, *ENVIRONMENT, *AGENT)
