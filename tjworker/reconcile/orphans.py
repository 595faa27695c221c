"""Which objects are orphans: left behind by a job that no longer exists, or that has ended. Pure.

Kubernetes' own garbage collector takes children with their owner; this finds what slipped through (a child created while its
job was being deleted, a cluster whose collector is off) and pods that hang in deletion on a node that is gone, where no
kubelet will ever confirm it. And what was made after its job's end: a create that was on its way while its worker stood still,
and another worker carried the job to its end. No view shows it any more; cleanPodPolicy says what would have gone.

A pod of a ReplicaSet or batch Job is judged by its keeper: while that is there, it is its controller's. When the job is gone
the keeper is the orphan, and its pods follow it; a pod is one when its keeper is gone and nobody has collected it, whether its
job is there or not. Kubernetes' collector overlooks such pods for good when their keeper is deleted and made again under its
name (as the operator does) while it has no watch: it takes the new one for the old one's next version.

Never an orphan: what another controller owns, what has no controller (somebody let go of it on purpose, with
`--cascade=orphan`), what is not labelled as ours, and whatever is younger than a minute. Labels alone prove nothing: who
copies a template copies them. docs/lifecycle.md has the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tjworker.api import labels
from tjworker.api.model import CleanPodPolicy
from tjworker.api.timefmt import from_rfc3339
from tjworker.base import JobName, Uid
from tjworker.reconcile.plan import Delete
from tjworker.reconcile.policies.clean import goes

MIN_AGE_SECONDS = 60.0
COLLECTED = ("pods", "services", "replicasets", "jobs", "podgroups")


Keeper = Literal["ours", "foreign", "gone"]
"""Of a pod: its ReplicaSet or batch Job belongs to a job of ours; belongs to somebody else, or to nobody; does not exist."""


@dataclass(frozen=True, slots=True)
class KeeperName:
    resource: str
    """replicasets or jobs."""
    namespace: str
    name: str
    uid: str


_KEEPERS: Mapping[tuple[str, str], str] = {("apps", "ReplicaSet"): "replicasets", ("batch", "Job"): "jobs"}
_KIND = {resource: kind for (_, kind), resource in _KEEPERS.items()}


@dataclass(frozen=True, slots=True)
class Candidate:
    """One object with our labels, reduced to what the question needs."""

    resource: str
    namespace: str
    name: str
    uid: str
    created_at: str
    owner: JobName | None = None
    """The job that its controlling owner reference names, or for a pod with a keeper its labels; None when its controller is
    none of ours."""
    owner_uid: str = ""
    keeper: KeeperName | None = None
    deleted_at: str = ""
    node: str = ""
    phase: str = ""
    """Of a pod."""


@dataclass(frozen=True, slots=True)
class Orphan:
    namespace: str
    delete: Delete


def candidate(resource: str, obj: Mapping[str, Any], plurals: Mapping[tuple[str, str], str]) -> Candidate | None:
    """`plurals`: (API group, kind) of our job kinds -> plural. None for an object that does not carry the job's UID as a
    label."""
    meta = obj["metadata"]
    told = meta.get("labels") or {}
    if labels.JOB_UID not in told:
        return None
    namespace = meta["namespace"]
    owner, owner_uid, keeper = None, "", None
    for reference in (r for r in meta.get("ownerReferences") or () if r.get("controller")):
        kind = str(reference.get("apiVersion", "")).partition("/")[0], str(reference.get("kind", ""))
        name, uid = str(reference["name"]), str(reference["uid"])
        if kind in plurals:
            owner, owner_uid = JobName(plurals[kind], namespace, name), uid
        elif resource == "pods" and kind in _KEEPERS:
            keeper = KeeperName(_KEEPERS[kind], namespace, name, uid)
            groups = {group: plural for (group, _), plural in plurals.items()}
            plural = groups.get(told.get(labels.GROUP_NAME, ""))
            if plural is not None and told.get(labels.JOB_NAME):
                owner, owner_uid = JobName(plural, namespace, told[labels.JOB_NAME]), told[labels.JOB_UID]
    node = phase = ""
    if resource == "pods":
        node, phase = (obj.get("spec") or {}).get("nodeName", ""), (obj.get("status") or {}).get("phase") or "Pending"
    return Candidate(
        resource,
        namespace,
        meta["name"],
        meta["uid"],
        meta.get("creationTimestamp") or "",
        owner,
        owner_uid,
        keeper,
        meta.get("deletionTimestamp") or "",
        node,
        phase,
    )


def find_orphans(
    candidates: Iterable[Candidate],
    owners: Mapping[JobName, Uid | None],
    nodes: frozenset[str] | None,
    now: float,
    keepers: Mapping[KeeperName, Keeper] | None = None,
    ended: Mapping[JobName, CleanPodPolicy] | None = None,
) -> list[Orphan]:
    """`owners`: UID of each job that a candidate names, None for one that does not exist; a job that is not in it is unknown
    and nothing of it is touched. `nodes`: names of the nodes that exist, None where they may not be read. `keepers`: what is
    known of each ReplicaSet and batch Job that a pod names; a pod with a keeper that is not in it is not touched. `ended`: of
    each job that has ended its cleanPodPolicy."""
    found = []
    for c in candidates:
        created = from_rfc3339(c.created_at)
        if created is None or now - created < MIN_AGE_SECONDS or c.owner is None:
            continue
        keeper = (keepers or {}).get(c.keeper, "foreign") if c.keeper is not None else "gone"
        if keeper == "foreign":
            continue
        if c.deleted_at:
            # deletionTimestamp is when the grace period ends, so a minute after it nobody is still at it.
            due = from_rfc3339(c.deleted_at)
            late = due is not None and now - due >= MIN_AGE_SECONDS
            if late and c.node and nodes is not None and c.node not in nodes:
                why = f"in deletion since {c.deleted_at} on node {c.node}, which is gone"
                found.append(Orphan(c.namespace, Delete(c.resource, c.name, c.uid, grace_seconds=0, why=why)))
        elif keeper == "gone" and c.owner in owners and owners[c.owner] != c.owner_uid:
            why = f"its job {c.owner.key} with UID {c.owner_uid} does not exist"
            found.append(Orphan(c.namespace, Delete(c.resource, c.name, c.uid, why=why)))
        elif c.keeper is not None and keeper == "gone" and c.owner in owners:
            why = f"its {_KIND[c.keeper.resource]} {c.keeper.name} with UID {c.keeper.uid} does not exist"
            found.append(Orphan(c.namespace, Delete(c.resource, c.name, c.uid, why=why)))
        elif c.owner in owners and _outlived(c, (ended or {}).get(c.owner, "None")):
            why = f"its job {c.owner.key} has ended, and cleanPodPolicy {(ended or {})[c.owner]} would have taken it"
            found.append(Orphan(c.namespace, Delete(c.resource, c.name, c.uid, why=why)))
    return sorted(found, key=lambda o: (o.namespace, o.delete.resource, o.delete.name))


def _outlived(c: Candidate, policy: CleanPodPolicy) -> bool:
    """An end phase is only written when nothing that goes is left. A service stays with its pod, so unless all go it is let
    be; what a ReplicaSet or batch Job keeps is its controller's, and the owner itself stays, released."""
    if c.keeper is not None:
        return False
    return (c.resource == "pods" and goes(policy, c)) or (c.resource == "services" and policy == "All")
