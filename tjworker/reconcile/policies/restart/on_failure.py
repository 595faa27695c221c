"""OnFailure: pods that failed as pods are replaced, also those that were evicted or preempted. A node that is lost or a
GPU at fault is for the OnNodeFail policies."""

from tjworker.reconcile.policies.restart.rule import Failed, Refusal, by_policy


def refuse(failed: Failed) -> Refusal | None:
    return None if failed.diagnosis.kind in ("exit", "disrupted") else by_policy(failed)
