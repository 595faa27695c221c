"""Short words for the store's contract: each does one call and gives what can be compared, so that a case is a list of
calls beside a list of answers. Calls that give nothing are typed as Any, so that they may stand in that list."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tests.integration.store.worlds import SEAL, World
from tests.support.kinds import AITRAININGJOBS
from tests.support.queueing import finish_one
from tjworker.api.resources import PODS
from tjworker.base import KEYS_PER_TASK, GroupResource, JobKey
from tjworker.store.projection import Change, View
from tjworker.store.sealed_store import sealed
from tjworker.store.work_queue import ON_NEWS, Claim, NextPass, PassEnding, QueueStats, Taken, WithBackoff, Written

A = JobKey("aitrainingjobs.elasticdeeplearning.ai/default/a")
B = JobKey("aitrainingjobs.elasticdeeplearning.ai/default/b")
C = JobKey("aitrainingjobs.elasticdeeplearning.ai/other/c")
JOBS = AITRAININGJOBS
WRITER = 1
JOB = (JOBS, 10)
"""An own write of the job: (resource, resourceVersion)."""


class Drive:
    def __init__(self, world: World, *, lead: bool = True) -> None:
        self.world = world
        self.projection: Any = world.store.projection
        self.beneath: Any = world.bare.projection
        """Without seals: what stands there."""
        self.queue: Any = world.store.queue
        self.claims: dict[JobKey, Claim] = {}
        self.left: list[JobKey] = []
        """What the last task that took keys is to publish."""
        if lead:
            self.projection.lead(WRITER)
            self.projection.mark_synced(WRITER)

    # -- projection
    def apply(self, *changes: Change, progress: Mapping[str, int] | None = None, writer: int = WRITER) -> list[JobKey]:
        return list(self.projection.apply(writer, changes, progress=progress))

    def job(
        self, rv: int, key: JobKey = A, *, finished: bool = False, record: bytes | None = None, uid: str = ""
    ) -> list[JobKey]:
        return self.apply(a_job(rv, key, finished=finished, record=record, uid=uid))

    def quiet_job(self, rv: int, key: JobKey = A) -> list[JobKey]:
        """Nothing has changed that a pass decides on."""
        return self.apply(replace(a_job(rv, key), quiet=True))

    def spec(self, rv: int, generation: int, key: JobKey = A) -> list[JobKey]:
        return self.apply(replace(a_job(rv, key), generation=generation))

    def no_job(self, rv: int, key: JobKey = A) -> list[JobKey]:
        return self.apply(Change(key, JOBS, "a", rv, None, is_job=True))

    def pod(
        self, rv: int, key: JobKey = A, name: str = "a-0", *, record: bytes | None = None, job_uid: str = ""
    ) -> list[JobKey]:
        return self.apply(replace(a_pod(rv, key, name, record=record), job_uid=job_uid))

    def no_pod(self, rv: int, key: JobKey = A, name: str = "a-0") -> list[JobKey]:
        return self.apply(Change(key, PODS, name, rv, None))

    def progress(self, **rv: int) -> list[JobKey]:
        return self.apply(progress={name.replace("__", "/"): value for name, value in rv.items()})

    def view(self, key: JobKey = A) -> View:
        view: View = self.projection.view(key)
        return view

    def pods(self, key: JobKey = A) -> dict[str, bytes]:
        return dict(self.view(key).children.get(PODS, {}))

    # -- queue
    def add(self, *keys: JobKey) -> list[JobKey]:
        return list(self.queue.add(keys or (A,)))

    def later(self, seconds: float, key: JobKey = A) -> Any:
        return self.queue.add_after(key, seconds)

    def due(self, limit: int = 100) -> list[JobKey]:
        return list(self.queue.take_due(limit))

    def take(self, key: JobKey = A, owner: str = "worker-1", ttl_seconds: float = 30) -> bool:
        """Whether the key could be acquired; its claim is remembered."""
        return self.turn(key, owner, ttl_seconds) == key

    def turn(self, named: JobKey = A, owner: str = "worker-1", ttl_seconds: float = 30) -> JobKey | None:
        """The key that a task gets which names this one; its claim is remembered."""
        return next(iter(self.turns(1, named, owner, ttl_seconds)), None)

    def turns(
        self, most: int = KEYS_PER_TASK, named: JobKey = A, owner: str = "worker-1", ttl_seconds: float = 30
    ) -> list[JobKey]:
        """The keys that a task gets that may have so many; their claims are remembered."""
        taken: Taken = self.queue.acquire_views(named, owner, ttl_seconds, most)
        for claim, seen in taken.views:
            assert seen == self.projection.view(claim.key), "a key is taken with the view that one would read after it"
            self.claims[claim.key] = claim
        self.left = list(taken.publish)
        return [claim.key for claim, _ in taken.views]

    def finish_all(self, *endings: PassEnding) -> list[bool]:
        """Which of them the caller publishes."""
        return [bool(done.publish) for done in self.queue.finish_all(endings)]

    def finish(
        self,
        *versions: tuple[GroupResource, int],
        gone: tuple[tuple[GroupResource, int], ...] = (),
        key: JobKey = A,
        claim: Claim | None = None,
        next_pass: NextPass = ON_NEWS,
    ) -> bool:
        """Whether the caller publishes the key."""
        return bool(finish_one(self.queue, claim or self.claims[key], Written(versions, gone), next_pass).publish)

    def fail(self, key: JobKey = A) -> float:
        """The wait in seconds."""
        backoff: float | None = finish_one(self.queue, self.claims[key], next_pass=WithBackoff()).backoff_seconds
        assert backoff is not None
        return backoff

    def min_observed(
        self,
        *versions: tuple[GroupResource, int],
        gone: tuple[tuple[GroupResource, int], ...] = (),
        key: JobKey = A,
        claim: Claim | None = None,
    ) -> Any:
        return self.queue.raise_min_observed(claim or self.claims[key], Written(versions, gone))

    def renew(self, key: JobKey = A, *, claim: Claim | None = None, ttl_seconds: float = 30) -> Any:
        return self.queue.renew(claim or self.claims[key], ttl_seconds)

    def renew_all(self, *claims: Claim, ttl_seconds: float = 30) -> list[str]:
        """Of each the class of its error."""
        return [type(error).__name__ if error else "" for error in self.queue.renew_all(claims, ttl_seconds)]

    # -- the rest
    def resync(self, lost_after_seconds: float = 30, *, everything: bool = False) -> list[JobKey]:
        return list(self.queue.resync(lost_after_seconds=lost_after_seconds, everything=everything))

    def messages(self, count: int) -> Any:
        self.world.messages(count)

    def left_out(self, key: JobKey = A) -> Any:
        self.world.queued_by_an_earlier_version(key)

    def note_rest(self, version: str, key: JobKey = A) -> Any:
        return self.queue.note_rest(key, version)

    def rests_at(self, key: JobKey = A) -> str:
        return str(self.queue.rests_at(key))

    def once(self, name: str, period_seconds: float) -> bool:
        return bool(self.world.store.maintenance.once(name, period_seconds))

    def taken(self, name: str, seconds: float | None = None) -> Any:
        self.world.taken_by_a_stranger(name, seconds)

    def stats(self) -> QueueStats:
        stats: QueueStats = self.queue.stats()
        return stats

    def queued(self) -> int:
        return self.stats().queued

    def wait(self, seconds: float) -> Any:
        self.world.advance(seconds)

    def flush(self) -> Any:
        self.world.flush()

    def save(self) -> Any:
        self.world.save()

    def go_back(self) -> Any:
        self.world.go_back()


def raised(call: Callable[[], Any]) -> str:
    """The name of what it raises, '' when it raises nothing."""
    try:
        call()
    except Exception as error:  # noqa: BLE001  whatever it is, it is compared by name
        return type(error).__name__
    return ""


def a_job(rv: int, key: JobKey = A, *, finished: bool = False, record: bytes | None = None, uid: str = "") -> Change:
    name = key.rsplit("/", 1)[1]
    return Change(key, JOBS, name, rv, record or b'{"rv":%d}' % rv, finished=finished, is_job=True, job_uid=uid)


def a_pod(rv: int, key: JobKey = A, name: str = "a-0", *, record: bytes | None = None) -> Change:
    return Change(key, PODS, name, rv, record or b'{"pod":%d}' % rv)


def fail_in_a_row(d: Drive, times: int) -> list[float]:
    waits = []
    for _ in range(times):
        d.add()
        assert d.take()
        waits.append(d.fail())
    return waits


def many(count: int, namespace: str = "many") -> list[JobKey]:
    return [JobKey(f"aitrainingjobs.elasticdeeplearning.ai/{namespace}/x{n:02}") for n in range(count)]


def other(d: Drive) -> Any:
    """The store as another process has it."""
    return sealed(d.world.another(), SEAL)


def drain(d: Drive, *_: Any) -> Any:
    """Whatever is queued is done, with nothing written."""
    while (key := d.turn()) is not None:
        d.finish(key=key)
