"""Deletes finished Jobs their `ttlSecondsAfterFinished` after the end. Names the UID: a Job made again is another
Job."""

from __future__ import annotations

from localcluster.client import Client, ignoring
from localcluster.controllers.job import JobController
from localcluster.controllers.job_status import is_finished
from localcluster.informer import Informers, key_of
from localcluster.machine import KeyedMachine
from localcluster.objects import condition, seconds_of


class TtlController(KeyedMachine):
    name = "ttl-after-finished-controller"

    def __init__(self, client: Client, informers: Informers) -> None:
        super().__init__(informers.pump)
        self._client = client
        self._jobs = informers.get(JobController.path)
        self._jobs.subscribe(
            lambda _, new: self.enqueue(key_of(new)) if new and "ttlSecondsAfterFinished" in new["spec"] else None
        )

    def reconcile(self, key: str, now: float) -> None:
        job = self._jobs.get(key)
        if job is None or "deletionTimestamp" in job["metadata"] or not is_finished(job):
            return
        ttl_seconds = job["spec"].get("ttlSecondsAfterFinished")
        if ttl_seconds is None:
            return
        ends = [
            c for kind in ("Complete", "Failed") if (c := condition(job, kind)) is not None and c["status"] == "True"
        ]
        # The end condition dates the end: a failed Job has no completionTime.
        due = seconds_of(ends[0]["lastTransitionTime"]) + ttl_seconds
        if now < due:
            self.enqueue_at(key, due)
            return
        meta = job["metadata"]
        # `processJob` deletes in the foreground, so that the Job is seen until its pods are gone.
        body = {"propagationPolicy": "Foreground", "preconditions": {"uid": meta["uid"]}}
        with ignoring(404, 409):
            self._client.delete(f"/apis/batch/v1/namespaces/{meta['namespace']}/jobs/{meta['name']}", body)
