"""Reads which autoscaling policies the labels of namespaces name, and caches them for a minute. Changes nothing.

No watch: few namespaces have the label, and it changes rarely. A stale answer costs one minute under the former policy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import structlog

from tjworker.api.labels import AUTOSCALE_POLICY
from tjworker.api.resources import NAMESPACES
from tjworker.base import Terminal
from tjworker.kube.client import KubeClient

log = structlog.get_logger(__name__)

CACHED_SECONDS = 60.0


class NamespacePolicies:
    """One per process."""

    def __init__(self, kube: KubeClient, monotonic: Callable[[], float]) -> None:
        self._kube = kube
        self._monotonic = monotonic
        self._known: Mapping[str, str] = {}
        self._listed_at: float | None = None
        self._forbidden = False

    def policies(self) -> Mapping[str, str]:
        """Namespace -> the value of its label; empty if the operator may not list namespaces. Raises Transient."""
        now = self._monotonic()
        if self._listed_at is None or now - self._listed_at >= CACHED_SECONDS:
            self._known = self._list()
            self._listed_at = now
        return self._known

    def _list(self) -> Mapping[str, str]:
        try:
            return list_policies(self._kube)
        except Terminal as error:
            # An installation for some namespaces may not list namespaces. Then the setting holds for all jobs.
            if not self._forbidden:
                log.info("labels of namespaces choose no policy: namespaces cannot be listed", error=error.message)
            self._forbidden = True
            return {}


def list_policies(kube: KubeClient) -> dict[str, str]:
    """Namespace -> the value of its label. Raises the error that the API server answers."""
    listed = [namespace["metadata"] for namespace in kube.list_all(NAMESPACES, label_selector=AUTOSCALE_POLICY)]
    return {meta["name"]: str((meta.get("labels") or {}).get(AUTOSCALE_POLICY, "")) for meta in listed}
