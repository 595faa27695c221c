"""The argument and the result of a restart policy. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tjworker.api.model import Role, TrainingJob
from tjworker.api.status import RoleAttempts
from tjworker.reconcile.failures import Diagnosis
from tjworker.reconcile.replicas import Replica


@dataclass(frozen=True, slots=True)
class FailedReplica:
    """A replica whose pod has failed."""

    job: TrainingJob
    role: Role
    replica: Replica
    diagnosis: Diagnosis
    attempts: RoleAttempts
    """The role's restarts and results before this pass, from the status."""


@dataclass(frozen=True, slots=True)
class RestartRefusal:
    """Why no restart follows a failure."""

    why: str
    """For people."""
    reason: str = ""
    """Reason of the job's end, if a limit of the policy is reached; '' for the reason of the role's verdict."""


Rule = Callable[[FailedReplica], RestartRefusal | None]
"""Returns None if the replica is restarted."""


def policy_words(role: Role) -> str:
    """The restart policy as the manifest writes it."""
    return role.restart_words or role.restart_policy


def by_policy(failed: FailedReplica) -> RestartRefusal:
    return RestartRefusal(f"restartPolicy is {policy_words(failed.role)}")
