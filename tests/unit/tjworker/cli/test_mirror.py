"""A mirror on a real API server in the same process: shows what is there, tells each difference once, outlives errors."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from localcluster.cluster import LocalCluster
from tests.inprocess import InProcessTransport
from tjworker.base import Transient
from tjworker.cli.mirror import Mirror
from tjworker.kube.client import KubeClient

PODS = "/api/v1/namespaces/default/pods"


@dataclass
class World:
    """The cluster is used by the mirror's thread and the test's: `lock` guards it."""

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
            self.cluster.client.create(PODS, {
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels},
                "spec": {"containers": [{"name": "a", "image": "b"}]},
            })

    def delete(self, name: str) -> None:
        with self.lock:
            self.cluster.client.delete(f"{PODS}/{name}", {"gracePeriodSeconds": 0})

    def names(self, mirror: Mirror) -> set[str]:
        return {o["metadata"]["name"] for o in mirror.objects()}


def until(condition: Callable[[], bool], within_seconds: float = 15) -> None:
    deadline = time.monotonic() + within_seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def world() -> Iterator[World]:
    one = World()
    yield one
    one.cluster.close()


def test_it_shows_what_is_there_and_what_comes_and_goes_each_told_once(world: World) -> None:
    world.create("first")
    with Mirror(world.api(), "pods", on_change=world.tell) as mirror:
        until(lambda: world.names(mirror) == {"first"})
        world.create("second")
        until(lambda: world.names(mirror) == {"first", "second"})
        world.delete("first")
        until(lambda: world.names(mirror) == {"second"})
    # A pod is marked before it is gone, as a real API server has it.
    assert world.told == [("ADDED", "first"), ("ADDED", "second"), ("MODIFIED", "first"), ("DELETED", "first")]


def test_a_selector_leaves_out_the_others(world: World) -> None:
    world.create("ours", job="a")
    world.create("theirs", job="b")
    with Mirror(world.api(), "pods", "default", label_selector="job=a") as mirror:
        assert mirror.synced.wait(15)
        assert world.names(mirror) == {"ours"}


def test_what_changed_while_the_server_was_away_is_told_when_it_is_back(world: World) -> None:
    world.create("goes")
    world.create("stays")
    with Mirror(world.api(), "pods", on_change=world.tell) as mirror:
        until(lambda: len(world.told) == 2)
        world.broken.set()
        stream = mirror._stream
        assert stream is not None
        stream.close()
        world.delete("goes")
        world.create("comes")
        world.told.clear()
        world.broken.clear()
        until(lambda: world.names(mirror) == {"stays", "comes"})
    told = [change for change in sorted(world.told) if change != ("MODIFIED", "goes")]  # when it went on from where it was
    assert told == [("ADDED", "comes"), ("DELETED", "goes")], "and nothing is told of what stayed"


def test_a_server_that_is_away_is_told_of_once_and_that_it_is_back(world: World) -> None:
    outages: list[str] = []
    with Mirror(world.api(), "pods", on_outage=outages.append) as mirror:
        assert mirror.synced.wait(15)
        assert outages == [], "nothing is told of a server that answers"
        world.broken.set()
        stream = mirror._stream
        assert stream is not None
        stream.close()
        until(lambda: len(outages) == 1)
        world.tries = 0
        until(lambda: world.tries > 2)
        world.broken.clear()
        world.create("first")
        until(lambda: world.names(mirror) == {"first"})
    assert ["connection refused" in outages[0], *outages[1:]] == [True, ""]


def test_a_kind_that_is_not_installed_is_no_outage(world: World) -> None:
    outages: list[str] = []
    api = world.api()
    with Mirror(api, "aitrainingjobs", on_outage=outages.append):
        world.tries = 0
        until(lambda: world.tries > 2)
    assert outages == []
