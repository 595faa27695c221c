"""cleanPodPolicy: which pods go when the job has ended. It holds on every way to an end. Pure."""

from __future__ import annotations

from typing import Protocol

from tjworker.api.model import CleanPodPolicy, InvalidJob, TrainingJob
from tjworker.api.observed import ENDED_PHASES
from tjworker.reconcile.rules import keeps_all

_FREES = frozenset({"Preempted", "Timeout", "NodeFail"})
"""Ends that are to free what the job holds: a preemption that frees nothing is none."""


def policy_of_end(job: TrainingJob | InvalidJob, phase: str, autoclean: bool) -> CleanPodPolicy:
    """The policy that holds at this end: for the end itself, and for the orphan collector, which finds what has come
    since. That of a spec which cannot be used is not known, and takes nothing but what an end always frees."""
    if keeps_all(job, autoclean):
        return "None"
    policy = job.clean_pod_policy if isinstance(job, TrainingJob) else "None"
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
