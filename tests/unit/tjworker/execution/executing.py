"""A job that only the executor under test works on, and the API server that it asks."""

from __future__ import annotations

from typing import Any

import orjson

from benchmarks.support.in_turn import EventsAtOnce
from tests.scenarios.world import CountingTransport, World, job, role
from tests.support.kinds import AITRAININGJOBS
from tests.support.queueing import acquire_one
from tjworker.api import kinds
from tjworker.api.model import TrainingJob
from tjworker.api.resources import PODS
from tjworker.api.status import JobStatus
from tjworker.base import JobKey, OperatorError
from tjworker.execution.executor import Executor, Outcome
from tjworker.execution.lease import Lease
from tjworker.kube.client import KubeClient
from tjworker.kube.port import HttpResponse
from tjworker.reconcile.plan import Create, Delete, Plan, Write
from tjworker.settings import Settings
from tjworker.store.work_queue import Claim

KEY = JobKey("aitrainingjobs.elasticdeeplearning.ai/default/digits")
JOBS = "/apis/elasticdeeplearning.ai/v1/namespaces/default/aitrainingjobs/digits"


class Api(CountingTransport):
    """Gives the answers of `instead` to requests that begin so (`POST /api/v1/.../pods`), and keeps what was asked."""

    def __init__(self, world: World) -> None:
        super().__init__(world.cluster)
        self.instead: dict[str, HttpResponse | OperatorError] = {}
        self.refused: dict[str, HttpResponse] = {}
        """By the name of what is to be made."""
        self.asked: list[str] = []
        self.queries: list[dict[str, str]] = []
        self.timeouts: list[float] = []

    def request(self, method: str, path: str, **more: Any) -> HttpResponse:
        asked = f"{method} {path.rpartition('/namespaces/default/')[2]}"  # several threads ask at once
        self.asked.append(asked)
        self.queries.append(dict(more.get("query") or {}))
        self.timeouts.append(more.get("timeout_seconds") or 0.0)
        fault = next((f for start, f in self.instead.items() if asked.startswith(start)), None)
        if isinstance(fault, OperatorError):
            raise fault
        if method == "POST" and (name := orjson.loads(more["body"])["metadata"].get("name")) in self.refused:
            return self.refused[name]
        return fault or super().request(method, path, **more)


class Room:
    """A job that only the executor of this test works on."""

    def __init__(self, *, width: int = 1, **settings: Any) -> None:
        self.world = World(nodes=1, seed=1)
        self.world.apply(job({"trainer": role(2)}))
        self.api = Api(self.world)
        self.client = KubeClient(self.api)
        self.recorder = EventsAtOnce(self.client, clock=self.world.clock)
        self.executor = Executor(self.client, self.recorder, Settings(write_concurrency=width, **settings))
        self.world.store.projection.lead(1)
        self.world.store.queue.add([KEY])
        self.claim = self._claim()
        self.lease = Lease(self.world.store.queue, self.claim, 30.0, self.world.clock)
        self.job = self.read()

    def _claim(self) -> Claim:
        claim = acquire_one(self.world.store.queue, KEY, "worker-1", 30.0)
        assert claim is not None
        return claim

    def read(self) -> TrainingJob:
        found = kinds.parse(AITRAININGJOBS, self.world.get(AITRAININGJOBS, "digits"))
        assert isinstance(found, TrainingJob)
        return found

    def apply(self, *writes: Write, status: JobStatus | None = None, **more: Any) -> Outcome:
        return self.executor.apply(self.job, Plan(status=status, writes=writes, **more), self.lease)

    def pod(self, name: str, **meta: Any) -> Create:
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, **meta},
            "spec": {"containers": [{"name": "a", "image": "b"}]},
        }
        return Create(PODS, name, body)

    def kill(self, name: str, uid: str = "", **more: Any) -> Delete:
        return Delete(PODS, name, uid or self.world.uids()[name], **more)

    def names(self) -> list[str]:
        return sorted(self.world.pods())


def status_of(room: Room, phase: Any = "Pending") -> JobStatus:
    return room.job.status.model_copy(update={"phase": phase})


def refusal(code: int, reason: str, message: str = "") -> HttpResponse:
    message = message or f"made up: {reason}"
    body = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}
    return HttpResponse(code, orjson.dumps(body))


def count(outcome: Outcome, verb: str) -> int:
    """How many writes of a pass have "created", "deleted" or "patched" something."""
    return sum(n for (of, _), n in outcome.written.items() if of == verb)
