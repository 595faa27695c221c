"""The pure half of the Job controller: counting, the pod failure back-off, conditions, completion indexes.

Follows kubernetes v1.36 `pkg/controller/job` (job_controller.go, backoff_utils.go, indexed_job_utils.go). No I/O, no
clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from localcluster.objects import condition, phase_of, seconds_of
from localcluster.wire import Json

TRACKING_FINALIZER = "batch.kubernetes.io/job-tracking"
INDEX_ANNOTATION = "batch.kubernetes.io/job-completion-index"
BACKOFF_FIRST_SECONDS = 10.0
BACKOFF_MAX_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Backoff:
    """How often pods failed since the last success, and when the last one did."""

    failures: int = 0
    last_failure_seconds: float | None = None

    def after(self, succeeded: list[Json], failed: list[Json]) -> Backoff:
        """With pods that have newly finished."""
        failures = sorted(finished_seconds(p) for p in failed)
        if not succeeded:
            if not failures:
                return self
            return replace(self, failures=self.failures + len(failures), last_failure_seconds=failures[-1])
        # `newBackoffRecord` counts only failures after the last success.
        last_success = max(finished_seconds(p) for p in succeeded)
        since = [t for t in failures if t > last_success]
        return Backoff(len(since), since[-1] if since else None)

    def remaining_seconds(self, now: float) -> float:
        if self.failures == 0 or self.last_failure_seconds is None:
            return 0.0
        doubled: int = 1 << min(self.failures - 1, 30)
        delay = min(BACKOFF_MAX_SECONDS, BACKOFF_FIRST_SECONDS * doubled)
        left: float = self.last_failure_seconds + delay - now
        return max(0.0, left)


def finished_seconds(pod: Json) -> float:
    """When the pod ended: its containers, its Ready=False condition, its deletion, its creation, whichever is known
    first."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    ends = [((s.get("state") or {}).get("terminated") or {}).get("finishedAt") for s in statuses]
    if ends and all(ends):
        return max(seconds_of(t) for t in ends if t)
    ready = condition(pod, "Ready")
    if ready is not None and ready["status"] == "False" and ready.get("lastTransitionTime"):
        return seconds_of(ready["lastTransitionTime"])
    meta = pod["metadata"]
    if "deletionTimestamp" in meta:
        return seconds_of(meta["deletionTimestamp"]) - float(meta.get("deletionGracePeriodSeconds", 0))
    return seconds_of(meta["creationTimestamp"])


def has_finalizer(pod: Json) -> bool:
    return TRACKING_FINALIZER in (pod["metadata"].get("finalizers") or ())


def counts_as_failed(pod: Json, job: Json) -> bool:
    """A deleted pod counts as failed at once, unless only failed pods are replaced."""
    if phase_of(pod) == "Failed":
        return True
    # Only the phase decides under this policy: a terminating pod may still succeed.
    if job["spec"].get("podReplacementPolicy") == "Failed":
        return False
    return "deletionTimestamp" in pod["metadata"] and phase_of(pod) != "Succeeded"


def is_finished(job: Json) -> bool:
    return any((c := condition(job, kind)) is not None and c["status"] == "True" for kind in ("Complete", "Failed"))


def past_backoff_on_failure(job: Json, pods: Iterable[Json]) -> bool:
    spec = job["spec"]
    # `pastBackoffLimitOnFailure`: with Never whole pods fail, which `status.failed` counts.
    if spec["template"]["spec"].get("restartPolicy") != "OnFailure":
        return False
    restarts = 0
    for pod in pods:
        if phase_of(pod) in ("Running", "Pending"):
            status = pod.get("status") or {}
            for field in ("initContainerStatuses", "containerStatuses"):
                restarts += sum(s.get("restartCount", 0) for s in status.get(field) or ())
    limit = spec.get("backoffLimit", 6)
    return restarts > 0 if limit == 0 else restarts >= limit


def set_condition(conditions: list[Json], kind: str, value: str, reason: str, message: str, now: str) -> bool:
    """In place, as ensureJobConditionStatus: a condition that is not there and would be False is not added."""
    for have in conditions:
        if have["type"] == kind:
            if (have["status"], have.get("reason"), have.get("message")) == (value, reason, message):
                return False
            moved = now if have["status"] != value else have.get("lastTransitionTime", now)
            have.update(status=value, reason=reason, message=message, lastProbeTime=now, lastTransitionTime=moved)
            return True
    if value == "False":
        return False
    conditions.append(new_condition(kind, reason, message, now))
    return True


def new_condition(kind: str, reason: str, message: str, now: str) -> Json:
    return {
        "type": kind,
        "status": "True",
        "lastProbeTime": now,
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    }


def index_of(pod: Json) -> int | None:
    text = (pod["metadata"].get("annotations") or {}).get(INDEX_ANNOTATION, "")
    return int(text) if text.isdigit() else None


def parse_indexes(text: str) -> set[int]:
    """`0-2,5` as a set."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def format_indexes(indexes: set[int]) -> str:
    """A set as `0-2,5`; two neighbours are written `0,1`, as Kubernetes does."""
    parts: list[str] = []
    run: list[int] = []
    for index in [*sorted(indexes), None]:
        if run and (index is None or index != run[-1] + 1):
            parts += (
                [str(run[0])] if len(run) == 1 else [f"{run[0]},{run[1]}"] if len(run) == 2 else [f"{run[0]}-{run[-1]}"]
            )
            run = []
        if index is not None:
            run.append(index)
    return ",".join(parts)
