"""Pods of roles with an unusable template: they are not deleted, because no pod could replace them. Pure."""

from __future__ import annotations

from tjworker.reconcile.one_pass import Pass
from tjworker.reconcile.replicas import Replica, RoleView, pod_attempt


def is_of_old_attempt(replica: Replica, view: RoleView) -> bool:
    """True if a restart of the whole role or job has ended the attempt of the replica's pod."""
    pod = replica.pod
    return replica.state == "outdated" and pod is not None and pod_attempt(pod) < view.attempts.all


def find_kept(p: Pass) -> frozenset[str]:
    """Names of outdated pods that stay until a replacement can be created: those of the roles that create no pods. If a
    restart of the whole job waits for these, those of the other roles, too. Pods on a lost node do not stay."""
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
