"""A system whose Redis somebody else writes, and a judge at the API server: in virtual time, in one process.

The jobs stand still while they are attacked: nothing fails, nothing ends, nobody changes a spec. So each write of a
worker that makes, takes, changes or ends anything was brought about by the attacker.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, cast

import orjson

from localcluster.cluster import LocalCluster
from tests.scenarios.world import CountingTransport, World
from tests.support.memory_redis import Tables
from tests.support.memory_store import MemoryStore
from tjworker.api.kinds.base import seen_status
from tjworker.api.status import END_PHASES
from tjworker.base import Fenced
from tjworker.kube.port import HttpResponse
from tjworker.store.seal import Seal
from tjworker.store.sealed_store import sealed

KEY = "k" * 32
FOREIGN, NOT_ASKED, ENDS, COUNTED = "foreign objects touched", "objects not asked for", "ends", "restarts counted"


class Judge(CountingTransport):
    """Every request of the worker passes here. `breaches` are counted while `watching`."""

    def __init__(self, cluster: LocalCluster) -> None:
        super().__init__(cluster)
        self.watching = False
        self.breaches: Counter[str] = Counter()
        self.told: list[str] = []
        self.now = ""
        """The attack that is under way."""
        self.may_end: frozenset[str] = frozenset()
        """Jobs that the user himself has ended."""

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout_seconds: float | None = None,
    ) -> HttpResponse:
        before = self._handle_get(path) if self.watching and method in ("DELETE", "PATCH", "PUT") else {}
        answer = super().request(
            method, path, query=query, body=body, content_type=content_type, timeout_seconds=timeout_seconds
        )
        if self.watching and answer.status < 300 and method != "GET" and "/events" not in path:
            for what in _judge(method, path, orjson.loads(body or b"{}"), before):
                if what != ENDS or path.split("/")[-2] not in self.may_end:
                    self.breaches[what] += 1
                    self.told.append(f"{self.now}: {what}: {method} {path}")
        return answer

    def _handle_get(self, path: str) -> dict[str, Any]:
        answer = super().request("GET", path.removesuffix("/status"))
        found: dict[str, Any] = orjson.loads(answer.body) if answer.status == 200 else {}
        return found


def _judge(method: str, path: str, body: dict[str, Any], before: dict[str, Any]) -> list[str]:
    """What is wrong with this write, over jobs that stand still."""
    if method == "POST":
        return [NOT_ASKED]
    if not path.endswith("/status"):
        return [FOREIGN]
    old = seen_status(before)
    new = {**old, **seen_status(body)}
    found = []
    if _ended(new) and not _ended(old):
        found.append(ENDS)
    if any(old.get(name, {}) != new.get(name, {}) for name in ("restartCounts",)):
        found.append(COUNTED)
    return found


def _ended(status: Mapping[str, Any]) -> bool:
    return bool(status.get("ending")) or status.get("phase") in END_PHASES


class PoisonedWorld(World):
    def __init__(self, *, seals: bool = True, **more: Any) -> None:
        self._seals = seals
        super().__init__(**more)
        self.collector = self.make_runtime("beat").orphans

    def status(self, name: str = "digits") -> dict[str, Any]:
        """The operator's own, wherever the job's kind has it."""
        return dict(seen_status({"status": super().status(name)}))

    def make_store(self) -> MemoryStore:
        self.memory = MemoryStore(clock=self.clock)
        return cast(MemoryStore, sealed(self.memory, Seal([KEY], "tj"))) if self._seals else self.memory

    def make_transport(self) -> Judge:
        self.judge = Judge(self.cluster)
        return self.judge

    @property
    def tables(self) -> Tables:
        return self.memory._redis.tables

    def kick(self) -> None:
        """A pass over every job, as anybody with the broker may ask for, and a run of beat's tasks."""
        self.queue.publish(self.memory.queue.add(sorted(self.memory.projection.known_keys())))
        self.queue.publish(sorted(self.tables.dirty))
        self.work()  # before the watcher looks
        self.run()
        self.advance(2)

    def watch(self) -> None:
        """A watcher that is fenced leads no more; here no other takes over before Redis is healed."""
        with suppress(Fenced):
            super().watch()

    def heal(self) -> None:
        """The attacker has gone, and Redis was emptied."""
        self.memory.flush()
        self.queue.keys.clear()
        self.advance(3)
