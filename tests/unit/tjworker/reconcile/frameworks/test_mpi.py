"""MPI: the launcher is made when its workers are ready, and finds them in hostfiles."""

from __future__ import annotations

from typing import Any

from tests.support.builders import make_job
from tests.unit.tjworker.reconcile.passes import World, condition
from tjworker.api.model import TrainingJob
from tjworker.reconcile.workloads.podbody import pod_body


def mpi(workers: int = 2, **worker: Any) -> TrainingJob:
    launcher = make_job().spec(frameworkType="mpi").role("launcher", ports=())
    return launcher.role("worker", workers, ports=(), **worker).build()


def launcher_of(job: TrainingJob) -> dict[str, Any]:
    return pod_body(job, job.role("launcher"), 0, 0, {})


def test_the_launcher_is_made_when_every_worker_is_ready_and_not_before() -> None:
    world = World(mpi()).settle()
    assert sorted(world.pods) == ["digits-worker-0", "digits-worker-1"]
    world.set("digits-worker-0", "running").set("digits-worker-1", "running", ready=False).settle()
    assert "digits-launcher-0" not in world.pods
    waiting = "pod digits-launcher-0 is made when the role worker is ready: 1 of 2 are"
    assert condition(world.job.status, "Running") == ("False", "Pending", waiting)
    world.set("digits-worker-1", "running").settle()
    assert "digits-launcher-0" in world.pods
    assert world.all("running").settle().job.status.phase == "Running"


def test_a_launcher_that_runs_stays_when_a_worker_is_no_longer_ready() -> None:
    world = World(mpi()).settle().all("running").settle().all("running").settle()
    world.set("digits-worker-1", "running", ready=False).settle()
    assert (world.deleted, world.job.status.phase) == ([], "Running")


def test_workers_have_no_hostfile_and_a_mount_of_the_users_stays() -> None:
    assert "volumes" not in pod_body(mpi(), mpi().role("worker"), 0, 0, {})["spec"]
    mine = {"name": "mine", "mountPath": "/etc/mpi/"}
    template = {"spec": {"containers": [{"name": "mpi", "image": "i", "volumeMounts": [mine]}]}}
    job = make_job().spec(frameworkType="mpi").role("launcher", template=template).role("worker", 1).build()
    assert launcher_of(job)["spec"]["containers"][0]["volumeMounts"] == [mine]
    assert template["spec"]["containers"][0].keys() == {"name", "image", "volumeMounts"}, (
        "the user's own is not touched"
    )
