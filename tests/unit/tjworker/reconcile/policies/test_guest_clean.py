"""Which pods the end of a job of another operator's kind deletes: every kind, way to an end, cleanPodPolicy, role and
phase of a pod, against what its own operator does, said once more."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest

from tests.support.guests import GUESTS, KIND_OF, guest_job, parsed
from tjworker.base import GroupResource
from tjworker.reconcile.policies.clean import cleaning_at

MPI = GroupResource("mpijobs.kubeflow.org")
WAYS = {
    "it succeeds": ("Succeed", "Completed"),
    "a replica fails": ("Failed", "ReplicaFailed"),
    "activeDeadlineSeconds": ("Failed", "DeadlineExceeded"),
    "backoffLimit": ("Failed", "BackoffLimitExceeded"),
}
LIMITS = ("activeDeadlineSeconds", "backoffLimit")
Rule = Callable[[str, str, str, bool], bool]
"""(way, cleanPodPolicy, role, the pod runs or waits) -> it goes."""


def by_policy(policy: str, live: bool) -> bool:
    return policy == "All" or (policy == "Running" and live)


def training_operator(way: str, policy: str, role: str, live: bool) -> bool:
    """common/job.go, `DeletePodsAndServices`: asked before the job has its condition Failed, as `ReconcileJobs` does at
    a limit, it ignores cleanPodPolicy."""
    return way in LIMITS or by_policy(policy, live)


def mpi_operator(way: str, policy: str, role: str, live: bool) -> bool:
    """mpi_job_controller.go: `deleteWorkerPods`, and the batch Job of `newLauncherJob`, after whose end no pod of it
    runs and those that have ended stay."""
    return live if role == "Launcher" else by_policy(policy, live)


def kubedl(way: str, policy: str, role: str, live: bool) -> bool:
    """job_controller/job.go, `deletePodsAndServices`: by cleanPodPolicy at a limit, too. (It leaves pods that wait for
    a node under Running: docs/kubedl.md.)"""
    return by_policy(policy, live)


@pytest.mark.parametrize(("resource", "version"), [*((resource, "") for resource in GUESTS), (MPI, "v1")])
def test_which_pods_go(resource: GroupResource, version: str) -> None:
    rule: Rule = mpi_operator if resource == MPI and not version else training_operator
    rule = kubedl if KIND_OF[resource].group == "training.kubedl.io" else rule
    for way, policy in product(WAYS, ("All", "Running", "None")):
        raw = guest_job(resource, cleanPodPolicy=policy)
        raw["spec"] |= {"manifestVersion": version} if version else {}
        cleaning = cleaning_at(parsed(resource, raw), *WAYS[way], autoclean=True)
        for role, phase in product(GUESTS[resource], ("Pending", "Running", "Succeeded", "Failed")):
            want = rule(way, policy, role, phase in ("Pending", "Running"))
            assert cleaning.goes(role, phase) is want, (way, policy, role, phase)
