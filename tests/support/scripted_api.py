"""A scripted API server in virtual time, behind the Transport port: what a reflector may meet in its life.

The world is a list of revisions of pods. A session of a watch is cut into chunks anywhere (inside lines, inside UTF-8
characters), repeats itself, falls silent, breaks, reports errors. Deterministic: all chance comes from one seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from tjworker.base import Transient
from tjworker.kube.port import HttpResponse
from tjworker.kube.transport import LineSplitter

JOB = "digits"


class Clock:
    """A clock that only the test moves."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def now(self) -> float:
        return self.seconds

    def advance(self, seconds: float) -> None:
        self.seconds += seconds


def pod(name: str, rv: int, *, uid: str = "", ours: bool = True, note: str = "") -> dict[str, Any]:
    meta: dict[str, Any] = {
        "name": name,
        "namespace": "default",
        "uid": uid or f"uid-{name}",
        "resourceVersion": str(rv),
    }
    if ours:
        meta["ownerReferences"] = [
            {
                "apiVersion": "elasticdeeplearning.ai/v1",
                "kind": "AITrainingJob",
                "name": JOB,
                "uid": "job-uid",
                "controller": True,
            }
        ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {},
        "status": {"phase": "Running", "message": note},
    }


def status(code: int, reason: str, message: str = "no", **details: Any) -> bytes:
    return orjson.dumps(
        {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "code": code,
            "reason": reason,
            "message": message,
            "details": details,
        }
    )


def line(kind: str, obj: Any) -> bytes:
    return orjson.dumps({"type": kind, "object": obj}) + b"\n"


@dataclass
class World:
    """Pods and their history. `compacted`: older revisions can be neither watched nor paged through any more."""

    rv: int = 10
    pods: dict[str, dict[str, Any]] = field(default_factory=dict)
    events: list[tuple[int, str, dict[str, Any]]] = field(default_factory=list)
    compacted: int = 0

    def put(self, name: str, *, ours: bool = True, note: str = "") -> None:
        self.rv += 1
        known = self.pods.get(name)
        uid = known["metadata"]["uid"] if known else f"uid-{name}-{self.rv}"
        made = pod(name, self.rv, uid=uid, ours=ours, note=note)
        self.pods[name] = made
        self.events.append((self.rv, "MODIFIED" if known else "ADDED", made))

    def remove(self, name: str) -> None:
        self.rv += 1
        gone = self.pods.pop(name)
        last = {**gone, "metadata": {**gone["metadata"], "resourceVersion": str(self.rv)}}
        self.events.append((self.rv, "DELETED", last))

    def compact(self) -> None:
        self.compacted = self.rv


Script = Callable[["Server", int], Iterator[bytes]]
"""Given the server and the resourceVersion that a watch starts from, the bytes it sends. May raise Transient."""


class Server:
    """A Transport. `watches` scripts the next sessions; when they are used up, `default` plays. `dead` answers
    nothing."""

    def __init__(self, clock: Clock, world: World | None = None) -> None:
        self.clock = clock
        self.world = world or World()
        self.watches: list[Script] = []
        self.lists: list[Callable[[Server], HttpResponse | None]] = []
        self.default: Script = quiet
        self.dead: Callable[[Server], HttpResponse] | None = None
        self.requests: list[tuple[float, str]] = []
        self._snapshots: dict[str, tuple[int, list[dict[str, Any]]]] = {}

    def count(self, what: str) -> int:
        return sum(1 for _, kind in self.requests if kind == what)

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
        query = query or {}
        if path == "/version":
            self.requests.append((self.clock.now(), "probe"))
            return self.dead(self) if self.dead else HttpResponse(200, b"{}")
        glance = query.get("limit") == "1"  # asks for the version alone
        self.requests.append((self.clock.now(), "page" if "continue" in query else "glance" if glance else "list"))
        if self.dead:
            return self.dead(self)
        if self.lists and (answer := self.lists.pop(0)(self)) is not None:
            return answer
        return self._page(int(query.get("limit", "0")), query.get("continue", ""))

    def _page(self, limit: int, token: str) -> HttpResponse:
        if token:
            rv, rest = self._snapshots.pop(token)
            if rv < self.world.compacted:
                return HttpResponse(410, status(410, "Expired", "The provided continue parameter is too old"))
        else:
            rv, rest = self.world.rv, [self.world.pods[name] for name in sorted(self.world.pods)]
        meta: dict[str, Any] = {"resourceVersion": str(rv)}
        items, rest = (rest[:limit], rest[limit:]) if limit else (rest, [])
        if rest:
            meta["continue"] = f"token-{len(self.requests)}"
            self._snapshots[meta["continue"]] = (rv, rest)
        return HttpResponse(
            200, orjson.dumps({"kind": "PodList", "apiVersion": "v1", "metadata": meta, "items": items})
        )

    def stream(self, path: str, *, query: Mapping[str, str], read_timeout_seconds: float) -> ScriptedStream:
        self.requests.append((self.clock.now(), "watch"))
        if self.dead:
            answer = self.dead(self)
            return ScriptedStream(iter(()), answer.status, answer.body)
        start = int(query["resourceVersion"])
        if start < self.world.compacted:
            return ScriptedStream(iter(()), 410, status(410, "Expired", "too old resource version"))
        self.read_timeout_seconds = read_timeout_seconds
        self.timeout_seconds = int(query["timeoutSeconds"])
        script = self.watches.pop(0) if self.watches else self.default
        return ScriptedStream(script(self, start))

    def since(self, rv: int) -> list[tuple[int, str, dict[str, Any]]]:
        return [event for event in self.world.events if event[0] > rv]

    def close(self) -> None: ...


class ScriptedStream:
    def __init__(self, chunks: Iterator[bytes], code: int = 200, body: bytes = b"") -> None:
        self.status = code
        self.headers: Mapping[str, str] = {}
        self._chunks = chunks
        self._body = body
        self.closed = False

    def lines(self) -> Iterator[list[bytes]]:
        splitter = LineSplitter()
        for chunk in self._chunks:
            if self.closed:
                return
            if lines := splitter.feed(chunk):
                yield lines

    def body(self) -> bytes:
        return self._body

    def close(self) -> None:
        self.closed = True


# -- ready-made behaviour --------------------------------------------------------------------------


def quiet(server: Server, start: int) -> Iterator[bytes]:
    """Everything there is, a bookmark, and the server's own end of the watch."""
    for _, kind, obj in server.since(start):
        yield line(kind, obj)
    server.clock.advance(server.timeout_seconds)
    yield line("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": str(server.world.rv)}})


def half_open(server: Server, start: int) -> Iterator[bytes]:
    """Nothing comes any more, not even an end."""
    server.clock.advance(server.read_timeout_seconds)
    yield from ()
    raise Transient("read timed out")


def refused(server: Server) -> HttpResponse:
    raise Transient("connection refused")


def hanging(server: Server) -> HttpResponse:
    server.clock.advance(15)
    raise Transient("read timed out")


def broken(server: Server) -> HttpResponse:
    return HttpResponse(500, status(500, "InternalError", "etcdserver: request timed out"))


def answers(code: int, body: bytes, **headers: str) -> Callable[[Server], HttpResponse]:
    return lambda server: HttpResponse(code, body, {name.replace("_", "-"): value for name, value in headers.items()})


def random_session(rng: random.Random, mutate: Callable[[World], None]) -> Script:
    """A session with everything that can go wrong in one, and changes of the world while it runs."""

    def script(server: Server, start: int) -> Iterator[bytes]:
        if rng.random() < 0.3:  # a server that repeats itself
            for _, kind, obj in [e for e in server.world.events if e[0] <= start][-3:]:
                yield line(kind, obj)
        sent = start
        for _ in range(rng.randint(1, 3)):
            text = b""
            for rv, kind, obj in server.since(sent):
                text += line(kind, obj) * rng.choice((1, 1, 1, 2))
                sent = rv
            yield from chunks(rng, text + _bookmark(rng, sent))
            server.clock.advance(rng.random() * 5)
            mutate(server.world)
        yield from rng.choices((_expired, _hiccup, half_open, _cut, _gateway, _nothing), (15, 10, 10, 25, 5, 35))[0](
            server, sent
        )

    def _cut(server: Server, sent: int) -> Iterator[bytes]:
        """Part of an event arrives, then the connection is gone."""
        rest = b"".join(line(kind, obj) for _, kind, obj in server.since(sent))
        yield rest[: rng.randint(0, max(0, len(rest) - 1))]
        if rng.random() < 0.5:
            raise Transient("connection reset")

    return script


def _bookmark(rng: random.Random, rv: int) -> bytes:
    """A bookmark, an empty one, an empty line, or (mostly) nothing."""

    def mark(meta: dict[str, str]) -> bytes:
        return line("BOOKMARK", {"kind": "Pod", "metadata": meta})

    return rng.choices(
        (mark({"resourceVersion": str(rv)}), mark({}), mark({"resourceVersion": ""}), b"\n", b""), (15, 5, 5, 5, 70)
    )[0]


def _expired(server: Server, sent: int) -> Iterator[bytes]:
    yield line("ERROR", orjson.loads(status(410, "Expired", "too old resource version")))


def _hiccup(server: Server, sent: int) -> Iterator[bytes]:
    yield line("ERROR", orjson.loads(status(500, "InternalError", "storage hiccup")))


def _gateway(server: Server, sent: int) -> Iterator[bytes]:
    yield b"<html>gateway</html>\n"


def _nothing(server: Server, sent: int) -> Iterator[bytes]:
    yield from ()


def chunks(rng: random.Random, text: bytes) -> Iterator[bytes]:
    """The bytes in pieces of any size."""
    at = 0
    while at < len(text):
        size = rng.choice((1, 2, 7, 100, 4096))
        yield text[at : at + size]
        at += size
