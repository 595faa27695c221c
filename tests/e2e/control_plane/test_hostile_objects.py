"""What the real API server accepts, the operator survives: jobs before, during and after a flood of hostile objects."""

from __future__ import annotations

import re

from tests.e2e.control_plane.operator import Operator
from tests.e2e.control_plane.world import RealWorld
from tests.hostile.flood import Flood
from tests.hostile.make import VICTIM
from tests.scenarios.world import job, play, role
from tests.support.seeds import the_seed

EACH = 15
"""Of each kind. `tests/hostile/test_in_process.py` has more; here it is asked what a real API server lets pass."""


def test_what_the_real_api_server_accepts_the_operator_survives(operator: Operator, world: RealWorld) -> None:
    seed = the_seed()
    print(f"seed {seed}")  # noqa: T201
    world.apply(job({"trainer": role(1)}, name=VICTIM, suspend=True))
    world.apply(job({"trainer": role(1)}, name="before"))
    world.until("the job of before runs", lambda: world.phase("before") == "Running")
    pods = world.uids()
    victim = next(owner["uid"] for owner in world.owner_references() if owner["name"] == VICTIM)
    flood = Flood(world._transport, world.namespace, victim)
    try:
        flood.pour(seed, EACH)
        print(flood.told())  # noqa: T201
        world.apply(job({"trainer": role(1, annotations=play(run_seconds=1))}, name="after"))
        world.until("the job of after succeeds", lambda: world.phase("after") == "Succeed", within_seconds=180)
        assert world.phase("before") == "Running", f"seed {seed}"
        assert world.uids().items() >= pods.items(), f"seed {seed}"
        log = operator.processes["watcher"].log.read_text()
        assert "a thread of the watcher broke" not in log, f"seed {seed}"
        assert re.findall("an object cannot be read[^\n]*", log) == [], f"seed {seed}"
    finally:
        flood.drain()
