"""Find orphans in the cluster and delete them: the effects around `reconcile.orphans`. Run by beat, safe to run twice.

Reads the API server, not the projection: what is to be deleted for good must be true. Lists carry a label selector and come
in pages. A kind that is not installed, or may not be listed, is passed over.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import structlog

from tjworker.api import dialects, labels
from tjworker.api.model import CleanPodPolicy, TrainingJob
from tjworker.base import Conflict, JobName, OperatorError, Terminal, Uid
from tjworker.kube.errors import NOT_INSTALLED
from tjworker.kube.port import KubeApi
from tjworker.kube.resources import JOB_PLURALS
from tjworker.reconcile.orphans import COLLECTED, Candidate, Keeper, KeeperName, candidate, find_orphans
from tjworker.settings import Settings

log = structlog.get_logger(__name__)


class Collector:
    def __init__(self, kube: KubeApi, settings: Settings, *, clock: Callable[[], float] = time.time) -> None:
        self._kube = kube
        self._settings = settings
        self._clock = clock

    def collect(self) -> int:
        """How many orphans were deleted. Raises Transient when the API server is away; the next run goes on. One that has
        changed under our eyes is left for it."""
        candidates = [c for resource in COLLECTED for c in self._candidates(resource)]
        owners, ended = self._owners(candidates)
        orphans = find_orphans(candidates, owners, self._nodes(), self._clock(), self._keepers(candidates), ended)
        deleted = 0
        for orphan in orphans:
            gone, where = orphan.delete, orphan.namespace
            try:
                self._kube.delete(gone.resource, where, gone.name, uid=gone.uid, grace_seconds=gone.grace_seconds)
            except Conflict as error:
                log.info(
                    "an orphan has changed; the next run looks again",
                    resource=gone.resource,
                    namespace=where,
                    name=gone.name,
                    error=error.message,
                )
                continue
            deleted += 1
            log.info("deleted an orphan", resource=gone.resource, namespace=where, name=gone.name, why=gone.why)
        return deleted

    def _candidates(self, resource: str) -> Iterator[Candidate]:
        for namespace in self._settings.namespace_list or ("",):
            try:
                for obj in self._list(resource, namespace, labels.JOB_UID):
                    found = candidate(resource, obj, JOB_PLURALS)
                    if found is not None:
                        yield found
            except Conflict:
                continue  # the list expired between its pages (410): what it has not shown is for the next run

    def _owners(self, candidates: list[Candidate]) -> tuple[dict[JobName, Uid | None], dict[JobName, CleanPodPolicy]]:
        """Of each job that a candidate names, the UID it has now, and of those that have ended the cleanPodPolicy: one GET a
        job that still has something."""
        owners: dict[JobName, Uid | None] = {}
        ended: dict[JobName, CleanPodPolicy] = {}
        for name in sorted({c.owner for c in candidates if c.owner is not None}, key=lambda n: n.key):
            raw = self._kube.get(name.plural, name.namespace, name.name)
            owners[name] = None if raw is None else Uid(raw["metadata"]["uid"])
            job = None if raw is None else dialects.parse(name.plural, raw)
            if isinstance(job, TrainingJob) and job.status.ended:
                ended[name] = job.clean_pod_policy
        return owners, ended

    def _keepers(self, candidates: list[Candidate]) -> dict[KeeperName, Keeper]:
        """Those among the candidates need no request; of the others (a stranger's, or gone) one GET each."""
        ours = {c.uid for c in candidates if c.resource in ("replicasets", "jobs") and c.owner is not None}
        known: dict[KeeperName, Keeper] = {}
        for name in {c.keeper for c in candidates if c.keeper is not None}:
            if name.uid in ours:
                known[name] = "ours"
            else:
                live = self._kube.get(name.resource, name.namespace, name.name)
                known[name] = "gone" if live is None or live["metadata"]["uid"] != name.uid else "foreign"
        return known

    def _nodes(self) -> frozenset[str] | None:
        """None where they may not be read, or not all have been: a node that a list has not come to is not gone."""
        try:
            return frozenset(n["metadata"]["name"] for n in self._list("nodes", "", ""))
        except (Terminal, Conflict):
            return None

    def _list(self, resource: str, namespace: str, selector: str) -> Iterator[dict[str, Any]]:
        """Page by page. Raises Conflict when the list expires between them."""
        token = ""
        while True:
            try:
                page = self._kube.list_page(
                    resource, namespace, label_selector=selector, limit=self._settings.list_page_size, token=token
                )
            except OperatorError as error:
                if error.reason == NOT_INSTALLED:
                    return
                raise
            yield from page.items
            token = page.next_token
            if not token:
                return
