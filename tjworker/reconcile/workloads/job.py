"""The workload Job: trainers as a batch Job, whose parallelism is their number. Pure.

It relies on these facts of the batch Job controller (1.34). tests/e2e/control_plane shows each of them:

- Without `completions` (a work queue), only parallelism decides the number of pods, and scaling fails no pod. With
  them, the controller never runs more pods than completions are open, so that scaling up has no effect. They cannot be
  changed later. So only trainers with a fixed number (edlPolicy Never) have completions.
- A pod that fails or is deleted counts as failed, and `backoffLimit` (default 6) ends the whole Job. The operator
  decides in `policies.controller_managed` which deaths end a job, so the limit is out of reach.
- After each failure the controller waits longer before it creates the next pod, up to 10 minutes. A success resets
  that. `replacements` creates such a pod instead. Scaling down is no failure and delays nothing.
- `podReplacementPolicy` keeps its default, so that a deleted trainer is replaced at once. With `Failed`, a trainer that
  is deleted, saves its state and exits with 0 would count as a success, and a work queue with a success gets no more
  pods. With the default, too, that happens if the trainer exits within a second. So its finalizer is removed first
  (`_uncount`).
- The selector is the operator's. A generated one requires a label `job-name` with the name of the batch Job, but that
  label holds the job's name.
"""

from __future__ import annotations

from collections.abc import Iterator

from tjworker.api import labels
from tjworker.api.model import TrainingJob
from tjworker.api.naming import ordinal_labels
from tjworker.api.observed import ENDED_PHASES, WorkloadRecord
from tjworker.api.resources import BATCH_JOBS, PODS
from tjworker.base import JsonDict
from tjworker.reconcile.one_pass import Pass
from tjworker.reconcile.plan import Create, Patch, Write
from tjworker.reconcile.replicas import Replica, RoleView, stopped
from tjworker.reconcile.workloads.owner import owned_template, selector, shape_owner
from tjworker.reconcile.workloads.replacements import find_replacements

BACKOFF_LIMIT = 2**31 - 1
RESTART_POLICY = "Never"


def shape(p: Pass, view: RoleView, may_create: bool) -> Iterator[Write]:
    count = _count(view)
    yield from _uncount(view)
    yield from shape_owner(
        p, view, resource=BATCH_JOBS, api_version="batch/v1", spec=_spec, restart_policy=RESTART_POLICY, count=count
    )
    due = find_replacements(view, count, p.now).due if may_create else ()
    if due and view.owner is not None:
        template = owned_template(p, view.role, RESTART_POLICY)
        for name, replica in due:
            yield _replacement(p.job, view.owner, name, replica, template)


def _uncount(view: RoleView) -> Iterator[Patch]:
    """Remove the finalizer of deleted trainers. The controller, which looks one second after the event, then counts
    them neither as success nor as failure, and creates the next pod at once."""
    for pod in (*(r.pod for r in view.replicas if r.pod is not None), *view.surplus, *view.others):
        kept = (
            view.owner is not None and pod.owner_uid == view.owner.uid and pod.uncounted and pod.deleted_at is not None
        )
        if kept and (pod.phase not in ENDED_PHASES or stopped(pod)):
            seen = {"uid": pod.uid, "resourceVersion": str(pod.rv)}
            why = "it was asked to go: its batch Job is to count it as nothing"
            yield Patch(PODS, pod.name, {"metadata": {**seen, "finalizers": None}}, why)


def next_seconds(view: RoleView, now: float) -> float | None:
    return find_replacements(view, _count(view), now).next_seconds


def _replacement(job: TrainingJob, owner: WorkloadRecord, name: str, replica: Replica, template: JsonDict) -> Create:
    metadata = template["metadata"]
    # Without blockOwnerDeletion, for which some clusters require a permission on the Job's finalizers.
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": owner.name, "uid": owner.uid, "controller": True}
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **metadata,
            "name": name,
            "namespace": job.name.namespace,
            "labels": {**metadata["labels"], **ordinal_labels(job, replica.role, replica.index, replica.attempt)},
            "finalizers": [labels.TRACKING_FINALIZER],
            "ownerReferences": [reference],
        },
        "spec": template["spec"],
    }
    return Create(PODS, name, body)


def _count(view: RoleView) -> int:
    """How many pods the batch Job must keep: all but those that succeeded under an earlier Job of this name."""
    # Successes under this Job stay in its count: it creates no pod for them.
    done, here = sum(r.final for r in view.replicas), 0
    if view.owner is not None:
        # The Job's status may show a success later than the pod does.
        succeeded_pods = sum(p.phase == "Succeeded" and p.owner_uid == view.owner.uid for p in view.others)
        here = max(view.owner.succeeded, succeeded_pods)
    return view.role.replicas - max(0, done - here)


def _spec(job: TrainingJob, view: RoleView, template: JsonDict) -> JsonDict:
    count = _count(view)
    return {
        "parallelism": count,
        **({"completions": count} if view.role.edl_policy == "Never" else {}),
        "backoffLimit": BACKOFF_LIMIT,
        "manualSelector": True,
        "selector": selector(job, view.role),
        "template": template,
    }
