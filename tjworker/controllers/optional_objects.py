"""When to create an optional object again that the API server refused, such as TensorBoard's pod.

The memory of one process, and an optimisation: another process, or this one after a restart, tries once more. Pure but
for that memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tjworker.base import Invalid, JobKey, OperatorError, Terminal
from tjworker.controllers.pass_end import TERMINAL_RETRY_SECONDS
from tjworker.reconcile.plan import Create, Plan

OPTIONAL_RETRY_SECONDS = 30.0
"""After a refusal that may pass, such as a quota. The wait does not grow: no job depends on the object."""
MAX_KEYS = 1_000
Bodies = Mapping[str, Mapping[str, Any]]
"""Name of an optional object -> its manifest."""


class OptionalRetries:
    """Holds back creates of refused optional objects, however many passes their jobs have meanwhile."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._refused: dict[JobKey, tuple[float, Bodies]] = {}
        """Key -> when to try again (monotonic seconds), and what was refused."""

    def hold_back(self, key: JobKey, plan: Plan) -> Plan:
        """The plan without the creates that must wait; its next pass begins when they need not any more."""
        until, refused = self._refused.get(key, (0.0, {}))
        left = until - self._monotonic()
        wanted = _optional_bodies(plan)
        # A manifest that differs from the refused one, as after an edit, is tried at once.
        if left <= 0 or not wanted or wanted != refused:
            self._refused.pop(key, None)
            return plan
        writes = tuple(w for w in plan.writes if not (isinstance(w, Create) and w.optional))
        wait = plan.requeue_after_seconds
        return replace(plan, writes=writes, requeue_after_seconds=left if wait is None else min(wait, left))

    def note_refusal(self, key: JobKey, plan: Plan, error: OperatorError) -> float:
        """Remember that the API server refused the plan's optional objects. Returns the seconds until the next try."""
        if len(self._refused) >= MAX_KEYS:
            self._refused.clear()
        seconds = TERMINAL_RETRY_SECONDS if isinstance(error, (Invalid, Terminal)) else OPTIONAL_RETRY_SECONDS
        self._refused[key] = self._monotonic() + seconds, _optional_bodies(plan)
        return seconds


def _optional_bodies(plan: Plan) -> Bodies:
    return {w.name: w.body for w in plan.writes if isinstance(w, Create) and w.optional}
