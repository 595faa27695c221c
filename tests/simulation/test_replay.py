"""A run is its name: `make sim SEED=` shows again exactly what happened."""

from __future__ import annotations

import pytest

from tests.simulation.faults import ROWS
from tests.simulation.quiet import quiet
from tests.support.tiers import one_in

RUNS = {
    "a worker dies at a request": (1, "ai-pod-autoscaled/29-after"),
    "Redis is read-only and the watcher waits for it": (9, "ai-pod-loses-pod/40-read-only"),
    "many faults at random moments": (10, "100000"),
    "the API server asks for patience": (15, "ai-pod-autoscaled/storm-19"),
    "watchers come and go": (16, "ai-pod-autoscaled/0"),
}


@pytest.mark.parametrize("sentence", one_in(3, RUNS))
def test_the_same_run_leaves_the_same_trace(sentence: str) -> None:
    number, run = RUNS[sentence]
    with quiet():
        first, second = (str(ROWS[number].play(run).trace).splitlines() for _ in range(2))
    assert first == second, f"make sim SEED={ROWS[number].seed(run)}"
    assert len(first) > 50
