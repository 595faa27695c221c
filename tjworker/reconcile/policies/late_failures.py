"""Deaths of pods that no pass had seen when a batch Job became Complete. Pure.

The operator may have been down, or a trainer may fail while another finds the work done. The role is done either way,
and restartCounts must not depend on when a pass ran. So the failed pods that still exist are counted. The Job's own
`status.failed` does not help: it also counts deleted pods, and does not say why a pod died.

Pods and batch Jobs come through different watches. With a half-open connection one may be a minute behind the other. A
Job is Complete only after its pods have ended. So if they have not ended in the view, the pods of the view are older
than its Job, and the end waits for them.

Counts each death once: only the pass that decides the end calls `count_late_failures`, and an end is decided once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tjworker.api.observed import ENDED_PHASES, PodRecord
from tjworker.reconcile.attempts import Draft
from tjworker.reconcile.failures import describe, diagnose
from tjworker.reconcile.one_pass import Pass
from tjworker.reconcile.replicas import Replica, RoleView, attempt_of, stopped
from tjworker.reconcile.slots import ordinal_of

LATE_SECONDS = 90.0
"""How long the end waits at most: a silent watch is noticed by then. A success whose pod was deleted never shows."""
LOOK_SECONDS = 5.0
"""Until the next look at the pods."""


def pods_are_late(p: Pass) -> bool:
    """True if the view lacks ended pods of a Complete batch Job, and may still get them."""
    late = {
        view.owner.uid: view.owner
        for view in p.roles.values()
        if view.role.workload == "Job"
        and view.owner is not None
        and view.owner.condition == "Complete"
        and view.owner.completed_at is not None
        and p.now < view.owner.completed_at + LATE_SECONDS
    }
    pods = [pod for pod in p.pods if pod.owner_uid in late]
    # Either a pod has not ended in the view, or the Job has counted more successes than the view shows.
    succeeded = Counter(pod.owner_uid for pod in pods if pod.phase == "Succeeded")
    return any(pod.phase not in ENDED_PHASES and pod.deleted_at is None for pod in pods) or any(
        succeeded[uid] < owner.succeeded for uid, owner in late.items()
    )


def count_late_failures(p: Pass) -> Pass:
    """Count the deaths that no pass has seen. Call it only in the pass that ends the job."""
    draft = Draft(p.status)
    failures, decisions = [], []
    for view in p.roles.values():
        for replica, pod in _uncounted(view):
            diagnosis = diagnose(pod, p.at)
            if replica is not None:
                draft.raise_pod(replica)
            draft.count(view.role.name, diagnosis.cause)
            failures.append(diagnosis.failure)
            decisions.append(f"{describe(diagnosis.failure)}; it was found after its batch Job was complete")
    failures.sort(key=lambda f: (f.time, f.pod))
    return p.with_status(draft.status()).add_failures(failures).log_decisions(*decisions)


def _uncounted(view: RoleView) -> Iterator[tuple[Replica | None, PodRecord]]:
    """(replica in whose slot the pod is, or None; failed pod whose death is not counted)."""
    if view.role.workload != "Job" or view.owner is None or view.owner.condition != "Complete":
        return
    in_slots = [(replica, replica.pod) for replica in view.replicas if replica.pod is not None and not replica.final]
    for replica, pod in (*in_slots, *((None, pod) for pod in view.others)):
        ordinal = ordinal_of(pod)
        counted = ordinal is not None and ordinal[1] < attempt_of(view.attempts, ordinal[0])
        if pod.phase == "Failed" and not counted and not stopped(pod):
            yield replica, pod
