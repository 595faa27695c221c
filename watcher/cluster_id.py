"""Which cluster this is: the UID of the namespace kube-system, as is the custom; '' where it may not be read (an
install for one namespace). Shared by all reflectors of a term; thread-safe. Reads at most once in a while.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from tjworker.api.resources import NAMESPACES
from tjworker.base import OperatorError
from tjworker.kube.client import KubeClient
from tjworker.kube.errors import NAMESPACE_GONE, NO_PERMISSION

FRESH_SECONDS = 10.0
"""The reflectors of a term list at about the same time: one answer serves them all."""


class ClusterId:
    def __init__(self, api: KubeClient, now: Callable[[], float]) -> None:
        self._api = api
        self._now = now
        self._lock = threading.Lock()
        self._known = ""
        self._read_at: float | None = None

    def read(self) -> str:
        """Raises Transient when the API server does not answer."""
        with self._lock:
            if self._read_at is None or self._now() >= self._read_at + FRESH_SECONDS:
                self._known = self._ask()
                self._read_at = self._now()
            return self._known

    def _ask(self) -> str:
        try:
            found = self._api.get(NAMESPACES, "", "kube-system")
        except OperatorError as error:
            if error.status in NO_PERMISSION or error.reason == NAMESPACE_GONE:
                return ""
            raise
        return str(found["metadata"]["uid"]) if found else ""
