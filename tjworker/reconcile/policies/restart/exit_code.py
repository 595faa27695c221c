"""ExitCode: pods that failed with retryable exit codes alone are replaced, and those that were evicted or preempted."""

from tjworker.reconcile.policies.restart.rule import Failed, Refusal, by_policy


def refuse(failed: Failed) -> Refusal | None:
    kind, codes = failed.diagnosis.kind, failed.diagnosis.exit_codes
    if kind == "disrupted":
        return None
    if kind != "exit":
        return by_policy(failed)
    if failed.diagnosis.cannot_start:
        return Refusal(f"restartPolicy {failed.role.restart_policy}: a command that cannot be started is not retryable")
    if codes and codes <= failed.job.retryable_exit_codes:
        return None
    told = ", ".join(map(str, sorted(codes))) or "none"
    return Refusal(f"restartPolicy {failed.role.restart_policy}: exit code {told} is not retryable")
