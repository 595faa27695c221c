"""Passes that die with their process: the job says so, waits longer each time, and holds up nobody else."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scenarios.world import World, job, role
from tests.support.passes import reconcile_key
from tjworker.base import JobKey, Transient
from tjworker.settings import Settings

KEY = JobKey("aitrainingjobs.elasticdeeplearning.ai/default/digits")
OTHER = JobKey("aitrainingjobs.elasticdeeplearning.ai/default/other")
LEASE_SECONDS = Settings().lock_ttl_seconds


class Outages:
    """A job whose passes end while Redis is away. Each outage begins during a pass and is longer than a lease."""

    def __init__(self) -> None:
        self.world = World(nodes=1, seed=1)
        self.world.apply(job({"trainer": role(1)})).watch()
        self.goes, self.away = False, False
        queue: Any = self.world.store.queue
        acquire_views, finish_all = queue.acquire_views, queue.finish_all

        def taken(*arguments: Any) -> Any:
            found = acquire_views(*arguments)
            self.away = self.goes
            return found

        def finished(endings: Any) -> Any:
            if self.away:
                raise Transient("Redis cannot be reached")
            return finish_all(endings)

        queue.acquire_views, queue.finish_all = taken, finished

    def end_a_pass_in_an_outage(self) -> int:
        """Deaths in a row that Redis has counted when the resync has found the key."""
        self.world.store.queue.add([KEY])
        self.goes = True
        with pytest.raises(Transient):
            reconcile_key(self.world.worker, KEY)
        self.goes = self.away = False
        self.world.cluster.advance(LEASE_SECONDS + 1)
        self.world.store.queue.resync(lost_after_seconds=0, everything=False)
        return self.deaths()

    def deaths(self) -> int:
        return self.world.store.snapshot().deaths.get(KEY, 0)


def test_passes_that_end_while_redis_is_away_have_not_died() -> None:
    room = Outages()
    assert [room.end_a_pass_in_an_outage() for _ in range(3)] == [1, 1, 1], "each takes back the one before"
    room.world.run()
    assert room.world.phase() == "Running"
    assert not room.world.condition("Stalled")
    assert room.deaths() == 0


class Killed(BaseException):
    """SIGKILL: no handler runs, nothing is released."""


class Room:
    """A job whose pass dies while it writes pods, for as long as `deadly`."""

    def __init__(self) -> None:
        self.world = World(nodes=1, seed=1)
        self.world.apply(job({"trainer": role(1)})).watch()
        self.deadly = True
        apply = self.world.worker._executor.apply

        def applied(of: Any, plan: Any, lease: Any) -> Any:
            if self.deadly and plan.writes and lease.key == KEY:
                raise Killed
            return apply(of, plan, lease)

        self.world.worker._executor.apply = applied  # type: ignore[method-assign, assignment]

    def die(self, times: int = 1) -> float:
        """Passes that die one after another, each tried when its wait is over. How long the last one made it wait."""
        waited = 0.0
        for _ in range(times):
            self.queue().add([KEY])
            with pytest.raises(Killed):
                reconcile_key(self.world.worker, KEY)
            self.world.watch()
            self.world.cluster.advance(LEASE_SECONDS + 1)
            self.queue().resync(lost_after_seconds=1000, everything=False)
            due = self.world.store.next_due()
            waited = 0.0 if due is None else round(due - self.world.clock())
            self.world.cluster.advance(waited + 1)
            self.queue().take_due(10)
        return waited

    def queue(self) -> Any:
        return self.world.store.queue

    def condition(self) -> tuple[str, str, str]:
        """Status, reason and message; empty when it is not there."""
        found = self.world.condition("Stalled")
        return found.get("status", ""), found.get("reason", ""), found.get("message", "")


def test_passes_that_die_again_and_again_are_told_on_the_job_with_the_next_wait() -> None:
    room = Room()
    assert [room.die(), room.die(), room.die(), room.die()] == [0, 10, 20, 40]
    status, reason, message = room.condition()
    assert (status, reason) == ("True", "PassDied")
    assert message.startswith("the last 3 passes over this job died with their worker process")
    assert "the next try is in 40 s" in message, "which is how long it then waited"


def test_the_first_pass_that_comes_to_its_end_takes_that_back() -> None:
    room = Room()
    room.die(3)
    room.deadly = False
    assert "created 1 pod, 1 service" in reconcile_key(room.world.worker, KEY)
    assert room.queue().stats().queued == 1, "the next pass is asked for at once"
    assert room.condition()[0] == "True"
    room.world.watch()
    reconcile_key(room.world.worker, KEY)
    assert room.condition()[:2] == ("False", "PassEnded")


def test_between_two_deaths_every_other_job_gets_its_turn() -> None:
    room = Room()
    room.die(3)
    for name in ("other", "third"):
        room.world.apply(job({"trainer": role(1)}, name)).watch()
    with pytest.raises(Killed):
        reconcile_key(room.world.worker, OTHER)
    results = [reconcile_key(room.world.worker, OTHER) for _ in range(2)]
    assert results[0].startswith("2 jobs: ")
    assert results[0].count("Pending, created 1 pod, 1 service") == 2
    assert results[1].startswith("nothing to do"), "the one that died is not tried again"
