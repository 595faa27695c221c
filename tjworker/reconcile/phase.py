"""The phase of a job that has not ended, and the numbers of each role. `live_phase` decides every change. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tjworker.api.model import Role, TrainingJob
from tjworker.api.observed import EVICTED, PodRecord
from tjworker.api.status import (
    FAILED_CREATE,
    MAX_SCALE_RECORDS,
    JobStatus,
    Phase,
    ReplicaStatus,
    ScaleCause,
    ScaleRecord,
)
from tjworker.reconcile.failures import turned_away
from tjworker.reconcile.replicas import Replica, RoleView

# Phases in which the job has not run yet, or not since it was resumed.
_BEFORE_RUNNING = frozenset({"", "Pending", "Creating", "Suspended"})


def all_run(views: Mapping[str, RoleView]) -> bool:
    """True if every desired replica runs or has ended, and no surplus pod is left."""
    return _desired_run(views) and not any(view.surplus for view in views.values())


def _desired_run(views: Mapping[str, RoleView]) -> bool:
    return all(view.count("running", "succeeded", "failed") == len(view.replicas) for view in views.values())


def runs(job: TrainingJob, views: Mapping[str, RoleView], new: Phase, *, ran: bool) -> bool:
    """The value of the condition Running. `ran`: its value before this pass."""
    if new in ("Running", "Restarting") or job.runs is None:
        return new == "Running"
    counts = any(views[name].count("running") for name in job.runs.roles if name in views)
    return counts and (ran or not job.runs.after_all)


def live_phase(was: Phase, views: Mapping[str, RoleView], *, restarted: bool, scaled: bool) -> Phase:
    """The new phase. `restarted` and `scaled`: decisions of this pass.

    A job stays in Scaling or Restarting until every desired replica runs. Once it has run, only a suspension
    leads back to Pending or Creating."""
    if all_run(views) and not restarted:
        return "Running"
    if restarted or was == "Restarting":
        return "Restarting"
    if was not in _BEFORE_RUNNING:
        # The operator created a surplus pod late: it is deleted as in scaling down, and nothing restarts. A surplus pod
        # of a controller replaces another pod, so there something restarts.
        late = _desired_run(views) and all(v.role.workload == "Pod" for v in views.values() if v.surplus)
        return "Scaling" if scaled or was == "Scaling" or late else "Restarting"
    unassigned = any(v.count("missing", "blocked", "pending", "outdated", "terminating") for v in views.values())
    return "Pending" if unassigned else "Creating"


def replica_status(view: RoleView, *, live: bool) -> ReplicaStatus:
    """The numbers of one role. `live`: missing pods will be created, so they count as pending, and pods that are being
    deleted count as restarting. False for a job that ends or is suspended."""
    missing = view.count("missing", "blocked") if live else 0
    replaced = sum(r.attempt > 0 and r.state in ("missing", "blocked") for r in view.replicas) if missing else 0
    failed = view.count("failed")
    evicted = sum(r.state == "failed" and r.pod is not None and _evicted(r.pod) for r in view.replicas) if failed else 0
    return ReplicaStatus(
        desired=view.role.replicas,
        pending=view.count("pending") + missing,
        scheduled=view.count("scheduled"),
        active=view.count("running"),
        succeeded=view.count("succeeded"),
        failed=failed,
        evicted=evicted,
        restarting=(view.count("outdated", "terminating") if live else 0) + replaced,
    )


def _evicted(pod: PodRecord) -> bool:
    return pod.reason == EVICTED or pod.disruption == "EvictionByEvictionAPI"


def scale_changes(job: TrainingJob, status: JobStatus, now: str) -> tuple[ScaleRecord, ...]:
    """A record for each role whose desired count differs from the last status. The autoscaler records its own changes
    itself, together with the target; `with_scale_records` leaves those out."""
    records = []
    for role in job.roles:
        old = status.replica_statuses.get(role.name)
        if old is not None and old.desired != role.replicas:
            cause, reason = _why_scaled(job, role, status)
            records.append(
                ScaleRecord(role=role.name, from_=old.desired, to=role.replicas, time=now, cause=cause, reason=reason)
            )
    return tuple(records)


def _why_scaled(job: TrainingJob, role: Role, status: JobStatus) -> tuple[ScaleCause, str]:
    if role.declared_replicas is not None:
        return "bounds", "autoscaler: kept within minReplicas and maxReplicas"
    declared_then = status.targets_beside.get(role.name)
    if role.name in status.targets and declared_then == role.replicas:
        # The target no longer counts, although the spec's number is the one for which the target was set.
        if job.suspend:
            return "user", f"{job.suspend_field} was set: {role.spec_path} counts again"
        return "user", f"the autoscaler no longer moves this role: {role.spec_path} counts again"
    return "user", f"{role.spec_path} was set to {role.replicas}"


def with_scale_records(status: JobStatus, records: tuple[ScaleRecord, ...]) -> JobStatus:
    """The status with these records in front, except for changes that it has recorded already."""
    newest = {r.role: r.to for r in reversed(status.scale_records)}
    new = [r for r in records if newest.get(r.role) != r.to]
    return status.model_copy(update={"scale_records": (*new, *status.scale_records)[:MAX_SCALE_RECORDS]})


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why a job does not run yet: the most informative reason among waiting replicas."""

    reason: str = ""
    """For programs: Unschedulable, GangTooLarge, Blocked, the reason of a container that cannot start; '' if nothing is
    wrong."""
    message: str = ""
    """For people; '' if no replica waits."""


def waiting_for(views: Mapping[str, RoleView], held: Mapping[str, str], gang: str = "", too_large: str = "") -> Waiting:
    """What a job that does not run yet waits for: the name of one pod, with the message of the scheduler or container.
    `held`: role -> why its pods are not created yet. `gang`: how many pods must find a node at once. `too_large`: why
    they never will."""
    # The lowest rank is reported: a replica with a reason, such as a scheduler's refusal, before one that only waits.
    first: tuple[tuple[bool, bool, str], str, str] | None = None
    waiting = 0
    for view in views.values():
        for replica in view.replicas:
            reason, why = _why_waiting(view, replica)
            if replica.state == "missing" and replica.index in view.unmade_until:
                reason, why = _VANISHES
            elif view.role.name in held and _is_held(view, replica):
                reason, why = "", held[view.role.name]
            if not why:
                continue
            waiting += 1
            rank = (not reason, _FITS_WITHOUT_OTHERS in why, replica.name)
            if first is None or rank < first[0]:
                first = (rank, reason, why)
    if first is None:
        return Waiting()
    (*_, name), reason, why = first
    together = f"; {gang}" if gang and reason in ("", "Unschedulable") else ""
    message = f"pod {name}{and_more(waiting - 1)} {why}{together}"
    return Waiting(GANG_TOO_LARGE, f"{too_large}. {message}") if together and too_large else Waiting(reason, message)


def and_more(pods: int) -> str:
    """The words after a pod's name in a message that is about other pods, too; '' if there are none."""
    # The name comes first, because the message of a scheduler or kubelet that follows has full stops of its own. And no
    # plural: `outcome` ignores a change of numbers only.
    return f" (and {pods} more)" if pods else ""


def describe_all_run(views: Mapping[str, RoleView]) -> str:
    """For people: that every replica runs or has ended."""
    replicas = [replica for view in views.values() for replica in view.replicas]
    which = f"all {len(replicas)} replicas are" if len(replicas) > 1 else "the replica is"
    ended = any(replica.state != "running" for replica in replicas)
    return f"{which} running{' or ended' if ended else ''}"


def _is_held(view: RoleView, replica: Replica) -> bool:
    # A failed pod that cannot be replaced waits for the same as a missing one.
    return replica.state == "missing" or (replica.state == "outdated" and not view.role.makes_pods)


_FITS_WITHOUT_OTHERS = "waiting for minCount pods from a gang"
"""Message of Kubernetes' scheduler for a pod that has room, but whose gang has not. The messages of the gang's other
pods say more."""
GANG_TOO_LARGE = "GangTooLarge"

_VANISHES = (
    "BackOff",
    "is recreated after a back-off: its pods are deleted before they start, and not by the operator; is there the node"
    " that its template names, and what does the API server's audit log say?",
)
_BLOCKED = ("Blocked", "waits for an older pod of that name, of another owner, to go")


def _why_unassigned(view: RoleView, replica: Replica) -> tuple[str, str]:
    """(reason, message) of a pod that is not created, or that has no node yet."""
    if replica.pod is not None and replica.pod.unschedulable:
        return "Unschedulable", f"has no node: {replica.pod.unschedulable}"
    if view.role.workload == "Pod":
        # The same message before and after the pod is created, so that its creation alone causes no write of the
        # status.
        return "", "is waiting for a node"
    # Only a ReplicaSet reports in its status that the API server refuses its pods. A batch Job reports it as events.
    owner = view.owner
    if replica.pod is None and owner is not None and owner.reason == FAILED_CREATE and owner.message:
        return FAILED_CREATE, f"cannot be made by its ReplicaSet {owner.name}: {owner.message}"
    return "", f"waits to be made by its {view.role.workload}, or for a node"


def _why_waiting(view: RoleView, replica: Replica) -> tuple[str, str]:
    """(reason, message); no message for a replica that does not wait."""
    pod = replica.pod
    if replica.state in ("running", "succeeded", "failed"):
        return "", ""
    if pod is None:
        return _BLOCKED if replica.state == "blocked" else _why_unassigned(view, replica)
    if replica.state == "outdated" and view.has_failed(pod) and pod.deleted_at is None:
        # The second message names no back-off, since the first restarts come at once.
        rejected = f"is recreated after a back-off: its kubelet turned it away ({pod.reason})"
        return "BackOff", rejected if turned_away(pod) else "failed and is being recreated"
    if replica.state in ("outdated", "terminating"):
        # Name the node: a deletion that does not finish waits for the kubelet there, or for a finalizer.
        return (
            "",
            f"waits for its predecessor on node {pod.node} to go"
            if pod.node and pod.deleted_at is not None
            else "is being replaced",
        )
    if replica.state == "pending":
        return _why_unassigned(view, replica)
    return _why_scheduled(pod)


def _why_scheduled(pod: PodRecord) -> tuple[str, str]:
    for container in pod.containers:
        if container.state == "waiting" and container.reason not in ("", "ContainerCreating", "PodInitializing"):
            words = f"{container.reason} {container.message}".rstrip()
            return container.reason, f"on node {pod.node} cannot start container {container.name}: {words}"
    return "", f"is starting on node {pod.node}"
