"""One process's way to the API server: every request and every event of a watch is a step that the fault may meet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, cast

import orjson

from benchmarks.support.inprocess import InProcessStream, InProcessTransport
from localcluster.wire import Encoded, Request, Watch
from tjworker.api.kinds import KNOWN_KINDS
from tjworker.base import JsonDict
from tjworker.kube.port import HttpResponse, Stream
from tjworker.kube.resources import watched

if TYPE_CHECKING:
    from tests.simulation.world import SimWorld


_WATCHED_AT = {
    row.path(namespace): row.name for row in watched(KNOWN_KINDS, "kubernetes") for namespace in ("", "default")
}


class SimTransport(InProcessTransport):
    """One process's way to the API server."""

    def __init__(self, world: SimWorld, actor: str) -> None:
        super().__init__(world.chronicle.by("operator", world.cluster.apiserver.handle), user=actor)
        self.world = world
        self.actor = actor

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
        world = self.world
        if self.actor.startswith("watcher") or "/events" in path:
            return super().request(method, path, query=query, body=body, content_type=content_type)
        what = f"{method} {path.rpartition('/default/')[2]}"
        if method == "POST" and body is not None:
            what += f"/{orjson.loads(body)['metadata']['name']}"
        step = world.step("read" if method == "GET" else "write", self.actor, what)
        world.fault.before(world, step)
        answer = world.fault.answers(world, step)
        if answer is None:
            answer = super().request(method, path, query=query, body=body, content_type=content_type)
        world.trace.note(world.clock(), self.actor, f"answered {answer.status}")
        if method != "GET":
            world.requests_made[what] += 1
        world.fault.after(world, step)
        return answer

    def stream(self, path: str, *, query: Mapping[str, str], read_timeout_seconds: float) -> Stream:
        resource = _WATCHED_AT[path]
        if resource in self.world.expired:
            self.world.expired.discard(resource)
            gone = {
                "type": "ERROR",
                "object": {
                    "kind": "Status",
                    "status": "Failure",
                    "code": 410,
                    "reason": "Expired",
                    "message": "too old resource version",
                },
            }
            return _Said(orjson.dumps(gone))
        answer = self._handle(Request("GET", path, dict(query), user=self._user))
        return cast(Stream, _Watched(self.world, answer) if isinstance(answer, Watch) else InProcessStream(answer))


class _Said:
    """A watch that says one thing and ends."""

    status = 200

    def __init__(self, line: bytes) -> None:
        self.headers: Mapping[str, str] = {}
        self._line = line

    def lines(self) -> Iterator[list[bytes]]:
        yield [self._line]

    def body(self) -> bytes:
        return b""

    def close(self) -> None: ...


class _Watched:
    """A watch whose events pass the fault one by one."""

    status = 200

    def __init__(self, world: SimWorld, watch: Watch) -> None:
        self.headers: Mapping[str, str] = {}
        self.world = world
        self.watch = watch

    def lines(self) -> Iterator[list[bytes]]:
        while lines := cast(list[Encoded], self.watch.take()):
            arrived = [line.data[:-1] for line in lines if self._arrives(line.obj)]
            if arrived:
                yield arrived

    def _arrives(self, event: JsonDict) -> bool:
        meta = event["object"].get("metadata", {})
        if event["type"] in ("BOOKMARK", "ERROR") or event["object"].get("kind") == "Node":
            return True
        what = f"{event['type']} {event['object'].get('kind')} {meta.get('name')} rv {meta.get('resourceVersion')}"
        step = self.world.step("event", "watcher", what)
        return self.world.fault.arrives(self.world, step)

    def body(self) -> bytes:
        return b""

    def close(self) -> None:
        self.watch.close()
