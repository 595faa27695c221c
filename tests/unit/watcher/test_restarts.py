"""Watchers that die anywhere and resume, on a local cluster that goes on: what Redis holds is always what a list would
give.

A run is a random history: jobs, pods and services come, change, finish and go; watchers die at any command to Redis
(before it or with its answer lost) and are followed by others; Redis is rolled back or emptied, with and without a
watcher looking; the API server forgets its history. Reflectors list only where resumed watches have given up, so that
what is compared at the end is the work of resumed watches. Truth is what a fresh watcher makes of the same cluster on
an empty store.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, cast

import pytest

from benchmarks.support.inprocess import InProcessWatcher
from tests.support.kinds import AITRAININGJOBS
from tests.support.memory_store import MemoryStore
from tests.support.seeds import the_seed
from tests.support.tiers import one_in
from tests.unit.watcher.test_in_process import JOB
from tests.unit.watcher.test_in_process import Bench as Local
from tjworker.api.resources import PODS, SERVICES
from tjworker.base import GroupResource
from tjworker.settings import Settings
from tjworker.store.port import Store

RUNS = 20
STEPS = 60
JOBS = ("a", "b", "c")
SLOTS = 3


class Died(BaseException):
    """The watcher is killed: nothing of it goes on."""


class Mortal:
    """A store whose user dies at its nth command from now, before it or after."""

    def __init__(self, store: MemoryStore, commands: int, *, after: bool) -> None:
        self.projection, self.queue = _MortalHalf(self, store.projection), _MortalHalf(self, store.queue)
        self.maintenance = _MortalHalf(self, store.maintenance)
        self.left = commands
        self.after = after


class _MortalHalf:
    def __init__(self, mortal: Mortal, half: object) -> None:
        self._mortal = mortal
        self._half = half

    def __getattr__(self, name: str) -> Callable[..., Any]:
        call = getattr(self._half, name)

        def mortal(*args: Any, **more: Any) -> Any:
            self._mortal.left -= 1
            if self._mortal.left < 0 and not self._mortal.after:
                raise Died
            answer = call(*args, **more)
            if self._mortal.left < 0:
                raise Died
            return answer

        return mortal


class History:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.bench = Local(page_size=self.rng.choice((1, 3, 500)))
        self.cluster, self.kube, self.store = self.bench.cluster, self.bench.kube, self.bench.store
        self.token = 1
        self.watcher: InProcessWatcher | None = None
        self.snapshots: list[Any] = []
        """Looks of resumed watches in all of it."""
        self.bench.settle()

    # -- the cluster -------------------------------------------------------------------------------

    def change(self) -> None:
        name = self.rng.choice(JOBS)
        job = self.kube.get(AITRAININGJOBS, "default", name)
        if job is None:
            self.kube.create(AITRAININGJOBS, "default", {**JOB, "metadata": {"name": name}})
            return
        child = f"{name}-{self.rng.randrange(SLOTS)}"
        what = self.rng.choice(("child", "child", "child", "phase", "phase", "delete", "time"))
        if what == "phase":
            if (job.get("status") or {}).get("phase") == "Succeed":
                return  # what has ended stays so
            phase = self.rng.choice(("Running", "Restarting", "Succeed"))
            self.kube.update_status(AITRAININGJOBS, "default", name, {**job, "status": {"phase": phase}})
        elif what == "delete":
            self.kube.delete(AITRAININGJOBS, "default", name, uid=job["metadata"]["uid"])
        elif what == "time":
            self.cluster.advance(self.rng.choice((1, 40)))
        else:
            self._change_child(self.rng.choice((PODS, SERVICES)), child, job)

    def _change_child(self, resource: GroupResource, name: str, job: Any) -> None:
        there = self.kube.get(resource, "default", name)
        if there is not None:
            self.kube.delete(resource, "default", name, uid=there["metadata"]["uid"], grace_seconds=0)
        elif resource == PODS:
            self.kube.create(PODS, "default", self.bench.pod(name, job))
        else:
            owners = self.bench.pod(name, job)["metadata"]["ownerReferences"]
            self.kube.create(
                SERVICES,
                "default",
                {
                    "apiVersion": "v1",
                    "kind": "Service",
                    "metadata": {"name": name, "ownerReferences": owners},
                    "spec": {"clusterIP": "None", "ports": [{"port": 1}]},
                },
            )

    # -- watchers and Redis ------------------------------------------------------------------------

    def start(self, store: Any) -> None:
        self.token += 1
        self.watcher = InProcessWatcher(
            self.cluster.apiserver.handle,
            cast(Store, store),
            lambda keys: None,
            now=self.cluster.clock,
            token=self.token,
            settings=Settings(list_page_size=self.bench.page_size),
        )
        self.watcher.lists = False

    def watch(self) -> None:
        if self.watcher is None:
            mortal = self.rng.random() < 0.8
            self.start(
                Mortal(self.store, self.rng.randrange(12), after=self.rng.random() < 0.5) if mortal else self.store
            )
        assert self.watcher is not None
        try:
            self.watcher.pump()
            self.watcher.lists = self.watcher.lists or self.rng.random() < 0.05
        except Died:
            self.watcher = None

    def disturb(self) -> None:
        what = self.rng.choice(("die", "die", "snapshot", "snapshot", "roll back", "empty", "compact"))
        if what == "die":
            self.watcher = None
        elif what == "snapshot":
            self.snapshots.append(self.store.snapshot())
        elif what == "roll back" and self.snapshots:
            self.store.restore(self.rng.choice(self.snapshots))
        elif what == "empty" and self.rng.random() < 0.3:
            self.store.flush()
        elif what == "compact" and self.rng.random() < 0.3:
            self.cluster.advance(1000)

    def play(self) -> None:
        for _ in range(STEPS):
            roll = self.rng.random()
            if roll < 0.5:
                self.change()
                self.cluster.run_until_idle()
            elif roll < 0.9:
                self.watch()
            else:
                self.disturb()
        self.cluster.run_until_idle()
        for _ in range(8):
            if self.watcher is None:
                self.start(self.store)
            self.watch()
            self.cluster.advance(3)

    def truth(self) -> MemoryStore:
        fresh = MemoryStore(clock=self.cluster.clock)
        watcher = InProcessWatcher(self.cluster.apiserver.handle, fresh, lambda keys: None, now=self.cluster.clock)
        for _ in range(3):
            watcher.pump()
        return fresh


def held(store: MemoryStore) -> dict[str, Any]:
    return {
        key: (view.job, {resource: dict(names) for resource, names in view.children.items() if names})
        for key in store.projection.known_keys()
        for view in (store.projection.view(key),)
    }


@pytest.mark.parametrize("run", one_in(3, range(RUNS)))
def test_whatever_dies_and_whenever_redis_ends_up_with_what_there_is(run: int) -> None:
    seed = the_seed() + run if run else 1
    history = History(seed)
    history.play()
    assert held(history.store) == held(history.truth()), f"seed {seed}"
