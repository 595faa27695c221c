"""A job that Redis keeps without its spec, since it is too large or rests, is operated as any other."""

from __future__ import annotations

from tests.scenarios.world import World, job, role
from tjworker.base import MOST_KEPT_OF_A_JOB


def test_a_job_with_a_very_large_spec_has_its_pods_and_its_owner_is_told_once() -> None:
    world = World(nodes=1, seed=1)
    large = job({"trainer": role(2)})
    large["metadata"].setdefault("annotations", {})["notes"] = "x" * (2 * MOST_KEPT_OF_A_JOB)
    world.apply(large).run()
    assert len(world.pods()) == 2
    assert world.events()["LargeSpec"] == 1


def test_a_suspended_job_is_resumed() -> None:
    world = World(nodes=1, seed=1)
    waiting = job({"trainer": role(2)})
    waiting["spec"]["suspend"] = True
    world.apply(waiting).run()
    assert world.pods() == {}
    assert world.phase() == "Suspended"
    world.patch_job("digits", {"spec": {"suspend": False}}).run()
    assert len(world.pods()) == 2
