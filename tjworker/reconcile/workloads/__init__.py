"""How a role's pods are created: by the operator, a ReplicaSet or a batch Job. Each workload is a file and a row of
`WORKLOADS`.

A workload turns the difference between the wanted and the observed state of a role into writes. The steps of
`reconcile.core` have decided about ends, restarts and phases before, as data in the status.
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
    """(pass, view, may_create) -> the writes that bring the role's objects to the wanted state. Lazy: a pass takes no
    more than it may write."""
    next_seconds: Callable[[RoleView, float], float | None] = lambda _view, _now: None
    """(view, now) -> seconds until it has more to write although nothing changes; None: it waits for an event."""


WORKLOADS: Mapping[Workload, WorkloadRules] = {
    "Pod": WorkloadRules(shape=pod.shape),
    "ReplicaSet": WorkloadRules(shape=replicaset.shape),
    "Job": WorkloadRules(shape=job.shape, next_seconds=job.next_seconds),
}
