"""OnNodeFail: pods whose node or GPU has failed are replaced, and evicted or preempted pods."""

from tjworker.reconcile.policies.restart.rule import FailedReplica, RestartRefusal, by_policy


def refuse(failed: FailedReplica) -> RestartRefusal | None:
    return None if failed.diagnosis.kind in ("node_lost", "gpu_fault", "disrupted") else by_policy(failed)
