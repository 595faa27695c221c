"""Never: no failed pod is replaced."""

from tjworker.reconcile.policies.restart.rule import Failed, Refusal, by_policy


def refuse(failed: Failed) -> Refusal | None:
    return by_policy(failed)
