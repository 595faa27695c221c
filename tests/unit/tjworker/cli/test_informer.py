"""An informer on a real API server in the same process: shows what is there, tells each difference once, outlives
errors."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from benchmarks.support.inprocess import InProcessTransport
from localcluster.cluster import LocalCluster
from tests.support.waiting import PATIENCE_SECONDS, until
from tjworker.api.resources import PODS
from tjworker.base import Transient
from tjworker.cli import informer as informer_module
from tjworker.cli.informer import Informer
from tjworker.kube.client import KubeClient

PODS_PATH = "/api/v1/namespaces/default/pods"


@dataclass
class World:
    """The cluster is used by the informer's thread and the test's: `lock` guards it."""

    lock: threading.RLock = field(default_factory=threading.RLock)
    cluster: LocalCluster = field(default_factory=lambda: LocalCluster(nodes=0))
    broken: threading.Event = field(default_factory=threading.Event)
    told: list[tuple[str, str]] = field(default_factory=list)
    tries: int = 0

    def api(self) -> KubeClient:
        def fault(method: str, path: str, after: bool) -> None:
            self.tries += 1
            if self.broken.is_set():
                raise Transient("connection refused")

        return KubeClient(InProcessTransport(self.cluster.apiserver.handle, waits=True, lock=self.lock, fault=fault))

    def tell(self, kind: str, obj: dict[str, Any]) -> None:
        self.told.append((kind, obj["metadata"]["name"]))

    def create(self, name: str, **labels: str) -> None:
        with self.lock:
            self.cluster.client.create(
                PODS_PATH,
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {"name": name, "labels": labels},
                    "spec": {"containers": [{"name": "a", "image": "b"}]},
                },
            )

    def delete(self, name: str) -> None:
        with self.lock:
            self.cluster.client.delete(f"{PODS_PATH}/{name}", {"gracePeriodSeconds": 0})

    def names(self, informer: Informer) -> set[str]:
        return {o["metadata"]["name"] for o in informer.objects()}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr(informer_module, "RETRY_SECONDS", 0.05)
    one = World()
    yield one
    # An informer that is left does not wait for its thread, which may be in the middle of a request.
    until("every informer has ended", lambda: not [t for t in threading.enumerate() if t.name.startswith("informer-")])
    one.cluster.close()


def test_it_shows_what_is_there_and_what_comes_and_goes_each_told_once(world: World) -> None:
    world.create("first")
    with Informer(world.api(), PODS, on_change=world.tell) as informer:
        until("the first is shown", lambda: world.names(informer) == {"first"})
        world.create("second")
        until("both are shown", lambda: world.names(informer) == {"first", "second"})
        world.delete("first")
        until("only the second is shown", lambda: world.names(informer) == {"second"})
    # A pod is marked before it is gone, as a real API server has it.
    assert world.told == [("ADDED", "first"), ("ADDED", "second"), ("MODIFIED", "first"), ("DELETED", "first")]


def test_what_changed_while_the_server_was_away_is_told_when_it_is_back(world: World) -> None:
    world.create("goes")
    world.create("stays")
    with Informer(world.api(), PODS, on_change=world.tell) as informer:
        until("both are told of", lambda: len(world.told) == 2)
        world.broken.set()
        stream = informer.reflector._stream
        assert stream is not None
        stream.close()
        world.delete("goes")
        world.create("comes")
        world.told.clear()
        world.broken.clear()
        until("the difference is shown", lambda: world.names(informer) == {"stays", "comes"})
    told = [
        change for change in sorted(world.told) if change != ("MODIFIED", "goes")
    ]  # when it went on from where it was
    assert told == [("ADDED", "comes"), ("DELETED", "goes")], "and nothing is told of what stayed"


def test_a_server_that_is_away_is_told_of_once_and_that_it_is_back(world: World) -> None:
    outages: list[str] = []
    with Informer(world.api(), PODS, on_outage=outages.append) as informer:
        assert informer.synced.wait(PATIENCE_SECONDS)
        assert outages == [], "nothing is told of a server that answers"
        world.broken.set()
        stream = informer.reflector._stream
        assert stream is not None
        stream.close()
        until("the outage is told of", lambda: len(outages) == 1)
        world.tries = 0
        until("it is tried again", lambda: world.tries > 2)
        world.broken.clear()
        world.create("first")
        until("it is shown", lambda: world.names(informer) == {"first"})
    assert ["connection refused" in outages[0], *outages[1:]] == [True, ""]


def test_a_watch_that_is_being_opened_when_the_informer_is_left_is_closed(world: World) -> None:
    api = world.api()
    watch = api.watch

    def opens(*args: Any, **options: Any) -> Any:
        stream = watch(*args, **options)
        informer.__exit__()  # between the opening and the moment in which the informer knows its stream
        return stream

    api.watch = opens  # type: ignore[method-assign]
    informer = Informer(api, PODS)
    with informer:
        until("its thread has ended", lambda: not informer._thread.is_alive(), 30)
