"""Always: every failed pod is replaced."""

from tjworker.reconcile.policies.restart.rule import FailedReplica, RestartRefusal


def refuse(_: FailedReplica) -> RestartRefusal | None:
    return None
