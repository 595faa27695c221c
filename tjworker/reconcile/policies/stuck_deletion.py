"""Pods whose deletion does not finish: they still exist after their grace period. Pure.

The operator cannot speed it up: a finalizer holds the pod, or no kubelet confirms that its containers have ended. An
end, a suspension or a replacement waits for the pod. So the job reports the pod that has been stuck longest.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tjworker.api.model import TrainingJob
from tjworker.api.observed import PodRecord
from tjworker.api.status import FAILED_DELETE, POD_NOT_GONE, JobStatus
from tjworker.api.timefmt import to_rfc3339
from tjworker.reconcile.conditions import set_condition
from tjworker.reconcile.phase import and_more
from tjworker.reconcile.plan import Delete, Patch, Write

CONFIRM_SECONDS = 10.0
"""After the grace period a kubelet needs this long to kill the containers and to confirm it."""


@dataclass(frozen=True, slots=True)
class StuckDeletions:
    message: str = ""
    """For people; '' if no deletion is stuck."""
    next_seconds: float | None = None
    """Until the next deletion counts as stuck."""


def find_stuck_deletions(pods: Iterable[PodRecord], now: float) -> StuckDeletions:
    stuck: list[tuple[int, PodRecord]] = []
    waits: list[float] = []
    for pod in pods:
        if pod.deleted_at is None:
            continue
        # deletionTimestamp is the end of the grace period.
        seconds_left = pod.deleted_at + CONFIRM_SECONDS - now
        if seconds_left > 0:
            waits.append(seconds_left)
        else:
            stuck.append((pod.deleted_at, pod))
    wait = min(waits, default=None)
    if not stuck:
        return StuckDeletions(next_seconds=wait)
    over, first = min(stuck, key=lambda row: (row[0], row[1].name))
    others = and_more(len(stuck) - 1)
    where = f" on node {first.node}" if first.node else ""
    return StuckDeletions(
        f"pod {first.name}{where}{others} was to be gone by {to_rfc3339(over)} and is still there: a finalizer holds it"
        " (see its metadata.finalizers), or the kubelet of its node does not answer",
        wait,
    )


def report_deletions(
    job: TrainingJob,
    status: JobStatus,
    stuck: StuckDeletions,
    writes: Iterable[Write],
    reason: str,
    message: str,
    at: str,
) -> JobStatus:
    """The status of a job that waits for its pods to be deleted. The condition Running names the stuck pod. If it named
    a pod or an error before and neither is left, it gets `reason` and `message`."""
    running = status.condition("Running")
    old = running.reason if running is not None else ""
    # The API server's refusal of a delete or a patch stays as long as the pass tries one.
    if old == FAILED_DELETE and any(isinstance(w, Delete | Patch) for w in writes):
        return status
    if stuck.message:
        return set_condition(status, "Running", False, POD_NOT_GONE, stuck.message, now=at, generation=job.generation)
    if old not in (POD_NOT_GONE, FAILED_DELETE):
        return status
    return set_condition(status, "Running", False, reason, message, now=at, generation=job.generation)
