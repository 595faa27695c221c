"""Deaths that no pass had looked at when a batch Job turned out to be Complete. Pure.

The operator may have been away, or a trainer may fail while another finds the work done. The role is done either way,
and restartCounts must not depend on when a pass ran. What is counted stands on pods that are still there. The Job's own
`status.failed` does not help: it also counts deleted pods, and says of none why it died.

Pods and batch Jobs come by different watches, and one may be a minute behind the other (a half-open connection). A Job
is Complete after its pods have ended, so a view in which they have not is older than the Job: the end waits for the
pods.

Counts once: only the pass that decides the end asks, and an end is decided once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tjworker.api.observed import ENDED_PHASES, PodRecord
from tjworker.api.timefmt import from_rfc3339
from tjworker.reconcile.attempts import Draft
from tjworker.reconcile.failures import describe, diagnose
from tjworker.reconcile.one_pass import Pass
from tjworker.reconcile.replicas import Replica, RoleView, attempt_of, stopped
from tjworker.reconcile.slots import ordinal_of

LATE_SECONDS = 90.0
"""A silent watch is noticed after this long at the latest. A success whose pod was deleted never shows."""
LOOK_SECONDS = 5.0


def pods_are_late(p: Pass) -> bool:
    """A Complete batch Job has finished pods that have not been observed yet, and they may still come."""
    late = {
        view.owner.uid: view.owner
        for view in p.roles.values()
        if view.role.workload == "Job"
        and view.owner is not None
        and view.owner.condition == "Complete"
        and p.now < (from_rfc3339(view.owner.completed_at) or -LATE_SECONDS) + LATE_SECONDS
    }
    pods = [pod for pod in p.pods if pod.owner_uid in late]
    succeeded = Counter(pod.owner_uid for pod in pods if pod.phase == "Succeeded")
    return any(pod.phase not in ENDED_PHASES and not pod.deleted_at for pod in pods) or any(
        succeeded[uid] < owner.succeeded for uid, owner in late.items()
    )


def count_late_failures(p: Pass) -> Pass:
    """For a pass that ends the job: a later one does not ask."""
    draft = Draft(p.status)
    failures, told = [], []
    for view in p.roles.values():
        for replica, pod in _late(view):
            diagnosis = diagnose(pod, p.at)
            if replica is not None:
                draft.raise_pod(replica)
            draft.count(view.role.name, diagnosis.cause)
            failures.append(diagnosis.failure)
            told.append(f"{describe(diagnosis.failure)}; it was found after its batch Job was complete")
    failures.sort(key=lambda f: (f.time, f.pod))
    return p.with_status(draft.status()).add_failures(failures).log_decisions(*told)


def _late(view: RoleView) -> Iterator[tuple[Replica | None, PodRecord]]:
    """(the replica whose slot it has, if any; a failed pod that is of no attempt that has been counted)."""
    if view.role.workload != "Job" or view.owner is None or view.owner.condition != "Complete":
        return
    in_slots = [(replica, replica.pod) for replica in view.replicas if replica.pod is not None and not replica.final]
    for replica, pod in (*in_slots, *((None, pod) for pod in view.others)):
        ordinal = ordinal_of(pod)
        counted = ordinal is not None and ordinal[1] < attempt_of(view.attempts, ordinal[0])
        if pod.phase == "Failed" and not counted and not stopped(pod):
            yield replica, pod
