"""Hostile objects in the local cluster: a healthy job beside them has the same end after the same requests as alone."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from benchmarks.support.inprocess import InProcessTransport
from tests.hostile.flood import Flood
from tests.hostile.make import VICTIM
from tests.scenarios.world import World, job, play, role

EACH = 8
SEED = 2961120499
"""Fixed: the local cluster's own controllers do not stand every object. Another one: TJ_HOSTILE_SEED."""


def live(world: World, flood: Flood | None, seed: int) -> tuple[str, dict[str, str], Counter[tuple[str, str]]]:
    """How the healthy job ends, the phases of its pods, and the worker's requests for it."""
    healthy = job({"trainer": role(2, annotations=play(run_seconds=30))}, cleanPodPolicy="None")
    world.apply(healthy).run()
    if flood is not None:
        flood.pour(seed, EACH, world.run)
    world.run().advance(60)
    pods = {name: pod["status"]["phase"] for name, pod in world.pods().items() if name.startswith("digits-")}
    asked = Counter((method, path) for method, path in world.transport.requests if "/digits" in path)
    return world.phase(), pods, asked


@pytest.mark.long
def test_a_healthy_job_beside_hostile_objects_lives_as_if_alone() -> None:
    seed = int(os.environ.get("TJ_HOSTILE_SEED", SEED))
    print(f"seed {seed}")  # noqa: T201
    alone = live(World(nodes=2, seed=1), None, seed)
    beside = World(nodes=2, seed=1)
    victim = job({"trainer": role(1)}, name=VICTIM, suspend=True)
    beside.apply(victim).run()
    uid = beside.get(next(iter(beside._applied.values())), VICTIM)["metadata"]["uid"]
    flood = Flood(InProcessTransport(beside.cluster.apiserver.handle), "default", uid)
    found = live(beside, flood, seed)
    print(flood.told())  # noqa: T201
    assert found == alone, f"seed {seed}"
    report = beside.watcher.report()
    assert not any(pulse.skipped for pulse in (report.reflectors or {}).values()), f"seed {seed}"
