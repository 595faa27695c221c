"""Which PriorityClasses the cluster has: asked by name, remembered for a minute. Changes nothing.

Not watched: only jobs with a `spec.priority` want to know, a class is made once and for years, and what an old answer costs
is little: a pod without its class, or a create that the API server refuses until the minute is over.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from tjworker.base import Terminal
from tjworker.kube.port import KubeApi

log = structlog.get_logger(__name__)

REMEMBERED_SECONDS = 60.0
MOST_REMEMBERED = 1_000
"""Names are the users' own."""


class PriorityClasses:
    """One a process."""

    def __init__(self, kube: KubeApi, monotonic: Callable[[], float]) -> None:
        self._kube = kube
        self._monotonic = monotonic
        self._known: dict[str, tuple[str, float]] = {}

    def find(self, name: str) -> str:
        """The name, when there is such a class; '' when there is none, or when we may not know. Raises Transient."""
        now = self._monotonic()
        known = self._known.get(name)
        if known is not None and now - known[1] < REMEMBERED_SECONDS:
            return known[0]
        if len(self._known) >= MOST_REMEMBERED:
            self._known.clear()
        found = self._ask(name)
        self._known[name] = (found, now)
        return found

    def _ask(self, name: str) -> str:
        try:
            return name if self._kube.get("priorityclasses", "", name) is not None else ""
        except Terminal as error:
            # A namespaced install reads nothing of the whole cluster: pods then get the label alone.
            log.info("cannot look for a PriorityClass", name=name, error=error.message)
            return ""
