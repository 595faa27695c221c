"""A mirror on a real API server in the same process: shows what is there, tells each difference once, outlives errors."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from localcluster.cluster import LocalCluster
from tests.inprocess import InProcessTransport
from tests.waiting import PATIENCE_SECONDS, until
from tjworker.base import Transient
from tjworker.cli import mirror as mirror_module
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
            self.cluster.client.create(
                PODS,
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {"name": name, "labels": labels},
                    "spec": {"containers": [{"name": "a", "image": "b"}]},
                },
            )

    def delete(self, name: str) -> None:
        with self.lock:
            self.cluster.client.delete(f"{PODS}/{name}", {"gracePeriodSeconds": 0})

    def names(self, mirror: Mirror) -> set[str]:
        return {o["metadata"]["name"] for o in mirror.objects()}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr(mirror_module, "_RETRY_SECONDS", 0.05)
    one = World()
    yield one
    # A mirror that is left does not wait for its thread, which may be in the middle of a request.
    until("every mirror has ended", lambda: not [t for t in threading.enumerate() if t.name.startswith("mirror-")])
    one.cluster.close()


def test_it_shows_what_is_there_and_what_comes_and_goes_each_told_once(world: World) -> None:
    world.create("first")
    with Mirror(world.api(), "pods", on_change=world.tell) as mirror:
        until("the first is shown", lambda: world.names(mirror) == {"first"})
        world.create("second")
        until("both are shown", lambda: world.names(mirror) == {"first", "second"})
        world.delete("first")
        until("only the second is shown", lambda: world.names(mirror) == {"second"})
    # A pod is marked before it is gone, as a real API server has it.
    assert world.told == [("ADDED", "first"), ("ADDED", "second"), ("MODIFIED", "first"), ("DELETED", "first")]


def test_a_selector_leaves_out_the_others(world: World) -> None:
    world.create("ours", job="a")
    world.create("theirs", job="b")
    with Mirror(world.api(), "pods", "default", label_selector="job=a") as mirror:
        assert mirror.synced.wait(PATIENCE_SECONDS)
        assert world.names(mirror) == {"ours"}


def test_what_changed_while_the_server_was_away_is_told_when_it_is_back(world: World) -> None:
    world.create("goes")
    world.create("stays")
    with Mirror(world.api(), "pods", on_change=world.tell) as mirror:
        until("both are told of", lambda: len(world.told) == 2)
        world.broken.set()
        stream = mirror._stream
        assert stream is not None
        stream.close()
        world.delete("goes")
        world.create("comes")
        world.told.clear()
        world.broken.clear()
        until("the difference is shown", lambda: world.names(mirror) == {"stays", "comes"})
    told = [
        change for change in sorted(world.told) if change != ("MODIFIED", "goes")
    ]  # when it went on from where it was
    assert told == [("ADDED", "comes"), ("DELETED", "goes")], "and nothing is told of what stayed"


def test_a_server_that_is_away_is_told_of_once_and_that_it_is_back(world: World) -> None:
    outages: list[str] = []
    with Mirror(world.api(), "pods", on_outage=outages.append) as mirror:
        assert mirror.synced.wait(PATIENCE_SECONDS)
        assert outages == [], "nothing is told of a server that answers"
        world.broken.set()
        stream = mirror._stream
        assert stream is not None
        stream.close()
        until("the outage is told of", lambda: len(outages) == 1)
        world.tries = 0
        until("it is tried again", lambda: world.tries > 2)
        world.broken.clear()
        world.create("first")
        until("it is shown", lambda: world.names(mirror) == {"first"})
    assert ["connection refused" in outages[0], *outages[1:]] == [True, ""]


def test_a_kind_that_is_not_installed_is_no_outage(world: World) -> None:
    outages: list[str] = []
    api = world.api()
    with Mirror(api, "aitrainingjobs", on_outage=outages.append):
        world.tries = 0
        until("it is tried again", lambda: world.tries > 2)
    assert outages == []


def test_a_watch_that_is_being_opened_when_the_mirror_is_left_is_closed(world: World) -> None:
    api = world.api()
    watch = api.watch

    def opens(*args: Any, **options: Any) -> Any:
        stream = watch(*args, **options)
        mirror.__exit__()  # between the opening and the moment in which the mirror knows its stream
        return stream

    api.watch = opens  # type: ignore[method-assign]
    mirror = Mirror(api, "pods")
    with mirror:
        until("its thread has ended", lambda: not mirror._thread.is_alive(), 30)
