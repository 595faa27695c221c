"""The jobs that live through chaos: of each kind that its operator serves there is one, and undisturbed, in virtual
time, each comes to the end that its name says."""

from __future__ import annotations

import pytest

from tests.chaos.served import GUESTS, SETTINGS
from tests.chaos.waves import RUNTIMES, SCENARIOS
from tests.scenarios.world import World
from tests.support.kinds import collection_of, resource_of
from tests.support.tiers import one_in
from tests.support.trainer import RUNTIME_PATH
from tjworker.api.kinds import KINDS
from tjworker.api.kinds.base import seen_status

WITHIN_SECONDS = 200


def test_each_kind_that_is_served_has_a_life() -> None:
    assert {resource_of(manifest) for manifest in SCENARIOS.values()} == {*KINDS, *GUESTS}


@pytest.mark.parametrize("name", one_in(4, SCENARIOS))
def test_a_life_ends_as_its_name_says(name: str) -> None:
    manifest, world = SCENARIOS[name], World(nodes=3, kinds=SETTINGS["TJ_KINDS"])
    for named in RUNTIMES:
        world.cluster.client.create(RUNTIME_PATH, named)
    world.cluster.client.create(collection_of(manifest), manifest)
    world.run().advance(WITHIN_SECONDS, step_seconds=2)
    (job,) = world.cluster.client.get(collection_of(manifest))["items"]
    status = seen_status(job)
    assert status["phase"] == ("Failed" if name.endswith("fails") else "Succeed"), status
    restarts = sum(count for of in status.get("restartCounts", {}).values() for count in of.values())
    assert bool(restarts) == any(word in name for word in ("restarts", "replaces")), status
