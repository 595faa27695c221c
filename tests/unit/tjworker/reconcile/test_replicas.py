"""How the replicas of a role are counted."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.builders import make_job, make_pod
from tests.support.builders.cluster import PodBuilder
from tests.unit.tjworker.reconcile.passes import decide, everything, status_of

EVICTED = {"by the kubelet": lambda p: p.evicted(), "through the API": lambda p: p.disrupted("EvictionByEvictionAPI")}


@pytest.mark.parametrize("change", EVICTED.values(), ids=EVICTED.keys())
def test_an_evicted_replica_is_counted_as_that(change: Callable[[PodBuilder], PodBuilder]) -> None:
    job = make_job().role("trainer", 2, restart="Never", fail="None").build()
    pods = [change(make_pod(job, "trainer", 0)), make_pod(job, "trainer", 1).failed()]
    counts = status_of(decide(job, everything(job, *pods))).replica_statuses["trainer"]
    assert (counts.evicted, counts.failed) == (1, 2)
