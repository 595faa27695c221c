"""Jobs whose passes kill their worker, beside healthy ones: who is harmed, who says so, and how often it is tried.

The whole operator in virtual time with two workers: the death is that of `kill -9`, at the moment at which a pass of
such a job begins to write. What the operating system does when memory runs out is no other.
"""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cache
from itertools import pairwise

from tests.scenarios.world import job, play, role
from tests.simulation.points import Died, Fault, Step
from tests.simulation.world import SimWorld

POISON = ("poison-a", "poison-b", "poison-c")
HEALTHY = tuple(f"healthy-{number:02}" for number in range(12))
RUN_SECONDS = 60
WITHIN_SECONDS = 600.0
NEXT_WAVE_SECONDS = 120.0


class Poisonous(Fault):
    """A worker dies when it is about to make a child of one of these jobs."""

    def __init__(self, *names: str) -> None:
        self.names = set(names)
        self.deaths: dict[str, list[float]] = defaultdict(list)

    def before(self, world: SimWorld, step: Step) -> None:
        made = re.match(r"POST \w+/(poison-[a-z])", step.what)
        if step.kind == "write" and made and made[1] in self.names:
            self.deaths[made[1]].append(world.clock())
            raise Died


class Room:
    """Poison and half of the healthy jobs at the beginning, the other half while the poison is tried again."""

    def __init__(self, *poison: str) -> None:
        self.fault = Poisonous(*poison)
        self.world = SimWorld(seed=7, nodes=4, fault=self.fault)
        self.ended: dict[str, float] = {}
        begun: dict[str, float] = {}
        for wave in ((*poison, *HEALTHY[::2]), HEALTHY[1::2]):
            for name in wave:
                self.world.apply(job({"trainer": role(1, annotations=play(run_seconds=RUN_SECONDS))}, name))
                begun[name] = self.world.clock()
            self.live(NEXT_WAVE_SECONDS, begun)
        self.live(WITHIN_SECONDS - 2 * NEXT_WAVE_SECONDS, begun)

    def live(self, seconds: float, begun: dict[str, float]) -> None:
        def look() -> bool:
            for name in HEALTHY:
                if name in begun and name not in self.ended and self.world.status(name).get("phase") == "Succeed":
                    self.ended[name] = self.world.clock() - begun[name]
            return False

        self.world.live(look, within_seconds=seconds)

    def stalled(self, name: str) -> tuple[str, str]:
        """Status and reason of the condition; empty without one."""
        for condition in self.world.status(name).get("conditions", ()):
            if condition["type"] == "Stalled":
                return condition["status"], condition["reason"]
        return "", ""

    def lives(self) -> dict[str, tuple[str, object, int]]:
        """Of each healthy job: its phase, the restarts that it counts, and how many pods were made of it."""
        made = self.world.requests_made
        return {
            name: (
                self.world.status(name)["phase"],
                self.world.status(name).get("restartCounts"),
                sum(count for what, count in made.items() if what.startswith(f"POST pods/{name}")),
            )
            for name in HEALTHY
        }


@cache
def beside_poison() -> Room:
    return Room(*POISON)


@cache
def alone() -> Room:
    return Room()


def test_healthy_jobs_live_the_lives_that_they_live_alone() -> None:
    assert beside_poison().lives() == alone().lives()
    assert {life[::2] for life in alone().lives().values()} == {("Succeed", 1)}, "each ran once, to its end"


def test_no_healthy_job_waits_for_longer_than_a_lease_and_a_resync() -> None:
    """One whose task is lost with a worker that dies waits for so long, and nobody waits for the poison."""
    settings = beside_poison().world.settings
    bound = settings.lock_ttl_seconds + settings.resync_seconds + 5
    late = {name: beside_poison().ended[name] - alone().ended[name] for name in HEALTHY}
    assert max(late.values()) <= bound
    assert sorted(late.values())[len(late) // 2] <= 5, "most notice nothing"


def test_each_poisonous_job_says_so() -> None:
    assert {name: beside_poison().stalled(name) for name in POISON} == dict.fromkeys(POISON, ("True", "PassDied"))
    assert {beside_poison().stalled(name) for name in HEALTHY} == {("", "")}


def test_each_is_tried_less_and_less_often() -> None:
    deaths = beside_poison().fault.deaths
    assert sorted(deaths) == list(POISON)
    for times in deaths.values():
        gaps = [later - earlier for earlier, later in pairwise(times)]
        waits = [0, 10, 20, 40, 80, 160]
        assert all(gap >= wait for gap, wait in zip(gaps, waits, strict=False)), gaps
        assert 5 <= len(times) <= 8, "in ten minutes"


def test_one_that_is_mended_while_it_waits_runs_at_once() -> None:
    room = Room(*POISON)
    room.fault.names.discard("poison-b")
    room.world.patch_job("poison-b", {"spec": {"replicaSpecs": {"trainer": {"replicas": 2}}}})
    assert room.world.live(lambda: len(made(room, "poison-b")) == 2, within_seconds=5)
    assert room.world.live(lambda: room.stalled("poison-b") == ("False", "PassEnded"), within_seconds=5)
    assert made(room, "poison-a") == []


def made(room: Room, name: str) -> list[str]:
    return [pod for pod in room.world.pods() if pod.startswith(f"{name}-trainer-")]
