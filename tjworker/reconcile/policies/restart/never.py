"""Never: no failed pod is replaced."""

from tjworker.reconcile.policies.restart.rule import FailedReplica, RestartRefusal, by_policy


def refuse(failed: FailedReplica) -> RestartRefusal | None:
    return by_policy(failed)
