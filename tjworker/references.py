"""The objects that jobs name in their specs, such as a ClusterTrainingRuntime: read by name, and kept. Changes nothing.

No job meets an older object than its user saw when the job was created: what is kept answers for jobs that are not
newer than its reading, by the resourceVersion that came with it. So a burst of jobs costs one request, and so does the
first job after a pause. What is not there is not kept: it may come at any moment.
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
    """One a process."""

    def __init__(self, kube: KubeClient) -> None:
        self._kube = kube
        self._kept: dict[_Key, tuple[int, Json]] = {}
        """With the version of the cluster at which it was read."""

    def known(self, job: InvalidJob) -> Json | None:
        """What the job names, where that was read after the job was last written; None: `find` must ask."""
        read_at, found = self._kept.get(_key(job), (0, None))
        return found if read_at >= job.resource_version else None

    def find(self, job: InvalidJob) -> Json | None:
        """What the job names, as it is now; None when it is not there. Raises Transient, and Terminal where it may not
        be read."""
        key = resource, namespace, name = _key(job)
        # A list, although of one object: its version is that of the cluster at this moment.
        page = self._kube.list_page(resource, namespace, field_selector=f"metadata.name={name}")
        found = next((one for one in page.items if one.get("metadata", {}).get("name") == name), None)
        self._kept.pop(key, None)
        if found is not None:
            if len(self._kept) >= MOST_CACHED:
                self._kept.clear()
            self._kept[key] = page.resource_version, found
        return found


def _key(job: InvalidJob) -> _Key:
    named = job.missing
    assert named is not None  # noqa: S101  the caller has looked
    return named.resource, job.name.namespace if RESOURCES[named.resource].namespaced else "", named.name
