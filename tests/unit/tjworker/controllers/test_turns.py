"""Whose turn it is: beat sends each periodic task once a period, never exactly a period apart, and two beats may."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.scenarios.world import World, job, play, role
from tests.support.clocks import shared
from tjworker.controllers.autoscaler import NAME, Autoscaler
from tjworker.controllers.orphans import OrphanCollector

PERIOD_SECONDS = 100.0
Run = Callable[[], str]


def autoscaler(world: World) -> Run:
    return Autoscaler(world.store, world.api, world.settings, clock=shared(world.clock)).run


def collector(world: World) -> Run:
    return OrphanCollector(world.store, world.api, world.settings, clock=shared(world.clock)).run


def resync(world: World) -> Run:
    return world.make_runtime("worker-1").resync.run


TASKS = {
    "autoscale": (autoscaler, "another run has this period"),
    "collect-orphans": (collector, "another beat was first"),
    "resync": (resync, "another beat was first"),
}


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("early", [0.0, 0.01, 0.1], ids=lambda e: f"{e:.0%} early")
def test_a_tick_that_comes_a_little_early_is_not_lost(name: str, early: float) -> None:
    make, refused = TASKS[name]
    world = World(
        autoscale_seconds=PERIOD_SECONDS, collect_orphans_seconds=PERIOD_SECONDS, resync_seconds=PERIOD_SECONDS
    )
    run = make(world)
    for _ in range(3):
        assert run() != refused
        world.clock.now_seconds += PERIOD_SECONDS * (1 - early)


@pytest.mark.parametrize("name", TASKS)
def test_of_two_beats_the_second_does_nothing(name: str) -> None:
    make, refused = TASKS[name]
    world = World(
        autoscale_seconds=PERIOD_SECONDS, collect_orphans_seconds=PERIOD_SECONDS, resync_seconds=PERIOD_SECONDS
    )
    first, second = make(world), make(world)
    for _ in range(3):
        assert first() != refused
        world.clock.now_seconds += PERIOD_SECONDS / 2
        assert second() == refused
        world.clock.now_seconds += PERIOD_SECONDS / 2


def test_no_write_of_a_run_begins_when_another_beat_may_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two runs that write at once would share out the same room twice."""
    world = World(nodes=10, autoscale_seconds=PERIOD_SECONDS)
    for number in range(12):
        bounds: dict[str, Any] = {"minReplicas": 1, "maxReplicas": 3, "edlPolicy": "Auto"}
        world.apply(job({"trainer": role(1, image=play(**{"run-seconds": 9999}), **bounds)}, f"j{number}"))
    world.run().advance(40)
    patch, free = world.api.merge_patch, list[bool]()

    def slow_patch(*args: Any, **kwargs: Any) -> Any:
        free.append(world.store.maintenance.once(NAME, PERIOD_SECONDS))
        world.clock.now_seconds += 0.09 * PERIOD_SECONDS
        return patch(*args, **kwargs)

    monkeypatch.setattr(world.api, "merge_patch", slow_patch)
    autoscaler(world)()
    assert len(free) < 12, "the border comes before the last job"
    assert free == [False] * 9
