"""Finds out which PriorityClasses the cluster has: reads them by name, and caches each answer for a minute. Changes
nothing.

No watch: only jobs with a `spec.priority` need them, and classes live for years. A stale answer costs little: a pod
without its class, or a create that the API server refuses until the minute is over.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from tjworker.api.resources import PRIORITYCLASSES
from tjworker.base import Terminal
from tjworker.kube.client import KubeClient

log = structlog.get_logger(__name__)

CACHED_SECONDS = 60.0
MOST_CACHED = 1_000
"""Users choose the names, so the cache must be bounded."""


class PriorityClasses:
    """One per process."""

    def __init__(self, kube: KubeClient, monotonic: Callable[[], float]) -> None:
        self._kube = kube
        self._monotonic = monotonic
        self._known: dict[str, tuple[str, float]] = {}

    def find(self, name: str) -> str:
        """The name if the class exists; '' if it does not, or may not be read. Raises Transient."""
        now = self._monotonic()
        known = self._known.get(name)
        if known is not None and now - known[1] < CACHED_SECONDS:
            return known[0]
        if len(self._known) >= MOST_CACHED:
            self._known.clear()
        found = self._ask(name)
        self._known[name] = (found, now)
        return found

    def _ask(self, name: str) -> str:
        try:
            return name if self._kube.get(PRIORITYCLASSES, "", name) is not None else ""
        except Terminal as error:
            # An installation for some namespaces may not read it. Its pods get the label without the class.
            log.info("cannot read PriorityClass", name=name, error=error.message)
            return ""
