"""What a restart policy is asked, and what it answers. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tjworker.api.model import Role, TrainingJob
from tjworker.api.status import RoleAttempts
from tjworker.reconcile.failures import Diagnosis
from tjworker.reconcile.replicas import Replica


@dataclass(frozen=True, slots=True)
class Failed:
    """A replica whose pod has failed."""

    job: TrainingJob
    role: Role
    replica: Replica
    diagnosis: Diagnosis
    attempts: RoleAttempts
    """The role's restarts and results before this pass: what the status remembers."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a failure is not followed by a restart."""

    why: str
    """For people."""
    reason: str = ""
    """Of the job's end, where a limit of the policy's own is reached; '' for that of the role's verdict."""


Rule = Callable[[Failed], Refusal | None]
"""None: the replica is restarted."""


def policy_words(role: Role) -> str:
    """The restart policy as the manifest has it."""
    return role.restart_words or role.restart_policy


def by_policy(failed: Failed) -> Refusal:
    return Refusal(f"restartPolicy is {policy_words(failed.role)}")
