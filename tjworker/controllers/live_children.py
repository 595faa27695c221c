"""Reads a job's pods, services and workloads from the API server (`ChildNow`).

One GET for each object; one list of the job's pods if all pods are needed, or many of them. Writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from tjworker.api import labels
from tjworker.api.naming import selector
from tjworker.api.needs import ALL_PODS, ChildNow
from tjworker.api.observed import Observed, PodRecord, Record
from tjworker.api.owners import controller, job_of
from tjworker.api.pod_records import deletion_of, pod_record
from tjworker.api.resources import BATCH_JOBS, PODS, REPLICASETS, SERVICES
from tjworker.api.workload_records import service_record, workload_record
from tjworker.base import GroupResource, JobName
from tjworker.execution.lease import Lease
from tjworker.kube.client import KubeClient

MOST_GETS = 10
"""For more pods, a list costs the API server less."""


def read_children(
    kube: KubeClient,
    job: JobName,
    uid: str,
    observed: Observed,
    needs: Iterable[ChildNow],
    lease: Lease,
    page_size: int,
) -> Observed:
    """`observed` with these children as the API server has them. Raises what a request raises: the plan must not be
    executed without an answer."""
    confirmed = set(needs)
    pod_names = _names(confirmed, PODS)
    reader = _ChildReader(kube, job, lease)
    if ALL_PODS in confirmed or len(pod_names) > MOST_GETS:
        pods = reader.every_pod(uid, observed.pods, page_size)
        # Later rounds of this pass may ask for other pods: they are answered, too.
        confirmed.add(ALL_PODS)
    else:
        pods = reader.each(PODS, pod_names, observed.pods)
    return replace(
        observed,
        pods=pods,
        replicasets=reader.each(REPLICASETS, _names(confirmed, REPLICASETS), observed.replicasets),
        jobs=reader.each(BATCH_JOBS, _names(confirmed, BATCH_JOBS), observed.jobs),
        services=reader.each(SERVICES, _names(confirmed, SERVICES), observed.services),
        confirmed=observed.confirmed | confirmed,
    )


def _names(needs: Iterable[ChildNow], resource: GroupResource) -> set[str]:
    return {need.name for need in needs if need.resource == resource and need != ALL_PODS}


class _ChildReader:
    def __init__(self, kube: KubeClient, job: JobName, lease: Lease) -> None:
        self._kube = kube
        self._job = job
        self._lease = lease

    def each(self, resource: GroupResource, names: Iterable[str], known: tuple[Any, ...]) -> tuple[Any, ...]:
        records: dict[str, Record] = {record.name: record for record in known}
        for name in sorted(names):
            self._lease.ensure()
            raw = self._kube.get(resource, self._job.namespace, name)
            record = None if raw is None else self._make_record(resource, raw, records.get(name))
            if record is None:
                records.pop(name, None)
            else:
                records[name] = record
        return tuple(records[name] for name in sorted(records))

    def every_pod(self, uid: str, known: tuple[PodRecord, ...], page_size: int) -> tuple[PodRecord, ...]:
        """The pods with the job's label, and those of the view that lack it: somebody may have removed the label."""
        found: dict[str, Any] = {}
        views = {pod.name: pod for pod in known}
        labelled = self._kube.list_all(
            PODS,
            self._job.namespace,
            label_selector=selector({labels.JOB_UID: uid}),
            page_size=page_size,
            before_page=self._lease.ensure,
        )
        for raw in labelled:
            if (record := self._make_record(PODS, raw, views.get(raw["metadata"]["name"]))) is not None:
                found[record.name] = record
        unlabelled = [pod for pod in known if pod.labels.get(labels.JOB_UID) != uid and pod.name not in found]
        rest = self.each(PODS, [pod.name for pod in unlabelled], tuple(unlabelled))
        return tuple(sorted((*found.values(), *rest), key=lambda pod: pod.name))

    def _make_record(self, resource: GroupResource, raw: Mapping[str, Any], view: Record | None) -> Any:
        """The record that the watcher would make of the object; None if it does not belong to the job. What the
        watcher has seen of a pod's deletion is in `view`: the API server does not say it again."""
        meta = raw["metadata"]
        owner = controller(meta)
        key, _ = job_of(resource, meta, owner)
        if key != self._job.key:
            return None
        owner_uid = owner["uid"] if owner else ""
        if resource == PODS:
            return pod_record(raw, meta, owner_uid, deletion_of(view) if isinstance(view, PodRecord) else None)
        return service_record(raw, meta, owner_uid) if resource == SERVICES else workload_record(raw, meta, owner_uid)
