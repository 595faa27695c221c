"""A replica that crashes again and again rests between its attempts, as kubelet's crash loop does. Pure.

The first two restarts come at once; then 10 s, doubling to 5 minutes. What counts is already data: the attempt in the
failed pod's label says how often, its container says since when. So the failed pod itself stays for that long (its log
can be read meanwhile), and its deletion, which makes room for the next attempt, waits. A pod that ran for 10 minutes
begins anew. Only the application's own failures rest: a lost node, an eviction or a user's deletion is replaced at
once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tjworker.api.observed import PodRecord
from tjworker.api.timefmt import from_rfc3339
from tjworker.reconcile.failures import counted, diagnose
from tjworker.reconcile.replicas import RoleView, pod_attempt

AT_ONCE = 2
FIRST_SECONDS = 10.0
LONGEST_SECONDS = 300.0
FORGIVEN_AFTER_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Resting:
    pods: frozenset[str] = frozenset()
    """Failed pods that stay for now."""
    next_seconds: float | None = None


def find_resting(views: Mapping[str, RoleView], now: float) -> Resting:
    left = {
        r.pod.name: seconds
        for view in views.values()
        for r in view.replicas
        if r.state == "outdated" and r.pod is not None and (seconds := _rest_seconds(r.pod, now)) > 0
    }
    return Resting(frozenset(left), min(left.values(), default=None))


def _rest_seconds(pod: PodRecord, now: float) -> float:
    tries = pod_attempt(pod) - AT_ONCE
    if tries < 0 or pod.phase != "Failed" or pod.deleted_at or pod.lost or diagnose(pod, "").cause != "application":
        return 0.0
    ended = max((t for c in counted(pod) if (t := from_rfc3339(c.finished_at)) is not None), default=None)
    began = from_rfc3339(pod.started_at or pod.created_at)
    if ended is None or (began is not None and ended - began >= FORGIVEN_AFTER_SECONDS):
        return 0.0
    return ended + min(LONGEST_SECONDS, FIRST_SECONDS * 2.0 ** min(tries, 10)) - now
