"""When the condition Running of another operator's kind is True: as `UpdateJobStatus` of its operator says, which is
before every pod runs. Kueue's PodsReady, `wait_for_job_conditions` of Kubeflow's SDK and the column State read it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from tests.scenarios.test_kubeflow import conditions, role, state
from tests.scenarios.world import World
from tests.support.guests import KIND_OF
from tjworker.api.kinds.base import MEMORY
from tjworker.api.resources import EVENTS
from tjworker.base import GroupResource

Json = dict[str, Any]
LATE: Json = {"start_seconds": 600}


@dataclass(frozen=True)
class Moment:
    """A job some of whose pods take ten minutes to start."""

    kind: str
    roles: dict[str, Json]
    want: bool
    """It runs."""
    says: str
    """Of its own operator."""
    version: str = ""


TO, KUBEDL, MPI_OPERATOR = "training-operator 1.9", "KubeDL 0.5", "mpi-operator 0.6"
MOMENTS: dict[str, Moment] = {
    "PyTorchJob: the master runs, no worker yet": Moment(
        "pytorchjobs.kubeflow.org",
        {"Master": role(), "Worker": role(2, **LATE)},
        True,
        TO + " pytorchjob_controller.go: `if rtype == Master { if running > 0`",
    ),
    "PyTorchJob: a worker runs, the master not yet": Moment(
        "pytorchjobs.kubeflow.org",
        {"Master": role(**LATE), "Worker": role(2)},
        False,
        TO + " pytorchjob_controller.go: with a master the workers do not count",
    ),
    "TFJob: the chief runs": Moment(
        "tfjobs.kubeflow.org",
        {"Chief": role(), "Worker": role(**LATE), "PS": role(**LATE)},
        True,
        TO + " tfjob_controller.go: `if IsChieforMaster(rtype) { if running > 0`",
    ),
    "TFJob: without a chief a worker runs": Moment(
        "tfjobs.kubeflow.org",
        {"Worker": role(), "PS": role(**LATE)},
        True,
        TO + " tfjob_controller.go: `rtype == Worker ... else if running > 0`",
    ),
    "TFJob: only parameter servers run": Moment(
        "tfjobs.kubeflow.org",
        {"Worker": role(**LATE), "PS": role()},
        False,
        TO + " tfjob_controller.go: no branch for PS",
    ),
    "XGBoostJob: the master runs": Moment(
        "xgboostjobs.kubeflow.org",
        {"Master": role(), "Worker": role(**LATE)},
        True,
        TO + " xgboostjob_controller.go: `if rtype == Master { if running > 0`",
    ),
    "PaddleJob: a master runs": Moment(
        "paddlejobs.kubeflow.org",
        {"Master": role(), "Worker": role(**LATE)},
        True,
        TO + " paddlepaddle_controller.go: `if rtype == Master { if running > 0`",
    ),
    "PaddleJob: only workers run beside masters": Moment(
        "paddlejobs.kubeflow.org",
        {"Master": role(**LATE), "Worker": role()},
        False,
        TO + " paddlepaddle_controller.go: with masters the workers do not count",
    ),
    "MPIJob v1: a worker is missing": Moment(
        "mpijobs.kubeflow.org",
        {"Launcher": role(), "Worker": role(2, **LATE)},
        False,
        TO + " mpijob_controller.go: launcher and `running == len(worker)`",
        "v1",
    ),
    "MPIJob v2beta1: a worker is missing": Moment(
        "mpijobs.kubeflow.org",
        {"Launcher": role(), "Worker": role(2, **LATE)},
        False,
        MPI_OPERATOR + " updateMPIJobStatus: `launcherPodsCnt >= 1 && running == len(worker)`",
    ),
    "TFJob of KubeDL: the chief runs": Moment(
        "tfjobs.training.kubedl.io",
        {"Chief": role(), "Worker": role(**LATE)},
        True,
        KUBEDL + " tensorflow/status.go: `if IsTFJobChieforMaster(rtype) { if running > 0`",
    ),
    "PyTorchJob of KubeDL: the master runs": Moment(
        "pytorchjobs.training.kubedl.io",
        {"Master": role(), "Worker": role(2, **LATE)},
        True,
        KUBEDL + " pytorch/status.go: `if rtype == Master { if running > 0`",
    ),
    "XGBoostJob of KubeDL: the master runs": Moment(
        "xgboostjobs.training.kubedl.io",
        {"Master": role(), "Worker": role(**LATE)},
        True,
        KUBEDL + " xgboost/job.go: `if rtype == Master { if running > 0`",
    ),
    "XDLJob: any role runs": Moment(
        "xdljobs.training.kubedl.io",
        {"PS": role(), "Worker": role(**LATE)},
        True,
        KUBEDL + " xdl/status.go: Running whatever runs",
    ),
    "MarsJob: a worker runs": Moment(
        "marsjobs.training.kubedl.io",
        {"Scheduler": role(**LATE), "Worker": role()},
        True,
        KUBEDL + " mars/status.go: `if runningWorkers > 0`",
    ),
    "MarsJob: only the scheduler runs": Moment(
        "marsjobs.training.kubedl.io",
        {"Scheduler": role(), "Worker": role(**LATE)},
        False,
        KUBEDL + " mars/status.go: `if runningWorkers > 0`",
    ),
    "MPIJob of KubeDL: a worker is missing": Moment(
        "mpijobs.training.kubedl.io",
        {"Launcher": role(), "Worker": role(2, **LATE)},
        False,
        KUBEDL + " mpi/job.go: `launcherStatus.Active > 0 && workerStatus.Active == workerReplicas`",
    ),
}


def made(kind: str, roles: dict[str, Json], version: str = "", **spec: Any) -> Json:
    of = KIND_OF[GroupResource(kind)]
    return {
        "apiVersion": f"{of.group}/{version}" if version else of.api_versions[0],
        "kind": of.kind,
        "metadata": {"name": "digits"},
        "spec": {of.roles_field: roles, **spec},
    }


@pytest.mark.parametrize("sentence", MOMENTS)
def test_running_is_what_its_operator_says(sentence: str) -> None:
    moment = MOMENTS[sentence]
    w = World(kinds=moment.kind).apply(made(moment.kind, moment.roles, moment.version)).run().advance(30)
    assert (state(w) == "Running") is moment.want, f"{moment.says}: {conditions(w)}"
    assert conditions(w).get("Running", "")[:4] == ("True" if moment.want else ""), moment.says
    told = w.status()[MEMORY]["message"]
    assert "is starting on node" in told or "is made when" in told, "what the others wait for is told all the same"
    assert w.status()[MEMORY]["phase"] in ("Creating", "Pending")


ELASTIC: Json = {"minReplicas": 1, "maxReplicas": 4}


def test_an_elastic_job_runs_while_one_of_its_workers_finds_no_node_and_while_it_is_scaled() -> None:
    kind, worker = "pytorchjobs.kubeflow.org", role(2)
    resources = {"requests": {"cpu": "5"}}
    worker["template"]["spec"]["containers"][0]["resources"] = resources
    w = World(kinds=kind, nodes=2).apply(made(kind, {"Worker": worker}, elasticPolicy=ELASTIC)).run()
    w.until("it runs", lambda: state(w) == "Running")
    since = next(c for c in w.status()["conditions"] if c["type"] == "Running")["lastTransitionTime"]
    w.scale("digits", 4)
    for _ in range(30):
        w.run().advance(1)
        assert conditions(w)["Running"] == "True PyTorchJobRunning"
    waits = w.status()[MEMORY]
    assert (waits["phase"], "has no node" in waits["message"]) == ("Scaling", True)
    told = [e["reason"] for e in w.get(EVENTS)["items"] if e["involvedObject"]["kind"] == "PyTorchJob"]
    assert sorted(told) == ["Running", "Scaling", "Unschedulable"]
    after = next(c for c in w.status()["conditions"] if c["type"] == "Running")
    assert after["lastTransitionTime"] == since


def test_an_mpijob_runs_on_while_a_worker_is_added() -> None:
    """mpi-operator sets the condition when launcher and all workers run, and takes it back at the end alone."""
    kind = "mpijobs.kubeflow.org"
    w = World(kinds=kind).apply(made(kind, {"Launcher": role(), "Worker": role(1)})).run()
    w.until("it runs", lambda: state(w) == "Running")
    added = role(2, **LATE)
    w.patch_job("digits", {"spec": {"mpiReplicaSpecs": {"Worker": added}}}).run().advance(30)
    assert (state(w), w.status()[MEMORY]["phase"]) == ("Running", "Scaling")


def test_what_a_worker_waited_for_stands_beside_the_jobs_end() -> None:
    kind, worker = "pytorchjobs.kubeflow.org", role(1)
    worker["template"]["spec"]["nodeSelector"] = {"disk": "none"}
    run = {"activeDeadlineSeconds": 20}
    w = World(kinds=kind).apply(made(kind, {"Master": role(), "Worker": worker}, runPolicy=run)).run().advance(5)
    assert state(w) == "Running"
    w.advance(60)
    running = next(c for c in w.status()["conditions"] if c["type"] == "Running")
    assert (state(w), running["status"]) == ("Failed", "False")
    assert "before that Unschedulable: pod digits-worker-0" in running["message"]
