"""Who makes a role's pods, and how. `WORKLOADS` is the one place: a workload is a file and a row here.

A workload turns the difference between what a role should be and what is observed into writes. It decides nothing about
ends, restarts or phases: the steps have, as data in the status.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from tjworker.api.model import Workload
from tjworker.reconcile.one_pass import Pass
from tjworker.reconcile.plan import Write
from tjworker.reconcile.replicas import RoleView
from tjworker.reconcile.workloads import job, pod, replicaset


@dataclass(frozen=True, slots=True)
class WorkloadRules:
    shape: Callable[[Pass, RoleView, bool], Iterator[Write]]
    """(pass, view, may_create) -> the writes that bring the role's objects to what is wanted, each made when it is
    asked for: a pass takes no more than it may write."""
    next_seconds: Callable[[RoleView, float], float | None] = lambda _view, _now: None
    """(view, now) -> how soon it has more to write though nothing changes; None: it waits for news."""


WORKLOADS: Mapping[Workload, WorkloadRules] = {
    "Pod": WorkloadRules(shape=pod.shape),
    "ReplicaSet": WorkloadRules(shape=replicaset.shape),
    "Job": WorkloadRules(shape=job.shape, next_seconds=job.next_seconds),
}
