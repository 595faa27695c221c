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
    created_at: str
    owner: JobName | None = None
    """The job that its controlling owner reference names; of a pod with a workload, the job that its labels name. None
    if it has another controller."""
    owner_uid: str = ""
    workload: WorkloadName | None = None
    deleted_at: str = ""
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
        meta.get("creationTimestamp") or "",
        owner,
        owner_uid,
        workload,
        meta.get("deletionTimestamp") or "",
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
    """The orphans among the candidates, sorted.

    `owners`: job -> UID, None if the job does not exist; objects of a job that is missing here are left alone.
    `nodes`: names of the existing nodes; None if the operator may not read them.
    `workloads`: what is known of each ReplicaSet and batch Job; a pod whose workload is missing here is left alone.
    `ended`: ended job -> which pods its end deletes.
    `boards`: ended job -> Unix seconds until which its TensorBoard stays.
    `keeping`: ended jobs whose end deletes nothing at all."""
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
            # Its pods belong to its own controller, whatever their labels say: a template may have been copied.
            continue
        if c.deleted_at:
            # deletionTimestamp is the end of the grace period. A minute later no kubelet is still busy with it.
            due = from_rfc3339(c.deleted_at)
            late = due is not None and now - due >= MIN_AGE_SECONDS
            if late and c.node and nodes is not None and c.node not in nodes:
                why = f"in deletion since {c.deleted_at} on node {c.node}, which is gone"
                found.append(Orphan(c.namespace, Delete(c.resource, c.name, c.uid, grace_seconds=0, why=why)))
        elif workload == "gone" and c.owner in owners and owners[c.owner] != c.owner_uid:
            # By UID: a job of the same name that was created since adopts nothing of the one before.
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
