"""Runs of the whole figures that have once diverged, each for a reason of its own."""

from __future__ import annotations

import pytest

from tests.simulation.faults import ROWS
from tests.simulation.quiet import quiet

ONCE_WRONG = {
    "the child that is refused is another job's": "15/ai-pod-shares-its-tasks/write-9-422",
    "the job ends before the status is tried again that a restart waits for": "15/pytorch-restarts/write-8-422",
    "the job ends before its user finds the pod that he means to delete": (
        "28/pytorch-loses-worker/device-plugin-rejects"
    ),
    "the timer of a finished job is forgotten, and no resync looks at it: the watcher does": "29/ai-pod-tensorboard/2",
}


@pytest.mark.parametrize("run", ONCE_WRONG.values(), ids=list(ONCE_WRONG))
def test_it_ends_well(run: str) -> None:
    number, _, rest = run.partition("/")
    with quiet():
        assert ROWS[int(number)].play(rest).wrong == ()
