"""Jobs, owners and pods of the workloads ReplicaSet and Job, as the projection shows them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tests.support.builders import PodBuilder, observe
from tests.support.builders.job import CREATED_AT
from tests.support.builders.training_job import make_training_job
from tests.unit.tjworker.reconcile.passes import NOW, after, decide
from tjworker.api.model import TrainingJob
from tjworker.api.observed import ContainerRecord, Observed, PodRecord, WorkloadRecord
from tjworker.api.resources import PODS
from tjworker.api.status import JobStatus
from tjworker.api.timefmt import unix_seconds
from tjworker.reconcile import Plan
from tjworker.reconcile.plan import Create, Patch

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


def made_pod(
    name: str,
    ordinal: int | None = None,
    attempt: int = 0,
    *,
    state: str = "running",
    role: str = "trainer",
    job_uid: str = UID,
    owner_uid: str = "",
) -> PodRecord:
    labels = {"replica-name": role, "elasticdeeplearning.ai/job-uid": job_uid}
    if ordinal is not None:
        labels |= {"replica-index": str(ordinal), "restart-attempt": str(attempt)}
    made = PodBuilder(
        PodRecord(
            name=name,
            uid=f"uid-of-{name}",
            rv=200,
            owner_uid=owner_uid or f"uid-of-digits-{role}",
            labels=labels,
            created_at=unix_seconds(CREATED_AT),
            containers=(ContainerRecord(role),),
        )
    )
    deleted = int(NOW)
    steps: dict[str, Callable[[PodBuilder], PodBuilder]] = {
        "pending": lambda p: p,
        "running": lambda p: p.running(),
        "unready": lambda p: p.running(ready=False),
        "failed": lambda p: p.failed(exit_code=3),
        "succeeded": lambda p: p.succeeded(),
        "evicted": lambda p: p.evicted(),
        "turned away": lambda p: p.turned_away(),
        "preempted": lambda p: p.disrupted("PreemptionByScheduler"),
        "deleting": lambda p: p.running().but(deleted_at=deleted, deletion_asked_at=deleted),
        "stopped": lambda p: p.succeeded().but(deleted_at=CREATED_AT, deletion_asked_at=CREATED_AT),
        "lost": lambda p: p.on("node-b").running().but(node="node-b"),
    }
    return steps[state](made).build()


def patches(plan: Plan, resource: str = PODS) -> dict[str, Mapping[str, Any]]:
    return {w.name: w.body for w in plan.writes if isinstance(w, Patch) and w.resource == resource}


def body(plan: Plan, name: str) -> Mapping[str, Any]:
    return next(w.body for w in plan.writes if isinstance(w, Create) and w.name == name)


def running(job: TrainingJob, *pods: PodRecord) -> TrainingJob:
    """The job after the pass that has seen these pods run."""
    return after(job, decide(job, observed_of(job, pods)))


def trainers(count: int = 2) -> list[PodRecord]:
    return [made_pod(f"t{i}", i) for i in range(count)]


def causes(status: JobStatus) -> dict[str, int]:
    counts = status.restart_counts.get("trainer")
    return {k: v for k, v in counts.model_dump().items() if v} if counts else {}
