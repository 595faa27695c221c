"""ExitCode: pods that failed only with retryable exit codes are replaced, and evicted or preempted pods."""

from tjworker.reconcile.policies.restart.rule import FailedReplica, RestartRefusal, by_policy, policy_words


def refuse(failed: FailedReplica) -> RestartRefusal | None:
    kind = failed.diagnosis.kind
    if kind == "disrupted":
        return None
    if kind != "exit":
        return by_policy(failed)
    why = _not_retryable(failed)
    return RestartRefusal(f"restartPolicy {policy_words(failed.role)}: {why} is not retryable") if why else None


def _not_retryable(failed: FailedReplica) -> str:
    """For people, the part of the failure that is not retryable; '' if there is none."""
    diagnosis, job = failed.diagnosis, failed.job
    if diagnosis.cannot_start:
        return "a command that cannot be started"
    if not diagnosis.main_ended:
        return "" if job.retries_unknown_exit else "a failure without an exit code"
    if diagnosis.exit_codes and diagnosis.exit_codes <= job.retryable_exit_codes:
        return ""
    # Without a code, every container that counts has exited with 0, and another one made the pod fail.
    return f"exit code {', '.join(map(str, sorted(diagnosis.exit_codes))) or '0'}"
