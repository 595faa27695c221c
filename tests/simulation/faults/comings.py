"""Row 16. Two watchers, three beats, and workers that come and go: for five minutes of a scenario, every few seconds
one of them is killed in the middle of what it does, falls asleep there, or leaves and comes back.

The leader is struck while the other watcher stands by, and that one leads within the promised time. A leader that wakes
up and is none any more writes nothing.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

from tests.simulation.crowd import BEATS, WATCHERS, CrowdWorld
from tests.simulation.fault import Row, Verdict, verdict
from tests.simulation.oracles import LOST_HOLDER_SECONDS, UNTOLD, Allowance, judge, live, whole
from tests.simulation.points import Died, Fault, Step
from tests.simulation.scenarios import SCENARIOS
from tests.simulation.world import SimWorld

TAKE_OVER_SECONDS = 20.0
STRIKES_SECONDS = 300.0
MOST_WORKERS = 3
WRITES = ("apply", "mark_synced", "reset")
RUNS = 40
FIRST = 1


class Comings(Fault):
    def __init__(self, seed: str) -> None:
        self._rng = random.Random(seed)
        self._due_at = 0.0
        self._doomed: set[str] = set()
        self._asleep: dict[str, float] = {}
        """Who falls asleep at its next step, for how many seconds."""
        self.strikes: list[str] = []
        self.take_overs_seconds: list[float] = []
        self.late_writes: list[str] = []

    def before(self, world: SimWorld, step: Step) -> None:
        assert isinstance(world, CrowdWorld)
        if step.actor in self._doomed:
            self._doomed.discard(step.actor)
            raise Died
        seconds = self._asleep.pop(step.actor, None)
        if seconds is not None:
            world.struck_at = world.clock()
            world.others_go_on(step.actor, seconds)
            if world.leader == step.actor:
                world.struck_at = None

    def after(self, world: SimWorld, step: Step) -> None:
        assert isinstance(world, CrowdWorld)
        if step.actor in WATCHERS and step.actor != world.leader and step.what.startswith(WRITES):
            self.late_writes.append(f"{step.actor} wrote when {world.leader} led: {step.what}")

    def passes(self, world: SimWorld) -> None:
        assert isinstance(world, CrowdWorld)
        self.take_overs_seconds = world.take_overs_seconds
        now = world.clock()
        if now < self._due_at or now > world.began_at + STRIKES_SECONDS:
            return
        if self._due_at:
            what = self._rng.choice(list(STRIKES))
            if STRIKES[what](self, world):
                self.strikes.append(what)
        self._due_at = now + self._rng.uniform(2.0, 15.0)

    def next_due(self, now_seconds: float) -> float | None:
        return self._due_at if self._due_at > now_seconds else None

    # -- what happens to whom; False when there is none to whom it may ---------------------------

    def _leader_dies(self, world: CrowdWorld) -> bool:
        if not self._may_strike(world):
            return False
        self._doomed.add(world.leader)
        return True

    def _leader_sleeps(self, world: CrowdWorld) -> bool:
        """Sometimes for less than the lease."""
        if not self._may_strike(world):
            return False
        self._asleep[world.leader] = self._rng.uniform(3.0, 45.0)
        return True

    def _leader_leaves(self, world: CrowdWorld) -> bool:
        if not self._may_strike(world) or world.leader not in world.free_watchers():
            return False
        world.candidates[world.leader].leave()
        world.loses(world.leader, self._rng.uniform(1.0, 30.0))
        return True

    def _standby_dies(self, world: CrowdWorld) -> bool:
        standby = world.standby() if self._may_strike(world) else None
        if standby is not None:
            world.loses(standby.name, self._rng.uniform(1.0, 30.0))
        return standby is not None

    def _may_strike(self, world: CrowdWorld) -> bool:
        """The leader works, nothing else is about to happen to it, and another stands by."""
        waiting = {*self._doomed, *self._asleep}
        return world.struck_at is None and world.leader not in waiting and world.standby() is not None

    def _worker_dies(self, world: CrowdWorld) -> bool:
        """In the middle of a task."""
        self._doomed.add(self._rng.choice(world.worker_names()))
        return True

    def _worker_goes(self, world: CrowdWorld) -> bool:
        free = world.free_workers()
        if len(free) < 2:
            return False
        world.worker_goes(self._rng.choice(free), self._rng.uniform(5.0, 60.0))
        return True

    def _worker_comes(self, world: CrowdWorld) -> bool:
        if len(world.workers) >= MOST_WORKERS:
            return False
        world.worker_comes()
        return True

    def _beat_goes(self, world: CrowdWorld) -> bool:
        world.beat_goes(self._rng.randrange(BEATS), self._rng.uniform(5.0, 60.0))
        return True


STRIKES: Mapping[str, Callable[[Comings, CrowdWorld], bool]] = {
    "the leader dies": Comings._leader_dies,
    "the leader sleeps": Comings._leader_sleeps,
    "the leader leaves": Comings._leader_leaves,
    "the standby dies": Comings._standby_dies,
    "a worker dies": Comings._worker_dies,
    "a worker goes": Comings._worker_goes,
    "a worker comes": Comings._worker_comes,
    "a beat goes": Comings._beat_goes,
}


def play(run: str) -> Verdict:
    name = run.partition("/")[0]
    comings = Comings(run)
    outcome = live(SCENARIOS[name], comings, world_type=CrowdWorld)
    wrong = [
        f"another led only after {seconds:.1f} s"
        for seconds in comings.take_overs_seconds
        if seconds > TAKE_OVER_SECONDS
    ]
    if not comings.strikes:
        wrong.append("none came and none went")
    # One worker after another may die of the status that tells of a restart's end, until the job ends.
    allowed = Allowance(STRIKES_SECONDS + LOST_HOLDER_SECONDS, unlike=UNTOLD)
    wrong += [*comings.late_writes[:3], *judge(outcome, whole(name), allowed)]
    return verdict(outcome, whole(name), wrong)


ROW = Row(
    16,
    "two watchers, three beats, and workers that come and go",
    lambda: [f"{name}/{number}" for name in SCENARIOS for number in range(RUNS)],
    {name: lambda name=name: [f"{name}/{number}" for number in range(FIRST)] for name in SCENARIOS},  # type: ignore[misc]
    play,
)
