"""Pods of roles whose template cannot be used: none that is there goes for one that could not be made. Pure."""

from __future__ import annotations

from tjworker.reconcile.one_pass import Pass
from tjworker.reconcile.replicas import Replica, RoleView, pod_attempt


def is_of_old_attempt(replica: Replica, view: RoleView) -> bool:
    """Of one that a restart of its whole role, or of the whole job, has ended."""
    pod = replica.pod
    return replica.state == "outdated" and pod is not None and pod_attempt(pod) < view.attempts.all


def find_kept(p: Pass) -> frozenset[str]:
    """Names of pods that are to be replaced and stay until that can be done: those of the roles that make no pods, and
    where a restart of the whole job waits for these, those of the other roles. A pod on a lost node goes all the
    same."""
    unusable = [view for view in p.roles.values() if not view.role.makes_pods]
    if not unusable:
        return frozenset()
    waits = any(is_of_old_attempt(replica, view) for view in unusable for replica in view.replicas)
    return frozenset(
        replica.pod.name
        for view in p.roles.values()
        for replica in view.replicas
        if replica.pod is not None and replica.state == "outdated" and not replica.pod.lost
        if not view.role.makes_pods or (waits and is_of_old_attempt(replica, view))
    )
