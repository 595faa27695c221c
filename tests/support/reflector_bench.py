"""A reflector on a scripted API server in virtual time, and what came out of it."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from tests.support.scripted_api import Clock, Server, World
from tjworker.api.resources import PODS
from tjworker.kube.client import KubeClient
from tjworker.kube.reflector import Reflector, RequestSettings
from watcher.event_queue import EventQueue
from watcher.outage import Outage
from watcher.projection import Projected
from watcher.projector import Projector


@dataclass
class Seen:
    """What came out of a reflector, and the pods as its reader knows them."""

    stream: list[tuple[str, int, bool]] = field(default_factory=list)
    pods: dict[str, int] = field(default_factory=dict)
    newest: dict[str, int] = field(default_factory=dict)
    position: int = 0

    def take(self, change: Projected) -> None:
        name, rv, gone = change.change.name, change.change.rv, change.change.record is None
        self.stream.append((name, rv, gone))
        assert rv > self.newest.get(name, 0), f"{name} at {rv} is old news: {self.newest[name]} has been passed on"
        self.newest[name] = rv
        if gone:
            assert name in self.pods, f"{name} is deleted twice"
            del self.pods[name]
        else:
            self.pods[name] = rv


class Bench:
    """A reflector on a scripted server. Nothing waits; the clock is moved instead."""

    def __init__(self, world: World | None = None, *, seed: int = 1, page_size: int = 500) -> None:
        self.clock = Clock()
        self.server = Server(self.clock, world)
        self.seed = seed
        self.page_size = page_size
        self.seen = Seen()
        self.restart()

    def restart(self) -> None:
        """A new watcher process; what the store knows stays."""
        self.events = EventQueue(50_000)
        self.reflector = Reflector(
            KubeClient(self.server),
            PODS,
            Projector(PODS, self.events, lambda: "", Outage(self.clock.now)),
            now=self.clock.now,
            requests=RequestSettings(page_size=self.page_size),
            rng=random.Random(self.seed),
        )

    def step(self) -> float:
        wait_seconds = self.reflector.step()
        self.read()
        return wait_seconds

    def read(self) -> None:
        while batches := self.events.take(0):
            for batch in batches:
                for change in batch.changes:
                    self.seen.take(change)
                self.seen.position = max(self.seen.position, batch.position)

    def steps(self, count: int) -> None:
        for _ in range(count):
            self.clock.advance(self.step())

    def run_for(self, seconds: float) -> None:
        end = self.clock.now() + seconds
        while self.clock.now() < end:
            self.clock.advance(self.step())

    @property
    def truth(self) -> dict[str, int]:
        return {
            name: int(obj["metadata"]["resourceVersion"])
            for name, obj in self.server.world.pods.items()
            if obj["metadata"].get("ownerReferences")
        }
