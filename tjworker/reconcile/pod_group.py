"""The job's PodGroup: its size, its creation before the pods, and its updates. Pure.

Pods are created only once the watch shows the group. If it cannot be created, the job creates no pods. Some schedulers
place a pod alone if it exists before its group.

A group wants no more pods than can still join it. A pod that has succeeded, or that started before gang scheduling was
switched on, never joins. The scheduler would wait for it for ever. The size of a group of Kubernetes' own kind cannot
be changed. So that group is replaced while none of its pods has a node. Later it stays, and pods that it would block
for ever are created without it: the rest of their gang has started already.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tjworker.api.labels import annotations_for_children, labels_for_children
from tjworker.api.model import Role, TrainingJob
from tjworker.api.naming import job_labels
from tjworker.api.observed import ENDED_PHASES, PodGroupRecord, PodRecord
from tjworker.api.podgroups import ASKED_ANNOTATION, pod_group_of
from tjworker.base import GroupResource, JsonDict
from tjworker.reconcile.frameworks import find_framework
from tjworker.reconcile.gangs import find_gang
from tjworker.reconcile.gangs.gang import Gang, Membership, asked_of, edited_spec
from tjworker.reconcile.gangs.room import why_too_large
from tjworker.reconcile.one_pass import Pass
from tjworker.reconcile.plan import Create, Delete, Patch, Write
from tjworker.reconcile.workloads import owner
from tjworker.reconcile.workloads.owner import COUNT_FIELDS
from tjworker.reconcile.workloads.pod import delete_pod
from tjworker.reconcile.workloads.podbody import owner_reference

_REPLACED = frozenset({"outdated", "terminating", "lost", "blocked"})
"""States of a replica whose pod will be replaced."""


@dataclass(frozen=True, slots=True)
class GangPass:
    """The decisions of a pass about the gang."""

    membership: Membership | None = None
    """The gang that new pods join; None: each pod is scheduled alone."""
    writes: tuple[Write, ...] = ()
    waits: str = ""
    """For people, what the pods wait for. No pod is created until then; '' if they do not wait."""
    message: str = ""
    """For people, how the group works. Added to the scheduler's message about a pod without a node."""
    judges_room: bool = False
    """The scheduler has refused the gang, and none of its pods has a node. The plan needs all nodes to judge whether
    the gang can ever have room."""
    too_large: str = ""
    """Why the gang can never have room, even in an empty cluster; '' if it can."""


@dataclass(frozen=True, slots=True)
class _Members:
    """The pods that are in the group or can join it."""

    needed: int
    """How many pods start together or not at all, in the job's present state."""
    most: int
    """Likewise, if no pod had ended."""
    able: int
    """Pods in the group, and pods that are still to be created."""
    without_node: tuple[PodRecord, ...]
    placed: bool
    """True if a member has a node."""
    waiting: bool
    """True if a replica has no node yet."""


def names_its_own(job: TrainingJob) -> bool:
    """True if the user names a PodGroup of their own, in a template or in metadata of the job that its pods inherit.
    The operator then creates none."""
    if pod_group_of({"labels": labels_for_children(job), "annotations": annotations_for_children(job)}, {}):
        return True
    return any(pod_group_of(role.template.get("metadata") or {}, role.template.get("spec") or {}) for role in job.roles)


def gang_size(job: TrainingJob) -> int:
    """How many pods start together: `minAvailable`, or else minReplicas of each elastic role and all pods of the
    others."""
    # Roles whose pods are created later, such as MPI's launcher, do not count: the others must not wait for them.
    roles = [role for role in job.roles if _starts_at_once(job, role)]
    total = sum(role.replicas for role in roles)
    if more_than_all(job):
        return job.min_available or 1
    least = sum((role.min_replicas or 0) if role.elastic else role.replicas for role in roles)
    return max(1, min(job.min_available or least, total))


def more_than_all(job: TrainingJob) -> bool:
    """True if the job wants more pods at once than it can ever have. None starts until the user corrects that."""
    most = sum(max(role.replicas, role.max_replicas or 0, role.declared_replicas or 0) for role in job.roles)
    return job.min_available is not None and job.min_available > most


def _starts_at_once(job: TrainingJob, role: Role) -> bool:
    """True if the role's pods are in the gang, and are created without waiting for another role of it."""
    # Helpers are in no gang. A role that waits for another member would block it: the gang waits for all its members.
    names = (*find_framework(job).waits_for(job, role), *(after.role for after in role.after))
    return not role.helper and all(job.role(name).helper for name in names)


def see_gang(p: Pass) -> GangPass:
    gang = find_gang(p.rules)
    if gang is None:
        return GangPass()
    if p.status.start_running_time and more_than_all(p.job):
        # The job was scaled down since it began to run. Its new pods must not wait for ever.
        p = p._replace(job=replace(p.job, min_available=None))
    name = "" if names_its_own(p.job) else p.job.name.name
    member = Membership(gang, name, p.rules.gang_scheduler_name or gang.scheduler_name)
    if not name:
        return GangPass(member)
    members = _count_members(p, name)
    same_name = [g for g in p.observed.pod_groups.get(gang.resource, ()) if g.name == name]
    own_group = next((g for g in same_name if g.owner_uid == p.job.uid), None)
    if own_group is not None:
        return _judge_room(p, _update_group(p, member, own_group, members), members)
    if not members.able:
        return GangPass(member)
    waits = "waits for its PodGroup, which is made when its scheduling policy is mended" if p.job.gang.unread else ""
    if waits or same_name:
        return GangPass(member, waits=waits or f"waits for the PodGroup {name} of an earlier job of this name to go")
    return GangPass(member, (_create_group(p.job, gang, members.needed),), f"waits for its PodGroup {name} to be made")


def _update_group(p: Pass, member: Membership, group: PodGroupRecord, members: _Members) -> GangPass:
    # An unreadable policy has no known number, so the group keeps its size.
    fits = p.job.gang.unread or members.needed <= group.size <= members.most
    keeps_waiting = members.waiting and group.size > members.able and not more_than_all(p.job)
    empty = not members.placed and not members.without_node
    if group.deleted_at is not None and empty:
        # A group with pods stays until they end, and still counts.
        return GangPass(member, waits=f"waits for the PodGroup {group.name}, which is being deleted, to go")
    edited = not p.job.gang.unread and group.asked not in ("", asked_of(member.gang, p.job))
    size = group.size if fits and not keeps_waiting else members.needed
    if size == group.size and not edited:
        return GangPass(member, message=_describe(group, p.job))
    news = f"{size} pods start together, not {group.size}" if size != group.size else "its scheduling policy was edited"
    if member.gang.resize is not None:
        change = _edit_spec(p.job, member.gang, group, size) if edited else {"spec": member.gang.resize(size)}
        return GangPass(
            member, (_make_patch(member.gang.resource, group, change, news),), message=_describe(group, p.job)
        )
    # The size of this group cannot be changed, so replace the group while no pod has a node.
    if not members.placed:
        why = f"PodGroup {group.name} is made again: {news}"
        return GangPass(member, tuple(_make_again(p, member.gang, group, members, why)), f"waits: {why}")
    if not keeps_waiting:
        return GangPass(member, message=_describe(group, p.job))
    why = f"PodGroup {group.name} would keep it waiting: it wants {group.size} pods, and {members.able} can join"
    # The rest of the gang has started. Replace the waiting pods by pods without the group.
    alone = (delete_pod(pod, why) for pod in members.without_node if pod.owner_uid == p.job.uid)
    return GangPass(replace(member, group=""), tuple(alone))


def _judge_room(p: Pass, gang_pass: GangPass, members: _Members) -> GangPass:
    if more_than_all(p.job) or members.placed or not any(pod.unschedulable for pod in members.without_node):
        return gang_pass
    nodes = p.observed.every_node
    if nodes is None:
        return replace(gang_pass, judges_room=True)
    roles = [role for role in p.job.roles if _starts_at_once(p.job, role)]
    return replace(gang_pass, judges_room=True, too_large=why_too_large(roles, members.needed, nodes))


def _make_patch(resource: GroupResource, group: PodGroupRecord, change: JsonDict, why: str) -> Patch:
    seen = {"uid": group.uid, "resourceVersion": str(group.rv)}
    return Patch(resource, group.name, {**change, "metadata": {**seen, **change.get("metadata", {})}}, why)


def _edit_spec(job: TrainingJob, gang: Gang, group: PodGroupRecord, size: int) -> JsonDict:
    noted = {"annotations": {ASKED_ANNOTATION: asked_of(gang, job)}}
    return {"metadata": noted, "spec": edited_spec(gang, job, size, group.asked)}


def _make_again(p: Pass, gang: Gang, group: PodGroupRecord, members: _Members, why: str) -> Iterator[Write]:
    yield from (delete_pod(pod, why) for pod in members.without_node if pod.owner_uid == p.job.uid)
    yield from owner.release(p, why)
    if group.deleted_at is None:
        yield delete_group(gang.resource, group, why)


def delete_group(resource: GroupResource, group: PodGroupRecord, why: str) -> Delete:
    return Delete(resource, group.name, group.uid, None, why, group.rv, group.owner_uid)


def _create_group(job: TrainingJob, gang: Gang, size: int) -> Create:
    body = {
        "apiVersion": gang.api_version,
        "kind": "PodGroup",
        "metadata": {
            "name": job.name.name,
            "namespace": job.name.namespace,
            "labels": {**labels_for_children(job), **job_labels(job)},
            "annotations": {ASKED_ANNOTATION: asked_of(gang, job)},
            "ownerReferences": [owner_reference(job)],
        },
        "spec": gang.spec(job, size),
    }
    return Create(gang.resource, job.name.name, body, awaited=True)


def _describe(group: PodGroupRecord, job: TrainingJob) -> str:
    if more_than_all(job):
        pods = sum(role.replicas for role in job.roles)
        return (
            f"{job.gang.path}.minAvailable is {job.min_available}, and the job has {pods} pods: none starts until it is"
            f" at most {pods}"
        )
    of = f"{group.size} pods of the job start together or none does (PodGroup {group.name}"
    return f"{of}: {group.scheduler_message})" if group.scheduler_message else f"{of})"


def _count_members(p: Pass, name: str) -> _Members:
    most = gang_size(p.job)
    able = 0
    waiting = placed = False
    without_node: list[PodRecord] = []
    starting = {role.name for role in p.job.roles if _starts_at_once(p.job, role)}
    for replica in (r for v in p.roles.values() for r in v.replicas if not r.final):
        pod = replica.pod
        if pod is None and replica.role not in starting:
            # Its pod is created after the others, which must not wait for it.
            continue
        if pod is None or replica.state in _REPLACED:
            able, waiting = able + 1, True
        elif pod.pod_group == name and pod.phase not in ENDED_PHASES:
            able += 1
            if pod.node:
                placed = True
            else:
                waiting = True
                without_node.append(pod)
    needed = most if more_than_all(p.job) else max(1, min(most, able))
    return _Members(needed, most, able, tuple(without_node), placed, waiting)


def is_withheld(write: Write) -> bool:
    """True for a write that creates pods, or lets a controller create them. It waits for the group."""
    return isinstance(write, Create) or (isinstance(write, Patch) and write.resource in COUNT_FIELDS)
