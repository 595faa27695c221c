"""Which cluster this is. A resourceVersion means something only in the history of one cluster: in another one, or in the
same one restored from a backup, numbers begin lower, and what Redis remembers would hide every new object of an old name.

The identity is the UID of the namespace kube-system, as everybody uses it who needs one; '' where it may not be read (an
install for one namespace). Shared by all informers of a term; thread-safe. Reads at most once in a while.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from tjworker.base import OperatorError
from tjworker.kube.errors import NAMESPACE_GONE, NO_PERMISSION
from tjworker.kube.port import KubeApi

FRESH_SECONDS = 10.0
"""The informers of a term list at about the same time: one answer serves them all."""


class ClusterId:
    def __init__(self, api: KubeApi, now: Callable[[], float]) -> None:
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
            found = self._api.get("namespaces", "", "kube-system")
        except OperatorError as error:
            if error.status in NO_PERMISSION or error.reason == NAMESPACE_GONE:
                return ""
            raise
        return str(found["metadata"]["uid"]) if found else ""
