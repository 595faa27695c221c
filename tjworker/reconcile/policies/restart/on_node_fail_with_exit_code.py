"""OnNodeFailWithExitCode: pods that OnNodeFail or ExitCode replaces."""

from tjworker.reconcile.policies.restart import exit_code, on_node_fail
from tjworker.reconcile.policies.restart.rule import FailedReplica, RestartRefusal


def refuse(failed: FailedReplica) -> RestartRefusal | None:
    return exit_code.refuse(failed) if on_node_fail.refuse(failed) else None
