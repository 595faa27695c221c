"""Gang schedulers: they start the pods of a job all together or not at all. `GANGS` is the one place: a scheduler is a
file and a row here, and its name in the rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tjworker.api.model import TrainingJob
from tjworker.reconcile.plan import Create
from tjworker.reconcile.rules import Rules


class Gang(Protocol):
    def objects(self, job: TrainingJob) -> Sequence[Create]:
        """What the job wants in the cluster before its pods, such as a PodGroup."""

    def pod_labels(self, job: TrainingJob) -> Mapping[str, str]:
        """What each of its pods carries to belong to that."""


@dataclass(frozen=True, slots=True)
class NoGang:
    """Each pod is scheduled by itself."""

    def objects(self, job: TrainingJob) -> Sequence[Create]:
        return ()

    def pod_labels(self, job: TrainingJob) -> Mapping[str, str]:
        return {}


NO_GANG = NoGang()
GANGS: Mapping[str, Gang] = {"none": NO_GANG}


def find_gang(rules: Rules) -> Gang:
    return GANGS[rules.gang]
