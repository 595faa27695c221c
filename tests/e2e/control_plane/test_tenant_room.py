"""What bounds a tenant whose elastic jobs would take a whole cluster: its namespace's quota, not the autoscaler."""

from __future__ import annotations

from tests.e2e.control_plane.operator import Operator
from tests.e2e.control_plane.world import RealWorld
from tests.scenarios.elastic import TICK_SECONDS, elastic, trainers, wants

ROOM = 3


def test_a_tenants_jobs_take_no_more_than_its_quota(operator: Operator, world: RealWorld) -> None:
    world.set_quota("room", pods=str(ROOM))
    with operator.autoscaling():
        world.apply(elastic("greedy", 1, 1, 10))
        world.until("it would take more than its room", lambda: wants(world, "greedy") > ROOM)
        world.until(
            "and is told why it cannot",
            lambda: "exceeded quota: room" in (world.condition("Running", "greedy") or {}).get("message", ""),
        )
        world.until("what the quota refuses is taken back", lambda: wants(world, "greedy") == ROOM)
        record = world.status("greedy")["scaleRecords"][0]
        assert record["cause"] == "refused", record
        world.until("it runs in its room", lambda: world.phase("greedy") == "Running")
        assert len(trainers(world, "greedy")) == ROOM
        world.stays("it takes no more", lambda: len(world.pods()) == ROOM, for_seconds=2 * TICK_SECONDS)
