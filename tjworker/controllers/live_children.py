"""A job's pods, services and workloads as the API server has them now: what a view says of them may be old, or what
somebody who can write Redis has put back, and failures are counted and ends decided on it.

One GET for each that is asked for; one list of the job's pods instead where all matter, or too many are asked for.
Reads only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from tjworker.api import labels
from tjworker.api.naming import selector
from tjworker.api.observed import Observed, PodRecord, Record
from tjworker.api.owners import controller, job_of
from tjworker.api.pod_records import deletion_of, pod_record
from tjworker.api.resources import BATCH_JOBS, PODS, REPLICASETS, SERVICES
from tjworker.api.workload_records import service_record, workload_record
from tjworker.base import GroupResource, JobName
from tjworker.kube.client import KubeClient
from tjworker.lease import Lease
from tjworker.reconcile import ALL_PODS

MOST_GETS = 10
"""Beyond, a list costs the API server less."""


def read_children(
    kube: KubeClient, job: JobName, uid: str, observed: Observed, asked: Iterable[str], lease: Lease, page_size: int
) -> Observed:
    """What was observed, with the API server's own word on what is asked for: `<resource>/<name>`, `pods/*`. Raises
    what a request raises: without that word nothing is decided."""
    asked = list(asked)
    of_pods = _names(asked, PODS)
    reader = _Reader(kube, job, lease)
    if ALL_PODS in asked or len(of_pods) > MOST_GETS:
        pods = reader.every_pod(uid, observed.pods, page_size)
        asked.append(ALL_PODS)
    else:
        pods = reader.each(PODS, of_pods, observed.pods)
    return replace(
        observed,
        pods=pods,
        replicasets=reader.each(REPLICASETS, _names(asked, REPLICASETS), observed.replicasets),
        jobs=reader.each(BATCH_JOBS, _names(asked, BATCH_JOBS), observed.jobs),
        services=reader.each(SERVICES, _names(asked, SERVICES), observed.services),
        confirmed=observed.confirmed.union(asked),
    )


def _names(asked: Iterable[str], resource: GroupResource) -> set[str]:
    return {name.removeprefix(f"{resource}/") for name in asked if name.startswith(f"{resource}/")}


class _Reader:
    def __init__(self, kube: KubeClient, job: JobName, lease: Lease) -> None:
        self._kube = kube
        self._job = job
        self._lease = lease

    def each(self, resource: GroupResource, names: Iterable[str], known: tuple[Any, ...]) -> tuple[Any, ...]:
        records: dict[str, Record] = {record.name: record for record in known}
        for name in sorted(names):
            self._lease.ensure()
            raw = self._kube.get(resource, self._job.namespace, name)
            record = None if raw is None else self._record(resource, raw, records.get(name))
            if record is None:
                records.pop(name, None)
            else:
                records[name] = record
        return tuple(records[name] for name in sorted(records))

    def every_pod(self, uid: str, known: tuple[PodRecord, ...], page_size: int) -> tuple[PodRecord, ...]:
        """Those with the job's label, and of the others that the view has: somebody may have taken the label away."""
        found: dict[str, Any] = {}
        views = {pod.name: pod for pod in known}
        token = ""
        while True:
            self._lease.ensure()
            page = self._kube.list_page(
                PODS, self._job.namespace, label_selector=selector({labels.JOB_UID: uid}), limit=page_size, token=token
            )
            for raw in page.items:
                if (record := self._record(PODS, raw, views.get(raw["metadata"]["name"]))) is not None:
                    found[record.name] = record
            token = page.next_token
            if not token:
                break
        unlabelled = [pod for pod in known if pod.labels.get(labels.JOB_UID) != uid and pod.name not in found]
        rest = self.each(PODS, [pod.name for pod in unlabelled], tuple(unlabelled))
        return tuple(sorted((*found.values(), *rest), key=lambda pod: pod.name))

    def _record(self, resource: GroupResource, raw: Mapping[str, Any], view: Record | None) -> Any:
        """As the watcher projects it, which has seen more of a pod's deletion than an answer says: that is in the view
        of it. None for what belongs to another job, or to none."""
        meta = raw["metadata"]
        owner = controller(meta)
        key, _ = job_of(resource, meta, owner)
        if key != self._job.key:
            return None
        owner_uid = owner["uid"] if owner else ""
        if resource == PODS:
            return pod_record(raw, meta, owner_uid, deletion_of(view) if isinstance(view, PodRecord) else None)
        return service_record(raw, meta, owner_uid) if resource == SERVICES else workload_record(raw, meta, owner_uid)
