"""How a role's pods are kept. `WORKLOADS` is the one place: a workload is a file and a row here.

A workload turns the difference between what a role should be and what is observed into writes. It decides nothing about
ends, restarts or phases: those have been decided, as data in the status, before it is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tjworker.api.model import TrainingJob, Workload
from tjworker.api.observed import Observed
from tjworker.reconcile.plan import Write
from tjworker.reconcile.replicas import RoleView
from tjworker.reconcile.workloads import job, pod, replicaset


@dataclass(frozen=True, slots=True)
class WorkloadRules:
    shape: Callable[[TrainingJob, RoleView, Observed, bool], Sequence[Write]]
    """(job, view, observed, may_create) -> the writes that bring the role's objects to what is wanted."""


WORKLOADS: Mapping[Workload, WorkloadRules] = {
    "Pod": WorkloadRules(shape=pod.shape),
    "ReplicaSet": WorkloadRules(shape=replicaset.shape),
    "Job": WorkloadRules(shape=job.shape),
}
