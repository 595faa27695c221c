"""A first status that comes minutes after the first pods, as who was to write it has died again and again: its
startTime is that of the pods, which have run since, and no other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import pytest

from tests.model.contract import SEEN_SECONDS
from tests.simulation.oracles import live
from tests.simulation.points import Died, Fault, Step
from tests.simulation.quiet import quiet
from tests.simulation.scenarios import SCENARIOS
from tests.simulation.world import SimWorld
from tjworker.api.model import TrainingJob
from tjworker.api.observed import PodRecord
from tjworker.api.status import JobStatus
from tjworker.api.timefmt import from_rfc3339, to_rfc3339
from tjworker.reconcile import outcome
from tjworker.reconcile.rules import Rules

RULE = "startTime, startRunningTime and completionTime are written once, when it is so"
UNTOLD_SECONDS = SEEN_SECONDS + 10.0
Pods = tuple[PodRecord, ...]


class Untold(Fault):
    """Every worker dies that is about to write a status, for so long."""

    def before(self, world: SimWorld, step: Step) -> None:
        to_be_told = step.kind == "write" and step.what.endswith("/status")
        if to_be_told and world.clock() - world.began_at < UNTOLD_SECONDS:
            raise Died


def _sees(change: Callable[[Pods], Pods]) -> Callable[[pytest.MonkeyPatch], None]:
    """What the operator takes for the job's pods, when it says since when it has had the job."""
    accept = outcome.accept

    def spoilt(job: TrainingJob, at: str, rules: Rules, pods: Pods = ()) -> JobStatus:
        return accept(job, at, rules, change(pods))

    return lambda patch: patch.setattr(outcome, "accept", spoilt)


def _earlier(pods: Pods) -> Pods:
    return tuple(replace(pod, created_at=to_rfc3339((from_rfc3339(pod.created_at) or 0.0) - 10)) for pod in pods)


@dataclass(frozen=True)
class Case:
    put_in: Callable[[pytest.MonkeyPatch], None]
    want: str = ""
    """What the model says of it."""


CASES: Mapping[str, Case] = {
    "the operator as it is": Case(lambda patch: None),
    "it is that of the status, as if there had been no pods": Case(_sees(lambda pods: ()), "later than its first pod"),
    "it is earlier than any pod": Case(_sees(_earlier), "is not when it was written"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_late_first_status_counts_from_the_pods(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    CASES[name].put_in(monkeypatch)
    with quiet():
        said = live(SCENARIOS["ai-pod-times-out"], Untold(), more_seconds=600).model
    assert said.reached[RULE]
    about_it = [one for one in said.wrong if one.startswith(RULE)]
    assert bool(about_it) == bool(CASES[name].want), said.wrong
    assert CASES[name].want in "".join(about_it)
