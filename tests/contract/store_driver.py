"""Short words for the store's contract: each does one call and gives what can be compared, so that a case is a list of
calls beside a list of answers. Calls that give nothing are typed as Any, so that they may stand in that list."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tests.contract.store_worlds import World
from tjworker.base import JobKey
from tjworker.store.port import Change, Hold, View, Written

A = JobKey("aitrainingjobs/default/a")
B = JobKey("aitrainingjobs/default/b")
C = JobKey("aitrainingjobs/other/c")
JOBS = "aitrainingjobs"
WRITER = 1


class Drive:
    def __init__(self, world: World, *, lead: bool = True) -> None:
        self.world = world
        self.store: Any = world.store
        self.holds: dict[JobKey, Hold] = {}
        if lead:
            self.store.lead(WRITER)
            self.store.mark_synced(WRITER)

    # -- projection
    def apply(self, *changes: Change, progress: Mapping[str, int] | None = None, writer: int = WRITER) -> list[JobKey]:
        return list(self.store.apply(writer, changes, progress=progress))

    def job(self, rv: int, key: JobKey = A, *, finished: bool = False, record: bytes | None = None) -> list[JobKey]:
        return self.apply(a_job(rv, key, finished=finished, record=record))

    def no_job(self, rv: int, key: JobKey = A) -> list[JobKey]:
        return self.apply(Change(key, JOBS, "a", rv, None, is_job=True))

    def pod(self, rv: int, key: JobKey = A, name: str = "a-0", *, record: bytes | None = None) -> list[JobKey]:
        return self.apply(a_pod(rv, key, name, record=record))

    def no_pod(self, rv: int, key: JobKey = A, name: str = "a-0") -> list[JobKey]:
        return self.apply(Change(key, "pods", name, rv, None))

    def progress(self, **rv: int) -> list[JobKey]:
        return self.apply(progress={name.replace("__", "/"): value for name, value in rv.items()})

    def view(self, key: JobKey = A) -> View:
        view: View = self.store.view(key)
        return view

    def pods(self, key: JobKey = A) -> dict[str, bytes]:
        return dict(self.view(key).children.get("pods", {}))

    # -- queue
    def add(self, *keys: JobKey) -> list[JobKey]:
        return list(self.store.add(keys or (A,)))

    def later(self, seconds: float, key: JobKey = A) -> Any:
        return self.store.add_after(key, seconds)

    def due(self, limit: int = 100) -> list[JobKey]:
        return list(self.store.take_due(limit))

    def take(self, key: JobKey = A, owner: str = "worker-1", ttl_seconds: float = 30) -> bool:
        """Whether the key could be acquired; its hold is remembered."""
        taken = self.store.acquire_view(key, owner, ttl_seconds)
        if taken:
            self.holds[key], seen = taken
            assert seen == self.store.view(key), "a key is taken with the view that one would read after it"
        return taken is not None

    def finish(
        self,
        *versions: tuple[str, int],
        gone: tuple[tuple[str, int], ...] = (),
        key: JobKey = A,
        hold: Hold | None = None,
        **how: Any,
    ) -> bool:
        """Whether the caller publishes the key."""
        return bool(self.store.finish(hold or self.holds[key], Written(versions, gone), **how).publish)

    def fail(self, key: JobKey = A) -> float:
        """The wait in seconds."""
        backoff: float | None = self.store.finish(self.holds[key], failed=True).backoff_seconds
        assert backoff is not None
        return backoff

    def floor(
        self,
        *versions: tuple[str, int],
        gone: tuple[tuple[str, int], ...] = (),
        key: JobKey = A,
        hold: Hold | None = None,
    ) -> Any:
        return self.store.raise_floor(hold or self.holds[key], Written(versions, gone))

    def renew(self, key: JobKey = A, *, hold: Hold | None = None, ttl_seconds: float = 30) -> Any:
        return self.store.renew(hold or self.holds[key], ttl_seconds)

    # -- the rest
    def resync(self, lost_after_seconds: float = 30, *, everything: bool = False) -> list[JobKey]:
        return list(self.store.resync(lost_after_seconds=lost_after_seconds, everything=everything))

    def queued(self) -> int:
        return int(self.store.stats().queued)

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


def a_job(rv: int, key: JobKey = A, *, finished: bool = False, record: bytes | None = None) -> Change:
    name = key.rsplit("/", 1)[1]
    return Change(key, JOBS, name, rv, record or b'{"rv":%d}' % rv, finished=finished, is_job=True)


def a_pod(rv: int, key: JobKey = A, name: str = "a-0", *, record: bytes | None = None) -> Change:
    return Change(key, "pods", name, rv, record or b'{"pod":%d}' % rv)
