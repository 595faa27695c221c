"""From where a watcher may go on, and when it may not."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.support.kinds import AITRAININGJOBS, TRAININGJOBS
from tjworker.api.resources import NODES, PODS
from tjworker.store.projection import Checkpoint
from watcher.resume import FROM_NOTHING, Start, start_from

SOURCES = (AITRAININGJOBS, TRAININGJOBS, PODS, NODES)
RUNTIMES = "clustertrainingruntimes.trainer.kubeflow.org"
PROGRESS: dict[str, int] = {AITRAININGJOBS: 50, PODS: 52, NODES: 51}
WHOLE = Checkpoint("red", PROGRESS, synced=True, form="f1")


@dataclass(frozen=True, slots=True)
class Case:
    checkpoint: Checkpoint
    want: Start = FROM_NOTHING
    sources: tuple[str, ...] = SOURCES
    form: str = "f1"


CASES = {
    "A whole projection, of a known cluster and made by the same code, goes on; a kind that was not there is listed.": (
        Case(WHOLE, Start("red", {AITRAININGJOBS: 50, PODS: 52}))
    ),
    "A watch of runtimes goes on from their last change, also of those without a namespace.": Case(
        Checkpoint("red", {RUNTIMES: 20}, synced=True, form="f1"), Start("red", {RUNTIMES: 20}), sources=(RUNTIMES,)
    ),
    "A projection that never was whole, or was lost, is not trusted.": Case(Checkpoint("red", PROGRESS, form="f1")),
    "A projection of another version of the code is not trusted.": Case(WHOLE, form="f2"),
    "Code that cannot say its form trusts nothing, not even another that cannot.": Case(
        Checkpoint("red", PROGRESS, synced=True), form=""
    ),
    "A cluster without a name may be any: its versions are not trusted.": Case(
        Checkpoint("", PROGRESS, synced=True, form="f1")
    ),
    "Watches of namespaces go on each for itself, and a namespace that is new is listed.": Case(
        Checkpoint("red", {"pods/a": 7, "pods/b": 8}, synced=True, form="f1"),
        Start("red", {"pods/a": 7}),
        sources=("pods/a", "pods/c"),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_start(name: str) -> None:
    case = CASES[name]
    assert start_from(case.checkpoint, case.sources, case.form) == case.want
