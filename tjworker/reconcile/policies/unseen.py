"""Deaths that nobody had looked at when a batch Job turned out to be Complete. Pure.

An operator that was away meanwhile, or a trainer that fails in the moment in which another finds the work done: the role is
done either way, and restartCounts must not hang on when somebody looked. What is counted stands on pods that are still there.
The Job's own `status.failed` is not asked: it also counts pods that somebody deleted, and says of none why it died.

Pods and batch Jobs come by different watches, and one may be a minute behind the other (a connection that is half-open). A Job
is Complete after its pods have ended, so a view in which they have not is older than the Job: the end waits for the pods.

Counts once: only the pass that decides the end asks, and an end is decided once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from tjworker.api.model import TrainingJob
from tjworker.api.observed import ENDED_PHASES, Observed, PodRecord
from tjworker.api.ownership import own_pods
from tjworker.api.status import JobStatus
from tjworker.api.timefmt import from_rfc3339
from tjworker.reconcile.attempts import Draft
from tjworker.reconcile.failures import describe, diagnose
from tjworker.reconcile.plan import LogTail
from tjworker.reconcile.policies.restart import Restarts, with_failures
from tjworker.reconcile.replicas import Replica, RoleView, attempt_of, stopped
from tjworker.reconcile.seats import number_of

LATE_SECONDS = 90.0
"""So far behind a watch may be, before it is noticed to be silent. A success that somebody has deleted never shows."""
LOOK_SECONDS = 5.0


def pods_are_late(job: TrainingJob, views: Mapping[str, RoleView], observed: Observed, now: float) -> bool:
    """A batch Job is Complete that shows fewer of its pods' ends than it tells of, and the rest may still come."""
    owners = {
        view.owner.uid: view.owner
        for view in views.values()
        if view.role.workload == "Job" and view.owner is not None and view.owner.condition == "Complete"
    }
    late = {
        uid: owner
        for uid, owner in owners.items()
        if owner.completed_at and now < (from_rfc3339(owner.completed_at) or 0.0) + LATE_SECONDS
    }
    if not late:
        return False
    pods = [pod for pod in own_pods(job, observed) if pod.owner_uid in late]
    succeeded = Counter(pod.owner_uid for pod in pods if pod.phase == "Succeeded")
    return any(pod.phase not in ENDED_PHASES and not pod.deleted_at for pod in pods) or any(
        succeeded[uid] < owner.succeeded for uid, owner in late.items()
    )


def count_unseen(status: JobStatus, views: Mapping[str, RoleView], now: str) -> Restarts:
    draft = Draft(status)
    failures, told = [], []
    for view in views.values():
        for replica, pod in _unseen(view):
            diagnosis = diagnose(pod, now)
            if replica is not None:
                draft.raise_pod(replica)
            draft.count(view.role.name, diagnosis.cause)
            failures.append(diagnosis.failure)
            told.append(f"{describe(diagnosis.failure)}; nobody had looked at it before its Job was complete")
    if not failures:
        return Restarts(status)
    failures.sort(key=lambda f: (f.time, f.pod))
    tails = tuple(LogTail(f.pod, f.container) for f in failures if f.container)
    return Restarts(with_failures(draft.status(), failures), tuple(told), tails)


def _unseen(view: RoleView) -> Iterator[tuple[Replica | None, PodRecord]]:
    """(the seat that it holds, if any; a failed pod that is of no attempt that has been counted)."""
    if view.role.workload != "Job" or view.owner is None or view.owner.condition != "Complete":
        return
    seated = [(replica, replica.pod) for replica in view.replicas if replica.pod is not None and not replica.final]
    for replica, pod in (*seated, *((None, pod) for pod in view.others)):
        number = number_of(pod)
        counted = number is not None and number[1] < attempt_of(view.attempts, number[0])
        if pod.phase == "Failed" and not counted and not stopped(pod):
            yield replica, pod
