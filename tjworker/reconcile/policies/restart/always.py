"""Always: every failed pod is replaced."""

from tjworker.reconcile.policies.restart.rule import Failed, Refusal


def refuse(_: Failed) -> Refusal | None:
    return None
