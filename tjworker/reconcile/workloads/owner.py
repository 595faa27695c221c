"""The common part of the workloads ReplicaSet and Job. Pure.

The operator creates the owner object once, and changes its count by patches. The owner's controller creates the pods.
They get their ordinals from the operator, and are otherwise left alone. It deletes such a pod only if the controller
does not: on a lost node, or to replace the pod. (`job` has the case in which it creates one.) Patches carry the uid and
resourceVersion of their object. Safe to run twice.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

from tjworker.api import labels
from tjworker.api.model import Role, TrainingJob
from tjworker.api.naming import ordinal_labels, owner_name, role_labels
from tjworker.api.observed import ENDED_PHASES, Observed, PodRecord, WorkloadRecord
from tjworker.api.ownership import own_workloads
from tjworker.api.resources import BATCH_JOBS, REPLICASETS
from tjworker.base import GroupResource, JsonDict
from tjworker.reconcile.one_pass import Pass
from tjworker.reconcile.plan import Create, Delete, Patch, Write
from tjworker.reconcile.policies.creating import stuck_container
from tjworker.reconcile.replicas import Replica, RoleView
from tjworker.reconcile.slots import ordinal_of
from tjworker.reconcile.workloads.environment import role_environment, template_environment
from tjworker.reconcile.workloads.pod import delete_pod, label_pod, to_delete
from tjworker.reconcile.workloads.podbody import owner_reference, pod_template

Spec = Callable[[TrainingJob, RoleView, JsonDict], JsonDict]
"""(job, view, pod template) -> the owner's spec."""

COUNT_FIELDS: Mapping[GroupResource, str] = {REPLICASETS: "replicas", BATCH_JOBS: "parallelism"}


def shape_owner(
    p: Pass, view: RoleView, *, resource: GroupResource, api_version: str, spec: Spec, restart_policy: str, count: int
) -> Iterator[Write]:
    """The writes for a role's owner object and its pods. `count`: how many pods the owner must keep."""
    job, role, owner = p.job, view.role, view.owner
    if owner is None:
        if role.makes_pods and not _name_taken(job, role, p.observed, resource):
            yield _create(p, view, resource, api_version, spec, restart_policy)
        return
    if owner.deleted_at is not None:
        # Once it is gone, a later pass creates it again.
        return
    if view.misled and owner.condition and role.makes_pods:
        yield _delete_misled(resource, owner)
        return
    # A batch Job that has ended creates no pods, whatever its parallelism.
    if owner.desired != count and not owner.condition:
        yield _scale(p.now, resource, owner, count, f"role {role.name} is to have {count} pods")
    for replica in view.replicas:
        if replica.state == "outdated" and replica.pod is not None and to_delete(replica.pod):
            yield delete_pod(replica.pod, f"attempt {replica.attempt} replaces it")
        elif _needs_ordinal(replica):
            yield _give_ordinal(job, replica)
    yield from _delete_surplus(view, owner, f"role {role.name} is to have {count} pods")
    # The controller counts a pod on a dead node as live, and replaces it only once it is deleted.
    for pod in (*view.others, *(r.pod for r in view.replicas if r.pod is not None)):
        if pod.lost and to_delete(pod):
            yield delete_pod(pod, pod.lost)


def _delete_misled(resource: GroupResource, owner: WorkloadRecord) -> Delete:
    why = "it is complete by pods that were asked to go, and is made again for those that have not succeeded"
    return Delete(resource, owner.name, owner.uid, None, why, owner.rv, owner.owner_uid)


def _delete_surplus(view: RoleView, owner: WorkloadRecord, why: str) -> Iterator[Write]:
    # After a success the controller of batch Jobs deletes no pod itself: see `left_running`.
    for pod in view.surplus if owner.succeeded and not owner.condition else ():
        if pod.owner_uid == owner.uid and to_delete(pod):
            yield delete_pod(pod, why)


def _name_taken(job: TrainingJob, role: Role, observed: Observed, resource: GroupResource) -> bool:
    """True if an object of an earlier job of the same name still exists."""
    # The API server reports an object of another owner, when it refuses the create.
    name = owner_name(job.name.name, role.name)
    return any(w.name == name for w in (observed.replicasets if resource == REPLICASETS else observed.jobs))


def _create(
    p: Pass, view: RoleView, resource: GroupResource, api_version: str, spec: Spec, restart_policy: str
) -> Create:
    job, role = p.job, view.role
    template = owned_template(p, role, restart_policy)
    name = owner_name(job.name.name, role.name)
    return Create(
        resource,
        name,
        {
            "apiVersion": api_version,
            "kind": role.workload,
            "metadata": {
                "name": name,
                "namespace": job.name.namespace,
                # With the template's labels (`paddle-job`): scripts select owners by them, and not only pods.
                "labels": {**template["metadata"]["labels"], **_counted_since(p.now, resource)},
                "ownerReferences": [owner_reference(job)],
            },
            "spec": spec(job, view, template),
        },
    )


def owned_template(p: Pass, role: Role, restart_policy: str) -> JsonDict:
    """The template of all pods of a ReplicaSet or batch Job, also of those that the operator creates for it."""
    env = {**template_environment(p.job, role), **role_environment(p.job)}
    template = pod_template(p.job, role, env, index=None, restart_policy=restart_policy, gang=p.gang)
    # The owner reference of such a pod does not name the job.
    template["metadata"]["labels"][labels.JOB_KIND] = p.job.kind
    return template


def selector(job: TrainingJob, role: Role) -> JsonDict:
    return {"matchLabels": role_labels(job, role.name)}


def _scale(now: float, resource: GroupResource, owner: WorkloadRecord, count: int, why: str) -> Patch:
    metadata: JsonDict = {"uid": owner.uid, "resourceVersion": str(owner.rv)}
    if since := _counted_since(now, resource):
        metadata["labels"] = since
    return Patch(resource, owner.name, {"metadata": metadata, "spec": {COUNT_FIELDS[resource]: count}}, why)


def _counted_since(now: float, resource: GroupResource) -> dict[str, str]:
    # `replacements` gives the Job's controller a head start after each change of the count.
    return {labels.COUNTED_SINCE: str(int(now))} if resource == BATCH_JOBS else {}


def _needs_ordinal(replica: Replica) -> bool:
    """True if the pod lacks the ordinal of its slot and must get it now."""
    pod = replica.pod
    if pod is None or replica.final or replica.state in ("outdated", "terminating", "lost"):
        return False
    if ordinal_of(pod) == (replica.index, replica.attempt):
        return False
    # A pod that is starting changes too often: the resourceVersion would nearly always be outdated. One that cannot
    # start may have to be replaced, and needs its ordinal for that.
    return pod.phase != "Pending" or stuck_container(pod) is not None


def _give_ordinal(job: TrainingJob, replica: Replica) -> Patch:
    pod = replica.pod
    assert pod is not None  # noqa: S101  `_needs_ordinal` has looked
    given = ordinal_labels(job, replica.role, replica.index, replica.attempt)
    return label_pod(pod, given, f"its ordinal is {replica.index}")


def unjudged(view: RoleView) -> bool:
    """True if a pod ended before it got an ordinal. This pass gives it one, and the next pass judges it."""
    return any(
        r.pod is not None and not r.final and r.pod.phase in ENDED_PHASES and ordinal_of(r.pod) is None
        for r in view.replicas
    )


# -- the end ---------------------------------------------------------------------------------------


def release(p: Pass, why: str) -> list[Write]:
    """Patches that set replicas or parallelism of every owner to 0. Their controllers then delete the live pods."""
    return [
        _scale(p.now, resource, w, 0, why)
        for resource, w in own_workloads(p.job, p.observed)
        if w.desired and w.deleted_at is None
    ]


def unreleased(job: TrainingJob, observed: Observed) -> bool:
    """True if an owner still wants pods, or its controller has not seen the 0 yet and might create one more."""
    return any(
        w.deleted_at is None and (w.desired > 0 or 0 < w.observed_generation < w.generation)
        for _, w in own_workloads(job, observed)
    )


def delete_owners(job: TrainingJob, observed: Observed, roles: set[str], why: str) -> list[Write]:
    """Deletes of ReplicaSets and batch Jobs whose role is no longer in the spec. Their pods are deleted with them."""
    known = {owner_name(job.name.name, role) for role in roles}
    return [
        Delete(resource, w.name, w.uid, None, why, w.rv, w.owner_uid)
        for resource, w in own_workloads(job, observed)
        if w.name not in known and w.deleted_at is None
    ]


def left_running(job: TrainingJob, observed: Observed) -> set[str]:
    """UIDs of batch Jobs with a success. Without `completions`, their controller then neither deletes surplus pods nor
    replaces deleted ones, whatever parallelism is."""
    return {w.uid for resource, w in own_workloads(job, observed) if resource == BATCH_JOBS and w.succeeded}


def goes_by_itself(job: TrainingJob, pod: PodRecord, left: Collection[str]) -> bool:
    """True if the pod's controller deletes it once the owner is released. `left`: the result of `left_running`."""
    return pod.owner_uid not in (job.uid, *left) and pod.phase not in ENDED_PHASES and not pod.lost
