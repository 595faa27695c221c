"""Reads and caches the objects that jobs name in their specs, such as a ClusterTrainingRuntime. Changes nothing.

A job never gets an older object than its user saw when creating the job: a cached object serves only jobs whose
resourceVersion is not newer than that of its reading. A burst of jobs costs one request, and so does the first job
after a pause. A missing object is not cached, as it may be created at any moment.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tjworker.api.model import InvalidJob
from tjworker.base import GroupResource
from tjworker.kube.client import KubeClient
from tjworker.kube.resources import RESOURCES

MOST_CACHED = 256
"""Users choose the names, so the cache must be bounded."""
Json = Mapping[str, Any]
_Key = tuple[GroupResource, str, str]


class References:
    """One per process."""

    def __init__(self, kube: KubeClient) -> None:
        self._kube = kube
        self._kept: dict[_Key, tuple[int, Json]] = {}
        """Name of an object -> (the cluster's resourceVersion at the reading, the object)."""

    def known(self, job: InvalidJob) -> Json | None:
        """The object that the job names, if it was read after the job's last write; None if `find` must read it."""
        read_at, cached = self._kept.get(_key(job), (0, None))
        return cached if read_at >= job.resource_version else None

    def find(self, job: InvalidJob) -> Json | None:
        """The object that the job names, as it is now; None if it does not exist. Raises Transient, and Terminal if the
        operator may not read it."""
        key = resource, namespace, name = _key(job)
        # A list of one object instead of a GET: a list's resourceVersion is the cluster's present one.
        page = self._kube.list_page(resource, namespace, field_selector=f"metadata.name={name}")
        found = next((item for item in page.items if item.get("metadata", {}).get("name") == name), None)
        self._kept.pop(key, None)
        if found is not None:
            if len(self._kept) >= MOST_CACHED:
                self._kept.clear()
            self._kept[key] = page.resource_version, found
        return found


def _key(job: InvalidJob) -> _Key:
    named = job.missing
    assert named is not None  # noqa: S101  callers pass only jobs that miss an object
    return named.resource, job.name.namespace if RESOURCES[named.resource].namespaced else "", named.name
