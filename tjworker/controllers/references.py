"""Reads and caches the objects that jobs name in their specs, such as a ClusterTrainingRuntime. Changes nothing.

A cached object serves every job until the watch shows a change of an object of its kind, so that a job costs no
request. As with the informers of other operators, a job that is created in the moment after an edit may get the object
from before it. Where the kind is not watched, because the watcher lacks the right, a cached object serves only jobs
whose resourceVersion is not newer than that of its reading. A missing object is not cached, as it may be created at any
moment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf

import orjson

from tjworker.api.model import InvalidJob
from tjworker.base import GroupResource, Json
from tjworker.kube.client import KubeClient
from tjworker.kube.resources import RESOURCES

MOST_CACHED = 256
MOST_BYTES = 64 << 10
"""Size of a cached object, as JSON; in memory it takes ten times that. Users choose number, names and size of such
objects, so the cache must be bounded: a larger object is read for each job."""
CACHED_SECONDS = 300.0
"""Bounds the harm of a watch that was forbidden meanwhile, or of a cluster that was restored from a backup: nothing
shows either."""
_Key = tuple[GroupResource, str, str]


@dataclass(frozen=True, slots=True)
class _ReadReference:
    found: Json
    version: int
    """resourceVersion of the cluster at the reading."""
    at: float


class References:
    """One per process."""

    def __init__(self, kube: KubeClient, monotonic: Callable[[], float]) -> None:
        self._kube = kube
        self._monotonic = monotonic
        self._kept: dict[_Key, _ReadReference] = {}

    def known(self, job: InvalidJob, seen: Mapping[GroupResource, int]) -> Json | None:
        """The object that the job names, from the cache; None if `find` must read it. `seen`: kind of objects ->
        resourceVersion of the last change that the watch has shown."""
        last = self._kept.get(_key(job))
        if last is None or self._monotonic() - last.at >= CACHED_SECONDS:
            return None
        assert job.missing is not None  # noqa: S101  callers pass only jobs that miss an object
        changed = seen.get(job.missing.resource, 0)
        if changed:
            return last.found if last.version >= changed else None
        # Nothing shows whether the object of a refused job was mended.
        return last.found if last.version >= job.resource_version and not job.status.refused else None

    def find(self, job: InvalidJob) -> Json | None:
        """The object that the job names, as it is now; None if it does not exist. Raises Transient, and Terminal if the
        operator may not read it."""
        key = resource, namespace, name = _key(job)
        # A list of one object instead of a GET: a list's resourceVersion is the cluster's present one.
        page = self._kube.list_page(resource, namespace, field_selector=f"metadata.name={name}")
        found = next((item for item in page.items if item.get("metadata", {}).get("name") == name), None)
        self._kept.pop(key, None)
        if found is not None and _size(found) <= MOST_BYTES:
            if len(self._kept) >= MOST_CACHED:
                self._kept.clear()
            self._kept[key] = _ReadReference(found, page.resource_version, self._monotonic())
        return found


def _size(found: Json) -> float:
    """Bytes of the object as JSON; infinite for one that is nested too deep to be written."""
    try:
        return len(orjson.dumps(found))
    except orjson.JSONEncodeError:
        return inf


def _key(job: InvalidJob) -> _Key:
    named = job.missing
    assert named is not None  # noqa: S101  callers pass only jobs that miss an object
    return named.resource, job.name.namespace if RESOURCES[named.resource].namespaced else "", named.name
