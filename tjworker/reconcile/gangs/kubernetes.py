"""Kubernetes' own scheduler, from 1.36 on: `scheduling.k8s.io/v1alpha2` PodGroup. Pure.

What it relies on (1.36.3; tests/e2e/control_plane/test_gang.py shows it):

- The feature gates GenericWorkload (API server, controller manager, scheduler) and GangScheduling (scheduler), and the
  API version switched on (`--runtime-config=scheduling.k8s.io/v1alpha2=true`). They are alpha and off by default.
- The spec of a PodGroup and a pod's `schedulingGroup` are immutable.
- A finalizer keeps a PodGroup that is deleted until no pod in it lives: neither running nor waiting.
- A pod is not looked at while its group has fewer pods than `minCount`; pods that have ended do not count.
- `priorityClassName` of a PodGroup is dropped without the gate WorkloadAwarePreemption. The pods' own decides then.
"""

from __future__ import annotations

from tjworker.api.model import TrainingJob
from tjworker.api.resources import POD_GROUPS
from tjworker.reconcile.gangs.gang import Gang, Json


def _spec(job: TrainingJob, size: int) -> Json:
    priority = job.gang.priority_class or job.priority_class
    return {"schedulingPolicy": {"gang": {"minCount": size}}, **({"priorityClassName": priority} if priority else {})}


def _join(metadata: Json, spec: Json, group: str) -> None:
    spec.setdefault("schedulingGroup", {"podGroupName": group})


KUBERNETES = Gang(
    resource=POD_GROUPS,
    api_version="scheduling.k8s.io/v1alpha2",
    scheduler_name="",
    needs="Kubernetes 1.36 with the feature gates GenericWorkload and GangScheduling and the API version"
    " scheduling.k8s.io/v1alpha2 switched on",
    spec=_spec,
    join=_join,
    acts_on=frozenset({"priorityClass"}),
)
