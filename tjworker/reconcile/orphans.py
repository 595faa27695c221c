"""Which objects are orphans: left behind by a job that no longer exists. Pure.

Kubernetes' own garbage collector takes children with their owner; this finds what slipped through (a child created while its
job was being deleted, a cluster whose collector is off) and pods that hang in deletion on a node that is gone, where no
kubelet will ever confirm it.

Never an orphan: what another controller owns, what has no controller (somebody let go of it on purpose, with
`--cascade=orphan`), what is not labelled as ours, and whatever is younger than a minute.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tjworker.api import labels
from tjworker.api.timefmt import from_rfc3339
from tjworker.base import JobName, Uid
from tjworker.reconcile.plan import Delete

MIN_AGE_SECONDS = 60.0
COLLECTED = ("pods", "services", "replicasets", "jobs", "podgroups")


@dataclass(frozen=True, slots=True)
class Candidate:
    """One object with our labels, reduced to what the question needs."""

    resource: str
    namespace: str
    name: str
    uid: str
    created_at: str
    owner: JobName | None = None
    """The job that its controlling owner reference names, None when its controller is none of ours."""
    owner_uid: str = ""
    deleted_at: str = ""
    node: str = ""


@dataclass(frozen=True, slots=True)
class Orphan:
    namespace: str
    delete: Delete


def candidate(resource: str, obj: Mapping[str, Any], plurals: Mapping[tuple[str, str], str]) -> Candidate | None:
    """`plurals`: (API group, kind) of our job kinds -> plural. None for an object that does not carry the job's UID as a
    label."""
    meta = obj["metadata"]
    if labels.JOB_UID not in (meta.get("labels") or {}):
        return None
    owner, owner_uid = None, ""
    for reference in meta.get("ownerReferences") or ():
        plural = plurals.get((str(reference.get("apiVersion", "")).partition("/")[0], str(reference.get("kind", ""))))
        if reference.get("controller") and plural is not None:
            owner, owner_uid = JobName(plural, meta["namespace"], str(reference["name"])), str(reference["uid"])
    return Candidate(
        resource, meta["namespace"], meta["name"], meta["uid"], meta.get("creationTimestamp") or "", owner, owner_uid,
        meta.get("deletionTimestamp") or "", (obj.get("spec") or {}).get("nodeName", "") if resource == "pods" else "",
    )


def find_orphans(
    candidates: Iterable[Candidate], owners: Mapping[JobName, Uid | None], nodes: frozenset[str] | None, now: float
) -> list[Orphan]:
    """`owners`: UID of each job that a candidate names, None for one that does not exist; a job that is not in it is unknown
    and nothing of it is touched. `nodes`: names of the nodes that exist, None where they may not be read."""
    found = []
    for c in candidates:
        created = from_rfc3339(c.created_at)
        if created is None or now - created < MIN_AGE_SECONDS or c.owner is None:
            continue
        if c.deleted_at:
            # deletionTimestamp is when the grace period ends, so a minute after it nobody is still at it.
            due = from_rfc3339(c.deleted_at)
            late = due is not None and now - due >= MIN_AGE_SECONDS
            if late and c.node and nodes is not None and c.node not in nodes:
                why = f"in deletion since {c.deleted_at} on node {c.node}, which is gone"
                found.append(Orphan(c.namespace, Delete(c.resource, c.name, c.uid, grace_seconds=0, why=why)))
        elif c.owner in owners and owners[c.owner] != c.owner_uid:
            why = f"its job {c.owner.key} with UID {c.owner_uid} does not exist"
            found.append(Orphan(c.namespace, Delete(c.resource, c.name, c.uid, why=why)))
    return sorted(found, key=lambda o: (o.namespace, o.delete.resource, o.delete.name))
