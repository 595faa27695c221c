"""Which pods an end deletes: cleanPodPolicy, and where the job's kind has rules of its own beside it. It holds on every
way to an end. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tjworker.api.model import CleanPodPolicy, InvalidJob, TrainingJob
from tjworker.api.observed import ENDED_PHASES
from tjworker.api.status import BACKOFF_LIMIT_EXCEEDED, DEADLINE_EXCEEDED
from tjworker.reconcile.rules import keeps_all

_FREES = frozenset({"Preempted", "Timeout", "NodeFail"})
"""Ends that are to free what the job holds: a preemption that frees nothing is none."""
_LIMITS = frozenset({DEADLINE_EXCEEDED, BACKOFF_LIMIT_EXCEEDED})


@dataclass(frozen=True, slots=True)
class Cleaning:
    """Which pods an end deletes. All: every pod. Running: the pods that have not ended, so that the logs of the others
    can still be read. None: no pod."""

    policy: CleanPodPolicy
    roles: Mapping[str, CleanPodPolicy] = field(default_factory=dict)
    """The policy of single roles, where it differs."""
    by: str = ""
    """What decides so, where that is not the job's cleanPodPolicy."""

    @property
    def takes_pods(self) -> bool:
        return {self.policy, *self.roles.values()} != {"None"}

    @property
    def takes_all(self) -> bool:
        return {self.policy, *self.roles.values()} == {"All"}

    def goes(self, role: str, phase: str) -> bool:
        """`phase`: of a pod of this role."""
        policy = self.roles.get(role, self.policy)
        return policy == "All" or (policy == "Running" and phase not in ENDED_PHASES)

    def __str__(self) -> str:
        return self.by or f"cleanPodPolicy {self.policy}"


def cleaning_at(job: TrainingJob | InvalidJob, phase: str, reason: str, autoclean: bool) -> Cleaning:
    """At an end with this phase and reason: for the end itself, and for the orphan collector, which finds the pods that
    were made since. The policy of a spec that cannot be used is unknown, and deletes only what such an end always
    frees."""
    if keeps_all(job, autoclean):
        return Cleaning("None")
    policy = job.clean_pod_policy if isinstance(job, TrainingJob) else "None"
    batch = job.batch_roles if isinstance(job, TrainingJob) else ()
    by = ""
    if isinstance(job, TrainingJob) and reason in _LIMITS and job.limit_clean_policy is not None:
        policy, by = job.limit_clean_policy, f"the end by {reason}"
    elif policy == "None" and phase in _FREES:
        policy, by = "Running", f"the end in {phase}"
    elif policy == "None" and batch:
        by = f"the end of the role {' and '.join(batch)}"
    return Cleaning(policy, dict.fromkeys(batch, "Running"), by)


def cleaning_after(job: TrainingJob | InvalidJob, autoclean: bool) -> Cleaning:
    """Of a job that has ended."""
    reason = job.status.ending.reason if job.status.ending is not None else ""
    return cleaning_at(job, job.status.phase, reason, autoclean)
