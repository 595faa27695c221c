"""A replica that fails again and again rests between its attempts, as kubelet's crash loop does. Pure.

The first two restarts for failures of the program come at once; then 10 s, doubling to 5 minutes. A pod that ran for 10
minutes begins anew. What a kubelet turns away rests from the first time, 20 s, doubling likewise: the scheduler would
send the next one to the same node at once. What counts is data (`status.attempts.<role>.crashes`, `.rejections`), and
so is until when (`.resting`), by the operator's own clock. The failed pod itself stays for that long (its log can be
read meanwhile), and its deletion, which makes room for the next attempt, waits. A lost node, an eviction or a user's
deletion neither rests nor counts; unless the third pod in a row goes before it has started (`.vanished`): then it is
something in the cluster that deletes them, as fast as they are made.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from tjworker.api.indices import MAX_INDEX, ungroup_indices
from tjworker.api.status import FAILED_CREATE
from tjworker.api.timefmt import from_rfc3339, to_rfc3339
from tjworker.reconcile.attempts import Draft
from tjworker.reconcile.one_pass import Pass
from tjworker.reconcile.replicas import Replica, RoleView
from tjworker.reconcile.rests import CRASHED_SECONDS, LONGEST_SECONDS, TURNED_AWAY_SECONDS, rest_seconds

AT_ONCE = 2
VANISHES_WITHIN_SECONDS = 10.0
"""A pod that is missing for longer since the status said that it is made may not have been made: its pass died (a lease
is longer), or was cut off (`executor.PASS_SECONDS`). So seldom it may be made without a rest."""


@dataclass(frozen=True, slots=True)
class Resting:
    pods: frozenset[str] = frozenset()
    """By name: failed ones that stay for now, and such as are not made yet."""
    next_seconds: float | None = None


def find_resting(views: Mapping[str, RoleView], now: float) -> Resting:
    left: dict[str, float] = {}
    for view in views.values():
        until = ungroup_indices(view.attempts.resting, MAX_INDEX)
        for replica in view.replicas if until else ():
            seconds = (from_rfc3339(until.get(replica.index, "")) or 0.0) - now
            if seconds > 0 and _waits(view, replica):
                left[replica.name] = min(seconds, LONGEST_SECONDS)
    return Resting(frozenset(left), min(left.values(), default=None))


def _waits(view: RoleView, replica: Replica) -> bool:
    pod = replica.pod
    if pod is None:
        return replica.state == "missing" and replica.index in view.unmade_until
    return replica.state == "outdated" and view.has_failed(pod) and not pod.deleted_at


def after_crash(crashes_before: int, now: float) -> str:
    """Until when it rests; '' where it does not."""
    return _until(CRASHED_SECONDS, crashes_before - AT_ONCE, now) if crashes_before >= AT_ONCE else ""


def turn_away(draft: Draft, replica: Replica, p: Pass) -> None:
    """A kubelet has turned its pod away before it started: it rests from the first time."""
    draft.rest(replica, after_rejection(draft.turn_away(replica), p.now), p.at)


def vanish(draft: Draft, replica: Replica, p: Pass) -> None:
    """A pod of it has gone before it started: somebody deletes them, maybe as fast as they are made."""
    if until := after_crash(draft.vanish(replica), p.now):
        draft.rest(replica, until, p.at)


def vanished_unseen(p: Pass, view: RoleView, replica: Replica) -> bool:
    """Its pod was made a moment ago, and there is none. (Where the API server refuses one, none was made.)"""
    told = from_rfc3339(p.job.status.last_reconcile_time)
    if replica.state != "missing" or replica.index not in view.made or told is None:
        return False
    if p.now - told >= VANISHES_WITHIN_SECONDS:
        return False
    running = p.job.status.condition("Running")
    return running is None or running.reason != FAILED_CREATE


def after_rejection(rejections_before: int, now: float) -> str:
    return _until(TURNED_AWAY_SECONDS, rejections_before, now)


def _until(first_seconds: float, times: int, now: float) -> str:
    return to_rfc3339(math.ceil(now + rest_seconds(times, first_seconds)))
