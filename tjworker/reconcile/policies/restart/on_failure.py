"""OnFailure: pods that failed by themselves are replaced, and evicted or preempted pods. The OnNodeFail policies cover
lost nodes and faulty GPUs."""

from tjworker.reconcile.policies.restart.rule import FailedReplica, RestartRefusal, by_policy


def refuse(failed: FailedReplica) -> RestartRefusal | None:
    return None if failed.diagnosis.kind in ("exit", "disrupted") else by_policy(failed)
