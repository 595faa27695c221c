"""Finds the job to which an object of the API server belongs. Pure.

It is the job that the controlling owner reference names. The owner of a pod may be a ReplicaSet or batch Job: then the
operator's labels name the job.
"""

from __future__ import annotations

from tjworker.api import labels as names
from tjworker.api.kinds import OWNERS, kind_of_labels
from tjworker.api.resources import PODS
from tjworker.base import GroupResource, JobKey, Json


def controller(meta: Json) -> Json | None:
    for reference in meta.get("ownerReferences") or ():
        if reference.get("controller"):
            owner: Json = reference
            return owner
    return None


def job_of(resource: GroupResource, meta: Json, owner: Json | None) -> tuple[JobKey | None, str]:
    if owner is None:
        return None, ""
    group = owner["apiVersion"].partition("/")[0] if "/" in owner["apiVersion"] else ""
    of_job = OWNERS.get((group, owner["kind"]))
    if of_job is not None:
        return JobKey(f"{of_job}/{meta['namespace']}/{owner['name']}"), owner["uid"]
    # The operator makes every other child itself, so that its owner is the job: a Service that only has the labels is
    # somebody's copy.
    if resource == PODS and (group, owner["kind"]) in (("apps", "ReplicaSet"), ("batch", "Job")):
        labels = meta.get("labels") or {}
        # The labels only lead to the job: `ownership` checks that its workload really controls the pod.
        of_job = kind_of_labels(labels)
        if of_job is not None and labels.get(names.JOB_NAME):
            return JobKey(f"{of_job}/{meta['namespace']}/{labels[names.JOB_NAME]}"), labels.get(names.JOB_UID, "")
    return None, ""
