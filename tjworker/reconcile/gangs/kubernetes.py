"""Kubernetes' own scheduler, from 1.36 on: `scheduling.k8s.io/v1alpha2` PodGroup. Pure.

It relies on these facts (1.36.3; tests/e2e/control_plane/test_gang.py shows them):

- The feature gates GenericWorkload (API server, controller manager, scheduler) and GangScheduling (scheduler), and the
  API version (`--runtime-config=scheduling.k8s.io/v1alpha2=true`) are on. They are alpha, and off by default.
- The spec of a PodGroup and a pod's `schedulingGroup` are immutable.
- A finalizer keeps a deleted PodGroup while a pod in it runs or waits.
- The scheduler ignores a pod while its group has fewer pods than `minCount`. Ended pods do not count.
- Without the gate WorkloadAwarePreemption, `priorityClassName` of a PodGroup is dropped, and that of the pods counts.
"""

from __future__ import annotations

from tjworker.api.model import TrainingJob
from tjworker.api.resources import POD_GROUPS
from tjworker.base import JsonDict
from tjworker.reconcile.gangs.gang import Gang


def _spec(job: TrainingJob, size: int) -> JsonDict:
    priority = job.gang.priority_class or job.priority_class
    return {"schedulingPolicy": {"gang": {"minCount": size}}, **({"priorityClassName": priority} if priority else {})}


def _join(metadata: JsonDict, spec: JsonDict, group: str) -> None:
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
