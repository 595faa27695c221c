"""A task with several keys decides about all before it writes for any: what that shares, and what it must not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from celery.exceptions import SoftTimeLimitExceeded

from tests.scenarios.world import World, job, role
from tests.unit.tjworker.controllers.test_together import key_of, pods_of
from tjworker.api.model import TrainingJob
from tjworker.base import OperatorError, Transient
from tjworker.store.work_queue import Claim

NAMES = ("a", "b", "c")


class Room:
    """Jobs in one task; `calls` are those of Redis and of the API server, in their order."""

    def __init__(self, **spec: Any) -> None:
        self.world = World(nodes=4, seed=1)
        for name in NAMES:
            self.world.apply(job({"trainer": role(1)}, name, **spec))
        self.world.watch()
        self.calls: list[str] = []
        self.states: dict[str, str] = {}
        for half, name in (
            (self.world.store.queue, "renew"),
            (self.world.store.queue, "renew_all"),
            (self.world.store.projection, "nodes"),
            (self.world.worker._executor._kube, "create"),
            (self.world.worker._executor._kube, "update_status"),
            (self.world.worker._executor._kube, "get"),
        ):
            self._count(half, name)

    def _count(self, half: Any, name: str) -> None:
        call = getattr(half, name)

        def counted(*args: Any, **more: Any) -> Any:
            self.calls.append(name)
            return call(*args, **more)

        setattr(half, name, counted)

    def instead(self, name: str, call: Callable[..., Any]) -> None:
        half = self.world.store.projection if name == "nodes" else self.world.store.queue
        setattr(half, name, call)

    def run_pods(self) -> None:
        self.world.cluster.advance(2)
        self.world.watch()

    def task(self) -> None:
        self.calls.clear()
        self.states = {w.key.rpartition("/")[2]: w.end.state for w in self.world.worker.run("")}

    def pods(self) -> list[str]:
        return [name for name in NAMES if pods_of(self.world, name)]


def test_new_jobs_renew_their_leases_in_one_round_trip_before_the_first_pod() -> None:
    room = Room()
    room.task()
    assert room.calls == ["renew_all"] + ["create"] * 6
    assert room.pods() == list(NAMES)


def test_a_job_whose_lease_has_lapsed_makes_nothing_and_keeps_no_other() -> None:
    room = Room()
    renew_all = room.world.store.queue.renew_all

    def lapsed(claims: Sequence[Claim], ttl_seconds: float) -> list[OperatorError | None]:
        del room.world.store.queue._redis.tables.locks[key_of("b")]
        return renew_all(claims, ttl_seconds)

    room.instead("renew_all", lapsed)
    room.task()
    assert room.pods() == ["a", "c"]
    assert room.states == {"a": "done", "b": "retried", "c": "done"}


@pytest.mark.parametrize("error", [ValueError("no JSON"), SoftTimeLimitExceeded(), Transient("no answer")])
def test_a_node_that_cannot_be_read_fails_those_alone_that_have_pods_on_it(error: Exception) -> None:
    room = Room()
    room.task()
    room.run_pods()
    at = {pod.partition("-")[0]: body["spec"]["nodeName"] for pod, body in room.world.pods().items()}
    ill = at["b"]
    assert [at[name] == ill for name in NAMES] == [False, True, False]
    nodes = room.world.store.projection.nodes

    def spoilt(names: Sequence[str]) -> Any:
        if ill in names:
            raise error
        return nodes(names)

    room.instead("nodes", spoilt)
    room.task()
    assert room.states == {"a": "done", "b": "failed" if isinstance(error, ValueError) else "retried", "c": "done"}
    assert room.calls.count("update_status") == 2


def test_a_bug_in_deciding_about_one_job_keeps_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    room = Room()
    decide = room.world.worker._decide

    def broken(found: Any) -> Any:
        if isinstance(found.job, TrainingJob) and found.job.name.name == "b":
            raise KeyError("trainer")
        return decide(found)

    monkeypatch.setattr(room.world.worker, "_decide", broken)
    room.task()
    assert room.states == {"a": "done", "b": "failed", "c": "done"}
    assert room.pods() == ["a", "c"]
