"""cleanPodPolicy: which pods go when the job has ended. It holds on every way to an end. Pure."""

from __future__ import annotations

from typing import Protocol

from tjworker.api.model import CleanPodPolicy
from tjworker.api.observed import ENDED_PHASES


class InPhase(Protocol):
    @property
    def phase(self) -> str: ...


def goes(policy: CleanPodPolicy, pod: InPhase) -> bool:
    """All: every pod. Running: those that have not ended, so that the logs of the others can still be read. None:
    none."""
    if policy == "All":
        return True
    return policy == "Running" and pod.phase not in ENDED_PHASES
