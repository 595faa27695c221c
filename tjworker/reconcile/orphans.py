"""Which objects are orphans: left behind by a job that no longer exists, or that has ended. Pure.

Kubernetes' own garbage collector takes children with their owner. This finds what slipped through: a child created
while its job was being deleted, a cluster whose collector is off, a pod that hangs in deletion on a node that is gone,
where no kubelet will ever confirm it. And a child made after its job's end: its create was on the way while its worker
stood still and another worker carried the job to its end. No view shows it any more; cleanPodPolicy says what would
have gone.

A pod of a ReplicaSet or batch Job (its workload) belongs to that controller while the workload is there. When the job
is gone, the workload is the orphan and its pods follow it. A pod is an orphan when its workload is gone and no
collector has taken it, whether its job is there or not: Kubernetes' collector overlooks such pods for good when their
workload is deleted and made again under its name (as the operator does) while it has no watch. It takes the new one for
the old one's next version.

An earlier EDL operator left its ReplicaSets, batch Jobs and pods without a controller, with the labels `paddle-job*`
alone. Such an object is an orphan when no TrainingJob has the name that its label says, and the operator's owner has
said that these labels are that operator's (`collect_earlier_orphans`): PaddlePaddle's command-line client made batch
Jobs with the same labels and names and no TrainingJob.

Never an orphan: what another controller owns, what has no controller and our label (released on purpose with
`--cascade=orphan`), what is labelled in neither way, and whatever is younger than a minute. Labels alone prove nothing:
a copied template carries them too. docs/lifecycle.md has the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Any, Literal

from tjworker.api import labels
from tjworker.api.kinds import OWNERS, kind_of_labels, trainingjob
from tjworker.api.kinds.trainingjob.pods import ROLE_LABELS
from tjworker.api.resources import ALL_POD_GROUPS, BATCH_JOBS, PODS, REPLICASETS, SERVICES
from tjworker.api.timefmt import from_rfc3339
from tjworker.base import GroupResource, JobName, Uid
from tjworker.reconcile.plan import Delete
from tjworker.reconcile.policies.clean import Cleaning

MIN_AGE_SECONDS = 60.0
EARLIER_LABELS = tuple(ROLE_LABELS.values())
SELECTOR = labels.JOB_UID
"""Of everything of ours that may be an orphan."""
EARLIER_SELECTORS = tuple(f"{name},!{labels.JOB_UID}" for name in EARLIER_LABELS)


WorkloadOf = Literal["ours", "foreign", "gone"]
"""Whose a pod's ReplicaSet or batch Job is: a job's of ours; another controller's or none's; 'gone': it does not
exist."""


@dataclass(frozen=True, slots=True)
class WorkloadName:
    resource: GroupResource
    """REPLICASETS or BATCH_JOBS."""
    namespace: str
    name: str
    uid: str


_WORKLOADS: Mapping[tuple[str, str], GroupResource] = {
    ("apps", "ReplicaSet"): REPLICASETS,
    ("batch", "Job"): BATCH_JOBS,
}
_KIND = {resource: kind for (_, kind), resource in _WORKLOADS.items()}


@dataclass(frozen=True, slots=True)
class Candidate:
    """One object with our labels, reduced to what the question needs."""

    resource: GroupResource
    namespace: str
    name: str
    uid: str
    created_at: str
    owner: JobName | None = None
    """The job that its controlling owner reference names, or for a pod with a workload its labels; None when its
    controller is none of ours."""
    owner_uid: str = ""
    workload: WorkloadName | None = None
    deleted_at: str = ""
    node: str = ""
    phase: str = ""
    """Of a pod."""
    role: str = ""
    """Of a pod, as its label says."""
    of_tensorboard: bool = False
    earlier: bool = False
    """Of an earlier EDL operator: its label names the job, without a UID, and nothing controls it."""


@dataclass(frozen=True, slots=True)
class Orphan:
    namespace: str
    delete: Delete


def candidate(resource: GroupResource, obj: Mapping[str, Any]) -> Candidate | None:
    """None for an object that carries neither the job's UID as a label nor a label of an earlier EDL operator."""
    meta = obj["metadata"]
    told = meta.get("labels") or {}
    if labels.JOB_UID not in told:
        return _of_an_earlier_operator(resource, meta, told)
    namespace = meta["namespace"]
    owner, owner_uid, workload = None, "", None
    for reference in (r for r in meta.get("ownerReferences") or () if r.get("controller")):
        kind = str(reference.get("apiVersion", "")).partition("/")[0], str(reference.get("kind", ""))
        name, uid = str(reference["name"]), str(reference["uid"])
        if kind in OWNERS:
            owner, owner_uid = JobName(OWNERS[kind], namespace, name), uid
        elif resource == PODS and kind in _WORKLOADS:
            workload = WorkloadName(_WORKLOADS[kind], namespace, name, uid)
            of_job = kind_of_labels(told)
            if of_job is not None and told.get(labels.JOB_NAME):
                owner, owner_uid = JobName(of_job, namespace, told[labels.JOB_NAME]), told[labels.JOB_UID]
    node = phase = ""
    if resource == PODS:
        node, phase = (obj.get("spec") or {}).get("nodeName", ""), (obj.get("status") or {}).get("phase") or "Pending"
    return Candidate(
        resource,
        namespace,
        meta["name"],
        meta["uid"],
        meta.get("creationTimestamp") or "",
        owner,
        owner_uid,
        workload,
        meta.get("deletionTimestamp") or "",
        node,
        phase,
        told.get(labels.REPLICA_NAME, ""),
        of_tensorboard=labels.TENSORBOARD_CONFIG in told,
    )


def _of_an_earlier_operator(
    resource: GroupResource, meta: Mapping[str, Any], told: Mapping[str, str]
) -> Candidate | None:
    names = {told[name] for name in EARLIER_LABELS if told.get(name)}
    if len(names) != 1 or any(r.get("controller") for r in meta.get("ownerReferences") or ()):
        return None
    return Candidate(
        resource,
        meta["namespace"],
        meta["name"],
        meta["uid"],
        meta.get("creationTimestamp") or "",
        JobName(trainingjob.RESOURCE, meta["namespace"], names.pop()),
        deleted_at=meta.get("deletionTimestamp") or "",
        earlier=True,
    )


def find_orphans(
    candidates: Iterable[Candidate],
    owners: Mapping[JobName, Uid | None],
    nodes: frozenset[str] | None,
    now: float,
    workloads: Mapping[WorkloadName, WorkloadOf] | None = None,
    ended: Mapping[JobName, Cleaning] | None = None,
    boards: Mapping[JobName, float] | None = None,
    keeping: Set[JobName] = frozenset(),
) -> list[Orphan]:
    """`owners`: UID of each job that a candidate names, None for one that does not exist; a job that is not in it is
    unknown and nothing of it is touched. `nodes`: names of the nodes that exist, None where they may not be read.
    `workloads`: what is known of each ReplicaSet and batch Job that a pod names; a pod whose workload is not in
    it is not touched. `ended`: of each job that has ended, which pods its end deletes. `boards`: until when its
    TensorBoard stays, where it does. `keeping`: those of them whose end takes nothing at all."""
    found = []
    for c in candidates:
        created = from_rfc3339(c.created_at)
        if created is None or now - created < MIN_AGE_SECONDS or c.owner is None:
            continue
        if c.earlier:
            found += _earlier(c, c.owner, owners)
            continue
        workload = (workloads or {}).get(c.workload, "foreign") if c.workload is not None else "gone"
        if workload == "foreign":
            continue
        if c.deleted_at:
            # deletionTimestamp is when the grace period ends, so a minute after it no kubelet is still at it.
            due = from_rfc3339(c.deleted_at)
            late = due is not None and now - due >= MIN_AGE_SECONDS
            if late and c.node and nodes is not None and c.node not in nodes:
                why = f"in deletion since {c.deleted_at} on node {c.node}, which is gone"
                found.append(Orphan(c.namespace, Delete(c.resource, c.name, c.uid, grace_seconds=0, why=why)))
        elif workload == "gone" and c.owner in owners and owners[c.owner] != c.owner_uid:
            why = f"its job {c.owner.key} with UID {c.owner_uid} does not exist"
            found.append(Orphan(c.namespace, Delete(c.resource, c.name, c.uid, why=why)))
        elif c.workload is not None and workload == "gone" and c.owner in owners:
            why = f"its {_KIND[c.workload.resource]} {c.workload.name} with UID {c.workload.uid} does not exist"
            found.append(Orphan(c.namespace, Delete(c.resource, c.name, c.uid, why=why)))
        elif c.of_tensorboard:
            if c.owner in (ended or {}) and now >= (boards or {}).get(c.owner, 0.0) + MIN_AGE_SECONDS:
                why = f"its job {c.owner.key} has ended, and the time of its TensorBoard is over"
                found.append(Orphan(c.namespace, Delete(c.resource, c.name, c.uid, why=why)))
        elif c.owner in owners and ended and c.owner in ended and _outlived(c, ended[c.owner], c.owner in keeping):
            why = f"its job {c.owner.key} has ended, and {ended[c.owner]} would have taken it"
            found.append(Orphan(c.namespace, Delete(c.resource, c.name, c.uid, why=why)))
    return sorted(found, key=lambda o: (o.namespace, o.delete.resource, o.delete.name))


def _earlier(c: Candidate, owner: JobName, owners: Mapping[JobName, Uid | None]) -> list[Orphan]:
    if c.deleted_at or owner not in owners or owners[owner] is not None:
        return []
    why = f"its job {owner.key} does not exist, and nothing controls it"
    return [Orphan(c.namespace, Delete(c.resource, c.name, c.uid, why=why))]


def _outlived(c: Candidate, cleaning: Cleaning, keeps: bool) -> bool:
    """An end phase is only written when nothing that goes is left. A service stays with its pod, so unless all go it is
    let be; what a ReplicaSet or batch Job keeps is its controller's, and the owner itself stays, released. A PodGroup
    goes whatever the policy, but where the pods that stay go on (`_going_groups` of `children`)."""
    if c.workload is not None:
        return False
    if c.resource in ALL_POD_GROUPS:
        return not keeps
    return (c.resource == PODS and cleaning.goes(c.role, c.phase)) or (c.resource == SERVICES and cleaning.takes_all)
