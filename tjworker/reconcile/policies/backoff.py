"""A replica that fails again and again rests between its attempts, as kubelet's crash loop does. Pure.

The first two restarts for failures of the program come at once; then 10 s, doubling to 5 minutes. A pod that ran for 10
minutes begins anew. What a kubelet turns away rests from the first time, 20 s, doubling likewise: the scheduler would
send the next one to the same node at once. What counts is data (`status.attempts.<role>.crashes`, `.rejections`), and
so is until when (`.resting`), by the operator's own clock. The failed pod itself stays for that long (its log can be
read meanwhile), and its deletion, which makes room for the next attempt, waits. A lost node, an eviction or a user's
deletion neither rests nor counts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from tjworker.api.indices import MAX_INDEX, ungroup_indices
from tjworker.api.observed import PodRecord
from tjworker.api.timefmt import from_rfc3339, to_rfc3339
from tjworker.reconcile.failures import counted
from tjworker.reconcile.replicas import Replica, RoleView
from tjworker.reconcile.rests import LONGEST_SECONDS, TURNED_AWAY_SECONDS, rest_seconds

AT_ONCE = 2
FIRST_SECONDS = 10.0
FORGIVEN_AFTER_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Resting:
    pods: frozenset[str] = frozenset()
    """Failed pods that stay for now."""
    next_seconds: float | None = None


def find_resting(views: Mapping[str, RoleView], now: float) -> Resting:
    left: dict[str, float] = {}
    for view in views.values():
        until = ungroup_indices(view.attempts.resting, MAX_INDEX)
        for replica in view.replicas if until else ():
            seconds = (from_rfc3339(until.get(replica.index, "")) or 0.0) - now
            if seconds > 0 and replica.pod is not None and _waits(replica, replica.pod):
                left[replica.pod.name] = min(seconds, LONGEST_SECONDS)
    return Resting(frozenset(left), min(left.values(), default=None))


def _waits(replica: Replica, pod: PodRecord) -> bool:
    return replica.state == "outdated" and pod.phase == "Failed" and not pod.deleted_at


def after_crash(crashes_before: int, now: float) -> str:
    """Until when it rests; '' where it does not."""
    return _until(FIRST_SECONDS, crashes_before - AT_ONCE, now) if crashes_before >= AT_ONCE else ""


def after_rejection(rejections_before: int, now: float) -> str:
    return _until(TURNED_AWAY_SECONDS, rejections_before, now)


def _until(first_seconds: float, times: int, now: float) -> str:
    return to_rfc3339(math.ceil(now + rest_seconds(times, first_seconds)))


def ran_long(pod: PodRecord) -> bool:
    """Both times are of its node's clock."""
    ended = max((t for c in counted(pod) if (t := from_rfc3339(c.finished_at)) is not None), default=None)
    began = from_rfc3339(pod.started_at)
    return ended is not None and began is not None and ended - began >= FORGIVEN_AFTER_SECONDS
