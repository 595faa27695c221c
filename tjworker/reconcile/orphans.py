"""Orphans: objects left behind by a job that no longer exists, or that has ended. Pure.

Kubernetes' garbage collector deletes children with their owner. These remain:

- a child created while its job was being deleted
- children in a cluster whose collector is off
- a pod in deletion on a node that no longer exists, where no kubelet confirms the deletion
- a child created after its job's end: the worker that sent the create was suspended, and another worker ended the job.
  The view of an ended job has no children. It is an orphan if cleanPodPolicy would have deleted it.

A pod of a ReplicaSet or batch Job (its workload) belongs to that controller as long as the workload exists. When the
job is gone, the workload is the orphan, and its pods follow it. A pod whose workload is gone is an orphan, whether its
job exists or not. Kubernetes' collector never deletes such a pod if the workload was deleted and created again under
its name (the operator does that) while the collector had no watch: it takes the new workload for a later version of the
old one.

An earlier EDL operator left its ReplicaSets, batch Jobs and pods without a controller, and only with the labels
`paddle-job*`. Such an object is an orphan if no TrainingJob has the name in its label. The setting
`collect_earlier_orphans` must confirm that these labels are that operator's: PaddlePaddle's command-line client created
batch Jobs with the same labels and names, and without a TrainingJob.

Never orphans are objects of another controller, objects with the operator's label and no controller (released on
purpose with `--cascade=orphan`), objects without these labels, and objects younger than a minute. Labels alone prove
nothing: a copied template has them, too. docs/lifecycle.md has the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tjworker.api import labels
from tjworker.api.kinds import OWNERS, kind_of_labels, trainingjob
from tjworker.api.kinds.trainingjob.pods import ROLE_LABELS
from tjworker.api.resources import ALL_POD_GROUPS, BATCH_JOBS, PODS, REPLICASETS, SERVICES
from tjworker.api.timefmt import deletion_seconds, to_rfc3339, unix_seconds
from tjworker.base import GroupResource, JobName, Uid
from tjworker.reconcile.plan import Delete
from tjworker.reconcile.policies.clean import Cleaning

MIN_AGE_SECONDS = 60.0
"""Younger objects are no orphans."""
EARLIER_LABELS = tuple(ROLE_LABELS.values())
SELECTOR = labels.JOB_UID
"""Selects every object of the operator that may be an orphan."""
EARLIER_SELECTORS = tuple(f"{name},!{labels.JOB_UID}" for name in EARLIER_LABELS)


WorkloadOf = Literal["ours", "foreign", "gone"]
"""The owner of a pod's ReplicaSet or batch Job. 'ours': a job of this operator. 'foreign': another controller, or none.
'gone': the workload does not exist."""


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
    """One object with the operator's labels, reduced to the fields that decide whether it is an orphan."""

    resource: GroupResource
    namespace: str
    name: str
    uid: str
    created_at: int | None
    """Unix seconds, as `deleted_at`."""
    owner: JobName | None = None
    """The job that its controlling owner reference names; of a pod with a workload, the job that its labels name. None
    if it has another controller."""
    owner_uid: str = ""
    workload: WorkloadName | None = None
    deleted_at: int | None = None
    node: str = ""
    phase: str = ""
    """Only for pods."""
    role: str = ""
    """Only for pods, from the label."""
    of_tensorboard: bool = False
    earlier: bool = False
    """True for an object of an earlier EDL operator: a label names its job without a UID, and it has no controller."""


@dataclass(frozen=True, slots=True)
class Orphan:
    namespace: str
    delete: Delete


@dataclass(slots=True)
class OrphanScan:
    """What one run has read about the owners of its candidates. The candidates of a job or workload that could not be
    read, and so is missing here, are left alone."""

    owners: dict[JobName, Uid | None] = field(default_factory=dict)
    """Job -> its UID; None if it does not exist."""
    nodes: frozenset[str] | None = None
    """Names of the existing nodes; None if the operator may not read them."""
    workloads: dict[WorkloadName, WorkloadOf] = field(default_factory=dict)
    ended: dict[JobName, Cleaning] = field(default_factory=dict)
    """Ended job -> which pods its end deletes."""
    boards: dict[JobName, float] = field(default_factory=dict)
    """Ended job -> Unix seconds until which its TensorBoard stays."""
    keeping: set[JobName] = field(default_factory=set)
    """Ended jobs whose end deletes nothing at all."""


def candidate(resource: GroupResource, obj: Mapping[str, Any]) -> Candidate | None:
    """The candidate; None if the object has neither the job's UID as a label nor a label of an earlier EDL operator."""
    meta = obj["metadata"]
    its_labels = meta.get("labels") or {}
    if labels.JOB_UID not in its_labels:
        return _of_an_earlier_operator(resource, meta, its_labels)
    namespace = meta["namespace"]
    owner, owner_uid, workload = None, "", None
    for reference in (r for r in meta.get("ownerReferences") or () if r.get("controller")):
        kind = str(reference.get("apiVersion", "")).partition("/")[0], str(reference.get("kind", ""))
        name, uid = str(reference["name"]), str(reference["uid"])
        if kind in OWNERS:
            owner, owner_uid = JobName(OWNERS[kind], namespace, name), uid
        elif resource == PODS and kind in _WORKLOADS:
            # A pod names only its workload as controller. Its labels name the job; whether the workload still exists,
            # and belongs to that job, is looked up by the workload's UID.
            workload = WorkloadName(_WORKLOADS[kind], namespace, name, uid)
            job_kind = kind_of_labels(its_labels)
            if job_kind is not None and its_labels.get(labels.JOB_NAME):
                owner = JobName(job_kind, namespace, its_labels[labels.JOB_NAME])
                owner_uid = its_labels[labels.JOB_UID]
    node = phase = ""
    if resource == PODS:
        node, phase = (obj.get("spec") or {}).get("nodeName", ""), (obj.get("status") or {}).get("phase") or "Pending"
    return Candidate(
        resource,
        namespace,
        meta["name"],
        meta["uid"],
        unix_seconds(meta.get("creationTimestamp")),
        owner,
        owner_uid,
        workload,
        deletion_seconds(meta),
        node,
        phase,
        its_labels.get(labels.REPLICA_NAME, ""),
        of_tensorboard=labels.TENSORBOARD_CONFIG in its_labels,
    )


def _of_an_earlier_operator(
    resource: GroupResource, meta: Mapping[str, Any], its_labels: Mapping[str, str]
) -> Candidate | None:
    names = {its_labels[name] for name in EARLIER_LABELS if its_labels.get(name)}
    if len(names) != 1 or any(r.get("controller") for r in meta.get("ownerReferences") or ()):
        return None
    return Candidate(
        resource,
        meta["namespace"],
        meta["name"],
        meta["uid"],
        unix_seconds(meta.get("creationTimestamp")),
        JobName(trainingjob.RESOURCE, meta["namespace"], names.pop()),
        deleted_at=deletion_seconds(meta),
        earlier=True,
    )


def find_orphans(candidates: Iterable[Candidate], scan: OrphanScan, now: float) -> list[Orphan]:
    """The orphans among the candidates, sorted. `now`: Unix seconds."""
    found = [Orphan(c.namespace, delete) for c in candidates if (delete := _delete_orphan(c, scan, now)) is not None]
    return sorted(found, key=lambda o: (o.namespace, o.delete.resource, o.delete.name))


def _delete_orphan(c: Candidate, scan: OrphanScan, now: float) -> Delete | None:
    """The delete of the candidate; None if it is no orphan."""
    if c.created_at is None or now - c.created_at < MIN_AGE_SECONDS or c.owner is None:
        return None
    if c.earlier:
        gone = c.deleted_at is None and c.owner in scan.owners and scan.owners[c.owner] is None
        why = f"its job {c.owner.key} does not exist, and nothing controls it"
        return Delete(c.resource, c.name, c.uid, why=why) if gone else None
    workload = scan.workloads.get(c.workload, "foreign") if c.workload is not None else "gone"
    # Its pods belong to its own controller, whatever their labels say: a template may have been copied.
    if workload == "foreign":
        return None
    if c.deleted_at is not None:
        # deletionTimestamp is the end of the grace period. A minute later no kubelet is still busy with the object.
        late = now - c.deleted_at >= MIN_AGE_SECONDS
        why = f"in deletion since {to_rfc3339(c.deleted_at)} on node {c.node}, which is gone"
        hangs = late and c.node and scan.nodes is not None and c.node not in scan.nodes
        return Delete(c.resource, c.name, c.uid, grace_seconds=0, why=why) if hangs else None
    why = _find_reason(c, c.owner, workload, scan, now)
    return Delete(c.resource, c.name, c.uid, why=why) if why else None


def _find_reason(c: Candidate, owner: JobName, workload: WorkloadOf, scan: OrphanScan, now: float) -> str:
    """Why the candidate is an orphan; '' if it is none."""
    if workload == "gone" and owner in scan.owners:
        # By UID: a job of the same name that was created since adopts nothing of the former one.
        if scan.owners[owner] != c.owner_uid:
            return f"its job {owner.key} with UID {c.owner_uid} does not exist"
        if c.workload is not None:
            return f"its {_KIND[c.workload.resource]} {c.workload.name} with UID {c.workload.uid} does not exist"
    if owner not in scan.ended:
        return ""
    if c.of_tensorboard:
        over = now >= scan.boards.get(owner, 0.0) + MIN_AGE_SECONDS
        return f"its job {owner.key} has ended, and the time of its TensorBoard is over" if over else ""
    cleaning = scan.ended[owner]
    outlived = owner in scan.owners and _outlived(c, cleaning, owner in scan.keeping)
    return f"its job {owner.key} has ended, and {cleaning} would have taken it" if outlived else ""


def _outlived(c: Candidate, cleaning: Cleaning, keeps: bool) -> bool:
    """True if the end of the candidate's job would have deleted it. The end phase is only written when no such object
    is left."""
    if c.workload is not None:
        # A ReplicaSet's or batch Job's pods belong to their controller. The owner itself stays, released.
        return False
    if c.resource in ALL_POD_GROUPS:
        # Every policy deletes a PodGroup, unless the remaining pods go on (`_going_groups` of `children`).
        return not keeps
    # A service stays with its pod, so it is left alone unless all pods are deleted.
    return (c.resource == PODS and cleaning.goes(c.role, c.phase)) or (c.resource == SERVICES and cleaning.takes_all)
