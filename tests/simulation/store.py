"""One process's way to Redis: every call of the store and of the publisher is a step that the fault may meet."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from tests.simulation.trace import IDLE
from tjworker.base import KEYS_PER_TASK, JobKey
from tjworker.store.maintenance import Maintenance
from tjworker.store.projection import Projection
from tjworker.store.work_queue import ON_NEWS, FinishResult, PassEnding, Taken, WorkQueue

if TYPE_CHECKING:
    from tests.simulation.world import SimWorld


class SimStore:
    """One process's way to Redis: every call of one of its parts is a step."""

    def __init__(self, world: SimWorld, actor: str) -> None:
        self.projection = cast(Projection, _Steps(world, actor, world.memory.projection))
        self.queue = cast(WorkQueue, _QueueSteps(world, actor, world.memory.queue))
        self.maintenance = cast(Maintenance, _Steps(world, actor, world.memory.maintenance))


class _Steps:
    def __init__(self, world: SimWorld, actor: str, half: object) -> None:
        self._world = world
        self._actor = actor
        self._half = half

    def __getattr__(self, name: str) -> Callable[..., Any]:
        call = getattr(self._half, name)

        def step(*args: Any, **more: Any) -> Any:
            return self._world.redis(self._actor, lambda: _said(name, args, more), partial(call, *args, **more))

        setattr(self, name, step)
        return step


class _QueueSteps(_Steps):
    def acquire_views(self, key: JobKey, owner: str, ttl_seconds: float, most: int) -> Taken:
        world = self._world
        taken: Taken = world.redis(
            self._actor,
            lambda: f"acquire_views {key}",
            partial(world.memory.queue.acquire_views, key, owner, ttl_seconds, most),
        )
        views = [(claim, world.fault.sees(world, claim.key, view)) for claim, view in taken.views]
        return replace(taken, views=views)

    def finish_all(self, endings: Sequence[PassEnding]) -> list[FinishResult]:
        """As one round trip."""
        answers: list[FinishResult] = self._world.redis(
            self._actor,
            lambda: f"finish {' '.join(map(_ended, endings))}",
            partial(self._world.memory.queue.finish_all, endings),
        )
        return answers


def _ended(ending: PassEnding) -> str:
    return ending.claim.key if ending.next_pass == ON_NEWS else f"{ending.claim.key} {ending.next_pass}"


def _said(name: str, args: tuple[Any, ...], more: Mapping[str, Any]) -> str:
    if name == "apply":
        changes = args[1]
        words = [f"{c.resource}/{c.name}{'' if c.record is not None else ' gone'}@{c.rv}" for c in changes]
        return f"apply {' '.join(words) or IDLE}"
    words = [str(getattr(arg, "key", arg)) for arg in args if not isinstance(arg, int | float)]
    told = [f"{key}={value}" for key, value in more.items() if value]
    return " ".join([name, " ".join(words)[:160], *told]).strip()


class SimQueue:
    """One process's Publisher: what could not be sent stays with the process and goes with the next call."""

    def __init__(self, world: SimWorld, actor: str) -> None:
        self._world = world
        self._actor = actor
        self._waiting: dict[JobKey, None] = {}

    def publish(self, keys: Iterable[JobKey]) -> int:
        self._waiting.update(dict.fromkeys(keys))
        sent = list(self._waiting)
        if sent:
            self._world.redis(self._actor, lambda: f"publish {' '.join(sent)}", partial(self._send, sent))
        return len(sent)

    def _send(self, keys: list[JobKey]) -> None:
        """One task for many, as the publisher sends them."""
        self._waiting.clear()
        for key in keys[::KEYS_PER_TASK]:
            self._world.enqueue(key)


class _Stopped(threading.Event):
    """What a writer waits on while Redis is away: everybody else goes on meanwhile."""

    def __init__(self, world: SimWorld, actor: str) -> None:
        super().__init__()
        self._world = world
        self._actor = actor

    def wait(self, timeout: float | None = None) -> bool:
        self._world.others_go_on(self._actor, timeout or 0.0)
        return False
