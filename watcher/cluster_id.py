"""The id of the cluster: the UID of the namespace kube-system, as is the custom.

All reflectors of a term share one `ClusterId`. Thread-safe.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from tjworker.api.resources import NAMESPACES
from tjworker.base import OperatorError
from tjworker.kube.client import KubeClient
from tjworker.kube.errors import NAMESPACE_GONE, NO_PERMISSION

FRESH_SECONDS = 10.0
"""How long an answer is used. The reflectors of a term list at about the same time, so one answer serves them all."""


class ClusterId:
    def __init__(self, api: KubeClient, now: Callable[[], float]) -> None:
        self._api = api
        self._now = now
        self._lock = threading.Lock()
        self._known = ""
        self._read_at: float | None = None

    def read(self) -> str:
        """The id; '' if the operator may not read the namespace, as in an install for one namespace. Raises Transient
        when the API server does not answer."""
        # Under the lock: the reflectors of a term ask at the same time, and one request serves them all.
        with self._lock:
            if self._read_at is None or self._now() >= self._read_at + FRESH_SECONDS:
                self._known = self._read_uid()
                self._read_at = self._now()
            return self._known

    def _read_uid(self) -> str:
        try:
            namespace = self._api.get(NAMESPACES, "", "kube-system")
        except OperatorError as error:
            # Without an id a restored cluster is only recognised by its versions, and no watch is resumed.
            if error.status in NO_PERMISSION or error.reason == NAMESPACE_GONE:
                return ""
            raise
        return str(namespace["metadata"]["uid"]) if namespace else ""
