"""Turns raw Kubernetes objects into what the projection keeps: a job's key and a compact record. Pure.

Never kept: managedFields, values of environment variables, Secrets, and kubectl's last-applied copy. An object that is
neither a job of this operator nor part of one is projected to None.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tjworker.api.labels import JOB_UID
from tjworker.api.node_requests import NodeRequests
from tjworker.api.observed import PodGroupRecord, ServiceRecord, WorkloadRecord
from tjworker.api.owners import controller, job_of
from tjworker.api.pod_records import Deletion, deletion_of, pod_record
from tjworker.api.podgroups import pod_group_record
from tjworker.api.records_json import encode
from tjworker.api.resources import ALL_POD_GROUPS, BATCH_JOBS, NODES, PODS, REPLICASETS, SERVICES
from tjworker.api.workload_records import service_record, workload_record
from tjworker.base import GroupResource, JobKey, Json, parse_key
from tjworker.kube.resources import RESOURCES
from tjworker.store.projection import Change
from watcher.projection.base import NO_KEY, Projected, deletion
from watcher.projection.jobs import is_of_another, job_key, project_job
from watcher.projection.nodes import node_signal, project_node

__all__ = ["Projected", "deletion", "identify", "node_signal", "project", "project_node"]

_RECORDS: Mapping[GroupResource, Callable[[Json, Json, str], ServiceRecord | WorkloadRecord | PodGroupRecord]] = {
    SERVICES: service_record,
    REPLICASETS: workload_record,
    BATCH_JOBS: workload_record,
    **dict.fromkeys(ALL_POD_GROUPS, pod_group_record),
}


def project(
    resource: GroupResource, obj: Json, before: Deletion | None = None, requests: NodeRequests | None = None
) -> Projected | None:
    """The change of the projection that shows this state of the object; None if the object does not belong to a job of
    this operator. `before`: what is remembered of a pod's deletion. `requests`: the pod's, if the
    caller has computed them."""
    if RESOURCES[resource].is_job:
        return None if is_of_another(resource, obj) else project_job(resource, obj)
    if resource == NODES:
        return project_node(obj)
    meta = obj["metadata"]
    if RESOURCES[resource].is_named:
        return Projected(_named_change(resource, meta))
    owner = controller(meta)
    key, job_uid = job_of(resource, meta, owner)
    # Without the label, another operator serves the job of a guest's kind, and created this object.
    if key is None or (RESOURCES[parse_key(key).resource].guest and JOB_UID not in (meta.get("labels") or {})):
        return None
    owner_uid = owner["uid"] if owner else ""
    rv = int(meta["resourceVersion"])
    if resource == PODS:
        pod = pod_record(obj, meta, owner_uid, before, requests)
        change = Change(key, resource, pod.name, rv, encode(pod), job_uid=job_uid)
        return Projected(change, pod.node, deletion_of(pod))
    record = _RECORDS[resource](obj, meta, owner_uid)
    return Projected(Change(key, resource, record.name, rv, encode(record), job_uid=job_uid))


def _named_change(resource: GroupResource, meta: Json) -> Change:
    """The change of an object that jobs name. It has an empty key, since the object belongs to no job, and no record,
    since none is stored: it says only that there is news."""
    name = f"{meta.get('namespace', '')}/{meta['name']}"
    return Change(NO_KEY, resource, name, int(meta["resourceVersion"]), None)


def identify(resource: GroupResource, obj: Json) -> Change | None:
    """The change without its record; None if the object does not belong to a job of this operator. The object needs no
    more than its metadata."""
    meta, is_job = obj["metadata"], RESOURCES[resource].is_job
    key: JobKey | None = NO_KEY
    if is_job:
        key = job_key(resource, meta)
    elif RESOURCES[resource].is_named:
        return _named_change(resource, meta)
    elif resource != NODES:
        key, _ = job_of(resource, meta, controller(meta))
    if key is None:
        return None
    return Change(key, resource, meta["name"], int(meta["resourceVersion"]), None, is_job=is_job)
