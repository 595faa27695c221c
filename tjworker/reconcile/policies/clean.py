"""Which pods an end deletes: cleanPodPolicy, and the additional rules of some kinds. Holds for every end. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tjworker.api.model import CleanPodPolicy, InvalidJob, TrainingJob
from tjworker.api.observed import ENDED_PHASES
from tjworker.api.status import BACKOFF_LIMIT_EXCEEDED, DEADLINE_EXCEEDED
from tjworker.reconcile.rules import keeps_all

_FREES = frozenset({"Preempted", "Timeout", "NodeFail"})
"""Ends that must free the job's resources, whatever its policy: a preemption has to make room."""
_LIMITS = frozenset({DEADLINE_EXCEEDED, BACKOFF_LIMIT_EXCEEDED})


@dataclass(frozen=True, slots=True)
class Cleaning:
    """The policies of one end. All deletes every pod. Running deletes the pods that have not ended, so that the logs of
    the others can still be read. None deletes no pod."""

    policy: CleanPodPolicy
    roles: Mapping[str, CleanPodPolicy] = field(default_factory=dict)
    """Policies of roles that differ from `policy`."""
    by: str = ""
    """What decides, for people; '' if it is the job's cleanPodPolicy."""

    @property
    def takes_pods(self) -> bool:
        return {self.policy, *self.roles.values()} != {"None"}

    @property
    def takes_all(self) -> bool:
        return {self.policy, *self.roles.values()} == {"All"}

    def goes(self, role: str, phase: str) -> bool:
        """True if the end deletes a pod of this role that is in this phase."""
        policy = self.roles.get(role, self.policy)
        return policy == "All" or (policy == "Running" and phase not in ENDED_PHASES)

    def __str__(self) -> str:
        return self.by or f"cleanPodPolicy {self.policy}"


def cleaning_at(job: TrainingJob | InvalidJob, phase: str, reason: str, autoclean: bool) -> Cleaning:
    """The cleaning at an end with this phase and reason. The orphan collector uses it, too, for pods that were created
    since."""
    if keeps_all(job, autoclean):
        return Cleaning("None")
    # The policy of an unusable spec is unknown, so only what such an end always frees is deleted.
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
    """The cleaning of a job that has ended."""
    reason = job.status.ending.reason if job.status.ending is not None else ""
    return cleaning_at(job, job.status.phase, reason, autoclean)
