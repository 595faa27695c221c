"""A replica that fails again and again rests between its attempts, as in the kubelet's crash loop. Pure.

The first two restarts for failures of the program come at once. The next rest takes 10 s, and each further one twice
as long, up to 5 minutes. A pod that ran for 10 minutes resets the count. A pod that a kubelet rejects rests from the
first time, 20 s, doubling likewise: otherwise the scheduler would choose the same node again at once.

The status holds the counts (`status.attempts.<role>.crashes`, `.rejections`) and the ends of the rests (`.resting`, by
the operator's clock). Until then the failed pod stays, so that its log can be read.

A lost node, an eviction or a deletion by a user neither rests nor counts. But when the third pod in a row vanishes
before it has started (`.vanished`), the replica rests: something in the cluster deletes its pods.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from tjworker.api.status import FAILED_CREATE
from tjworker.api.timefmt import from_rfc3339
from tjworker.reconcile.attempts import Draft
from tjworker.reconcile.one_pass import Pass
from tjworker.reconcile.replicas import Replica, RoleView
from tjworker.reconcile.rests import CRASHED_SECONDS, LONGEST_SECONDS, TURNED_AWAY_SECONDS, rest_seconds

AT_ONCE = 2
"""Restarts for failures of the program that come without a rest."""
VANISHES_WITHIN_SECONDS = 10.0
"""A pod that is still missing later than this after the status announced it may never have been created: its pass may
have died (a lease is longer) or been cut off (`executor.PASS_SECONDS`). That is rare, so it needs no rest."""


@dataclass(frozen=True, slots=True)
class Resting:
    pods: frozenset[str] = frozenset()
    """Names of failed pods that stay for now, and of pods that are not created yet."""
    next_seconds: float | None = None
    """When the first rest is over."""


def find_resting(views: Mapping[str, RoleView], now: float) -> Resting:
    waits: dict[str, float] = {}
    for view in views.values():
        for replica in view.replicas if view.rests_until else ():
            seconds = view.rests_until.get(replica.index, 0) - now
            if seconds > 0 and _is_waiting(view, replica):
                waits[replica.name] = min(seconds, LONGEST_SECONDS)
    return Resting(frozenset(waits), min(waits.values(), default=None))


def _is_waiting(view: RoleView, replica: Replica) -> bool:
    pod = replica.pod
    if pod is None:
        return replica.state == "missing" and replica.index in view.unmade_until
    # The failed pod stays until the rest is over, so that its log can be read.
    return replica.state == "outdated" and view.has_failed(pod) and pod.deleted_at is None


def after_crash(crashes_before: int, now: float) -> int | None:
    """The end of the rest after this crash, in Unix seconds; None if there is none."""
    return _until(CRASHED_SECONDS, crashes_before - AT_ONCE, now) if crashes_before >= AT_ONCE else None


def turn_away(draft: Draft, replica: Replica, p: Pass) -> None:
    """Begin a new attempt after a kubelet rejected the pod before it started, with a rest from the first time."""
    draft.rest(replica, after_rejection(draft.turn_away(replica), p.now), p.now)


def vanish(draft: Draft, replica: Replica, p: Pass) -> None:
    """Count a pod that vanished before it started. Something in the cluster may delete each new pod."""
    if (until := after_crash(draft.vanish(replica), p.now)) is not None:
        draft.rest(replica, until, p.now)


def vanished_unseen(p: Pass, view: RoleView, replica: Replica) -> bool:
    """True if the replica's pod was created a moment ago and has vanished between two passes."""
    announced = from_rfc3339(p.job.status.last_reconcile_time)
    if replica.state != "missing" or replica.index not in view.made or announced is None:
        return False
    if p.now - announced >= VANISHES_WITHIN_SECONDS:
        return False
    running = p.job.status.condition("Running")
    # If the API server refuses the pods, this one was never created.
    return running is None or running.reason != FAILED_CREATE


def after_rejection(rejections_before: int, now: float) -> int:
    """The end of the rest after this rejection, in Unix seconds."""
    return _until(TURNED_AWAY_SECONDS, rejections_before, now)


def _until(first_seconds: float, times: int, now: float) -> int:
    # Rounded up: the status has whole seconds.
    return math.ceil(now + rest_seconds(times, first_seconds))
