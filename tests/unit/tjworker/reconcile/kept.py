"""Jobs, owners and pods of the workloads ReplicaSet and Job, as the projection shows them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tests.builders import PodBuilder, observe
from tests.builders.job import CREATED_AT
from tests.builders.training_job import make_training_job
from tests.unit.tjworker.reconcile.passes import NOW
from tjworker.api.model import TrainingJob
from tjworker.api.observed import ContainerRecord, Observed, PodRecord, WorkloadRecord
from tjworker.api.status import JobStatus
from tjworker.api.timefmt import to_rfc3339

UID = "uid-of-digits"


def tolerant(replicas: int = 2, status: JobStatus | None = None, **fields: Any) -> TrainingJob:
    """Trainers alone, elastic."""
    made = make_training_job(
        least=replicas,
        most=replicas + 6,
        pservers=0,
        fault_tolerant=True,
        frame_work={"name": "paddle", "type": "nccl2"},
        **fields,
    )
    job = made.status(status or JobStatus()).build()
    return replace(job, roles=tuple(r for r in job.roles if r.name == "trainer"))


def plain(replicas: int = 2, pservers: int = 0, status: JobStatus | None = None, **fields: Any) -> TrainingJob:
    """Not fault tolerant; with servers where asked for."""
    kind: dict[str, Any] = {} if pservers else {"frame_work": {"name": "paddle", "type": "nccl2"}}
    return make_training_job(least=replicas, pservers=pservers, **kind, **fields).status(status or JobStatus()).build()


def owner(job: TrainingJob, role: str, **fields: Any) -> WorkloadRecord:
    name = f"{job.name.name}-{role}"
    desired = next((r.replicas for r in job.roles if r.name == role), 0)
    given = {"desired": desired, "generation": 1, "observed_generation": 1, **fields}
    return WorkloadRecord(name=name, uid=f"uid-of-{name}", rv=400, owner_uid=job.uid, **given)


def observed_of(job: TrainingJob, pods: Sequence[PodRecord], *, condition: str = "", **of_owners: Any) -> Observed:
    """With the owner of each role."""
    seen = observe(*pods)
    sets = tuple(owner(job, r.name, **of_owners) for r in job.roles if r.workload == "ReplicaSet")
    jobs = tuple(owner(job, r.name, condition=condition, **of_owners) for r in job.roles if r.workload == "Job")
    return replace(seen, replicasets=sets, jobs=jobs)


def kept_pod(
    name: str,
    number: int | None = None,
    attempt: int = 0,
    *,
    state: str = "running",
    role: str = "trainer",
    job_uid: str = UID,
    owner_uid: str = "",
) -> PodRecord:
    labels = {"replica-name": role, "elasticdeeplearning.ai/job-uid": job_uid}
    if number is not None:
        labels |= {"replica-index": str(number), "restart-attempt": str(attempt)}
    made = PodBuilder(
        PodRecord(
            name=name,
            uid=f"uid-of-{name}",
            rv=200,
            owner_uid=owner_uid or f"uid-of-digits-{role}",
            labels=labels,
            created_at=CREATED_AT,
            containers=(ContainerRecord(role),),
        )
    )
    deleted = to_rfc3339(NOW)
    steps: dict[str, Callable[[PodBuilder], PodBuilder]] = {
        "pending": lambda p: p,
        "running": lambda p: p.running(),
        "unready": lambda p: p.running(ready=False),
        "failed": lambda p: p.failed(exit_code=3),
        "succeeded": lambda p: p.succeeded(),
        "evicted": lambda p: p.evicted(),
        "preempted": lambda p: p.disrupted("PreemptionByScheduler"),
        "deleting": lambda p: p.running().but(deleted_at=deleted, deletion_asked_at=deleted),
        "stopped": lambda p: p.succeeded().but(deleted_at=CREATED_AT, deletion_asked_at=CREATED_AT),
        "lost": lambda p: p.on("node-b").running().but(node="node-b"),
    }
    return steps[state](made).build()
