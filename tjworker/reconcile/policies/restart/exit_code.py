"""ExitCode: pods that failed with retryable exit codes alone are replaced, and those that were evicted or preempted."""

from tjworker.reconcile.policies.restart.rule import Failed, Refusal, by_policy, policy_words


def refuse(failed: Failed) -> Refusal | None:
    kind = failed.diagnosis.kind
    if kind == "disrupted":
        return None
    if kind != "exit":
        return by_policy(failed)
    why = _not_retryable(failed)
    return Refusal(f"restartPolicy {policy_words(failed.role)}: {why} is not retryable") if why else None


def _not_retryable(failed: Failed) -> str:
    """What of the failure is not retryable; '' where all of it is."""
    diagnosis, job = failed.diagnosis, failed.job
    if diagnosis.cannot_start:
        return "a command that cannot be started"
    if not diagnosis.main_ended:
        return "" if job.retries_unknown_exit else "a failure without an exit code"
    if diagnosis.exit_codes and diagnosis.exit_codes <= job.retryable_exit_codes:
        return ""
    # Without a code, every counted container has ended with 0, and another container has failed the pod.
    return f"exit code {', '.join(map(str, sorted(diagnosis.exit_codes))) or '0'}"
