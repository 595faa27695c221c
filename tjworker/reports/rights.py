"""Decides whether a pod may report for a job, and finds how the job is placed. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from tjworker.api import labels
from tjworker.api.model import TrainingJob
from tjworker.api.naming import pod_name
from tjworker.api.owners import controller
from tjworker.api.pod_records import pod_record
from tjworker.api.progress import Placement
from tjworker.api.resources import BATCH_JOBS, REPLICASETS
from tjworker.api.status import RoleAttempts
from tjworker.api.timefmt import from_rfc3339
from tjworker.base import GroupResource, JsonDict
from tjworker.reconcile.replicas import attempt_of, pod_attempt, pod_index

_CONTROLLERS = {("apps/v1", "ReplicaSet"): REPLICASETS, ("batch/v1", "Job"): BATCH_JOBS}


def keeper_of(pod: JsonDict) -> tuple[GroupResource, str, str] | None:
    """(resource, name, uid) of the ReplicaSet or batch Job that controls the pod; None if there is none."""
    owner = controller(pod["metadata"])
    resource = owner and _CONTROLLERS.get((owner["apiVersion"], owner["kind"]))
    return (resource, owner["name"], owner["uid"]) if owner and resource else None


def why_not(job: TrainingJob, pod: JsonDict, owner_uid: str) -> str:  # noqa: PLR0911  one line a rule
    """Why this pod may not report for this job; '' if it may. `owner_uid`: the UID of the object that controls the pod,
    or of the job that controls the pod's ReplicaSet or batch Job."""
    meta, status = pod["metadata"], job.status
    if owner_uid != job.uid or (meta.get("labels") or {}).get(labels.JOB_UID, job.uid) != job.uid:
        return f"pod {meta['name']} does not belong to {job.kind} {job.name.name}"
    # A report that was accepted before the end is still written (`Desk._patch`).
    if status.ended or status.ending:
        return f"{job.kind} {job.name.name} has ended"
    record = pod_record(pod, meta, owner_uid)
    if record.phase in ("Succeeded", "Failed"):
        return f"pod {meta['name']} has ended: its phase is {record.phase}"
    if record.deleted_at is not None:
        return f"pod {meta['name']} is being deleted"
    role = next((r for r in job.roles if r.name == record.labels.get(labels.REPLICA_NAME)), None)
    if role is None:
        return f"pod {meta['name']} is of no role of {job.kind} {job.name.name}"
    index = pod_index(record)
    if index is None:
        # A pod of a ReplicaSet or batch Job that has no ordinal yet.
        return ""
    # After a scale-down the pod lives through its grace period, and its program goes on reporting.
    if index >= role.replicas:
        return f"pod {meta['name']} is no longer wanted: role {role.name} has {role.replicas} replicas"
    attempt = attempt_of(status.attempts.roles.get(role.name, RoleAttempts()), index)
    # A pod of an earlier attempt may live until its deletion, but the job has started again.
    if pod_attempt(record) < attempt:
        return f"pod {meta['name']} is of attempt {pod_attempt(record)}, and the job is at attempt {attempt}"
    # A manifest that was copied from a pod of the job has its owner and labels, but cannot have its name.
    if role.workload == "Pod" and meta["name"] != pod_name(job.name.name, role.name, index):
        return f"pod {meta['name']} is none that this job makes"
    return ""


def placement(job: TrainingJob, pods: Sequence[JsonDict], reporter: JsonDict) -> Placement:
    """The placement of the job's elastic role; without an elastic role, of the role of the reporting pod. `pods`: the
    raw pods of the job."""
    elastic = [r for r in job.roles if r.elastic]
    named = (reporter["metadata"].get("labels") or {}).get(labels.REPLICA_NAME)
    # Speed is learnt for the autoscaler, so the role counts that it scales, and not the launcher or master that
    # reports.
    role = elastic[0] if len(elastic) == 1 else next((r for r in job.roles if r.name == named), None)
    if role is None:
        return Placement(replicas=0, nodes=0, settled=False)
    running = [
        pod
        for pod in pods
        if (pod["metadata"].get("labels") or {}).get(labels.REPLICA_NAME) == role.name
        and (pod.get("status") or {}).get("phase") == "Running"
        and "deletionTimestamp" not in pod["metadata"]
    ]
    moves = (from_rfc3339(record.time) for record in job.status.scale_records if record.role == role.name)
    return Placement(
        replicas=len(running),
        nodes=len({pod["spec"].get("nodeName", "") for pod in running}),
        # While pods come or go, the speed is that of no known size.
        settled=len(running) == role.replicas,
        moved_at=next((at for at in moves if at is not None), None),
    )
