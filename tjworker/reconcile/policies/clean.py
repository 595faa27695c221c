"""cleanPodPolicy: which pods go when the job has ended. It holds on every way to an end. Pure."""

from __future__ import annotations

from typing import Protocol

from tjworker.api.model import CleanPodPolicy
from tjworker.api.observed import ENDED_PHASES

_FREES = frozenset({"Preempted", "Timeout", "NodeFail"})
"""Ends that are to free what the job holds: a preemption that frees nothing is none."""


def policy_at(policy: CleanPodPolicy, phase: str) -> CleanPodPolicy:
    """The policy that holds at this end."""
    return "Running" if policy == "None" and phase in _FREES else policy


class InPhase(Protocol):
    @property
    def phase(self) -> str: ...


def goes(policy: CleanPodPolicy, pod: InPhase) -> bool:
    """All: every pod. Running: those that have not ended, so that the logs of the others can still be read. None:
    none."""
    if policy == "All":
        return True
    return policy == "Running" and pod.phase not in ENDED_PHASES
