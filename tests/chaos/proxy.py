"""A proxy before the API server, for the operator alone: it can be slow, answer 429, lose answers, spoil watches, or
break every connection. It counts the lists that come to it.

Plain HTTP inside, TLS to the API server. It runs in a thread of its own; `faults` may be changed at any time. Each
process of the operator has a URL of its own, so what it asks for is told from what the others do. Users and node agents
go to the API server itself, so what a job is asked to do does not hang on it.
"""

from __future__ import annotations

import asyncio
import json
import random
import ssl
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import aiohttp
from aiohttp import web

from tests.chaos.served import WATCHED
from tests.chaos.spoiled import ENDS_EARLY, EXPIRED, Fate, spoiled
from tjworker.api.resources import LEASES
from tjworker.kube.resources import RESOURCES
from tjworker.kube.transport import LineSplitter

_NOT_PASSED_ON = {"host", "connection", "transfer-encoding", "content-length", "keep-alive"}
_LEASES = RESOURCES[LEASES].path().removesuffix("leases")
_COLLECTIONS = {row.path(): row.name for row in WATCHED}
FATE_SECONDS = (0.5, 6.0)
"""A watch that ends early does so after this long, with however many events."""


@dataclass(frozen=True, slots=True)
class Special:
    """How requests of one method, to paths with this end, are treated."""

    method: str
    path_end: str
    code: int = 0
    """What they are answered with; 0: what the API server says."""
    after_seconds: float = 0.0

    def matches(self, method: str, path: str) -> bool:
        return method == self.method and path.endswith(self.path_end)


@dataclass(frozen=True, slots=True)
class Faults:
    latency_seconds: float = 0.0
    """Before a request is passed on; up to twice as long, at random."""
    refused_share: float = 0.0
    """So many requests of 1 get 429 with Retry-After 1."""
    cut_share: float = 0.0
    """So many requests of 1 are carried out and their answers thrown away with the connection."""
    fates: tuple[Fate, ...] = ()
    """Each watch that is opened has one of these, dealt as from a pack of cards: none comes again before each has come.
    It keeps it when the faults are over."""
    dead: bool = False
    """Every request meets a broken connection, but for those for Leases."""
    specials: tuple[Special, ...] = ()
    """Of several that match a request the first holds. Never for a watch."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A list of a whole resource has been asked for (not its further pages, and not a look at its version alone)."""

    at: float
    """time.monotonic"""
    process: str
    resource: str


class Proxy:
    def __init__(self, server: str, seed: int) -> None:
        self.faults = Faults()
        self.refused = self.cut = 0
        self.fates: Counter[Fate] = Counter()
        """Of watches, as they were dealt."""
        self.lists: list[Listed] = []
        self.silences: list[float] = []
        """Seconds for which each half-open watch was held by its client, once it has let go of it."""
        self.silent_now: dict[int, str] = {}
        """Half-open watches that are still held: what of which process."""
        self._server = server
        self._rng = random.Random(seed)
        self._pack: list[Fate] = []
        self._watches: dict[int, web.Request] = {}
        self._over: Callable[[], object] = lambda: None
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)
        self.url = ""

    def start(self) -> None:
        self._thread.start()
        if not self._started.wait(20):
            raise RuntimeError("the proxy before the API server did not start")

    def stop(self) -> None:
        """Ends every request that is under way."""
        self._over()
        self._thread.join(10)

    def kubeconfig(self, original: Path, process: str) -> Path:
        """The same user, by way of this proxy, which knows his requests for those of that process."""
        config = json.loads(original.read_text())
        config["clusters"][0]["cluster"] = {"server": f"{self.url}/{process}"}
        path = original.with_name(f"{process}-{original.name}")
        path.write_text(json.dumps(config))
        path.chmod(0o600)
        return path

    def break_watches(self) -> None:
        """The connections of all that are open break, so that each is opened again under the faults of now."""
        self._loop.call_soon_threadsafe(lambda: [self._abort(request) for request in self._watches.values()])

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = (
            False,
            ssl.CERT_NONE,
        )  # the loopback, and a token that is worth nothing
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=context, limit=0),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
        )
        app = web.Application(client_max_size=16 << 20)
        app.router.add_route("*", "/{process}/{path:.*}", self._handle)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        self._loop, over = asyncio.get_running_loop(), asyncio.Event()
        self._over = lambda: self._loop.call_soon_threadsafe(over.set)
        self._started.set()
        await over.wait()
        await runner.cleanup()
        await self._session.close()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        faults, roll = self.faults, self._rng.random()
        path, is_watch = f"/{request.match_info['path']}", request.query.get("watch") in ("1", "true")
        if request.method == "GET" and not is_watch:
            self._count(request, path)
        if faults.dead and not path.startswith(_LEASES):
            return self._broken_off(request)
        if roll < faults.refused_share:
            self.refused += 1
            return _refusal(429)
        for special in faults.specials:
            if not is_watch and special.matches(request.method, path):
                await asyncio.sleep(special.after_seconds)
                if special.code:
                    return _refusal(special.code)
                break
        if faults.latency_seconds:
            await asyncio.sleep(faults.latency_seconds * (1 + self._rng.random()))
        if is_watch:
            self._watches[id(request)] = request  # they have no hash
        try:
            return await self._ask(
                request, faults, roll, self._dealt(faults.fates) if is_watch and faults.fates else None
            )
        except (aiohttp.ClientError, OSError):
            return self._broken_off(request)  # whichever side has gone, the other one sees its connection break
        finally:
            self._watches.pop(id(request), None)

    def _count(self, request: web.Request, path: str) -> None:
        if path in _COLLECTIONS and "continue" not in request.query and request.query.get("limit") != "1":
            self.lists.append(Listed(time.monotonic(), request.match_info["process"], _COLLECTIONS[path]))

    def _dealt(self, fates: tuple[Fate, ...]) -> Fate:
        self._pack = [fate for fate in self._pack if fate in fates] or self._rng.sample(fates, len(fates))
        return self._pack.pop()

    async def _ask(self, request: web.Request, faults: Faults, roll: float, fate: Fate | None) -> web.StreamResponse:
        if fate is Fate.GONE:
            self.fates[fate] += 1
            return web.Response(status=410, body=EXPIRED, content_type="application/json")
        headers = {k: v for k, v in request.headers.items() if k.lower() not in _NOT_PASSED_ON}
        body = await request.read()
        target = self._server + request.path_qs.removeprefix(f"/{request.match_info['process']}")
        async with self._session.request(request.method, target, headers=headers, data=body) as answer:
            if roll > 1 - faults.cut_share and request.method != "GET":
                await answer.read()
                self.cut += 1
                return self._broken_off(request)
            given = web.StreamResponse(
                status=answer.status,
                headers={k: v for k, v in answer.headers.items() if k.lower() not in _NOT_PASSED_ON},
            )
            await given.prepare(request)
            if fate is not None and answer.status == 200:
                await self._spoil(request, answer, given, fate)
                return given
            async for chunk in answer.content.iter_any():
                await given.write(chunk)
            await given.write_eof()
            return given

    async def _spoil(
        self, request: web.Request, answer: aiohttp.ClientResponse, given: web.StreamResponse, fate: Fate
    ) -> None:
        self.fates[fate] += 1
        seconds = self._rng.uniform(*FATE_SECONDS) if fate in ENDS_EARLY else None
        async for piece in spoiled(fate, _lines(answer, seconds), self._rng):
            if piece:  # an empty one would end the answer
                await given.write(piece)
        if fate is Fate.CUT:
            self._abort(request)
        elif fate is Fate.SILENT:
            answer.close()
            await self._held_until_given_up(request)
        else:
            await given.write_eof()

    async def _held_until_given_up(self, request: web.Request) -> None:
        """Open, and nothing comes any more; until the client closes it, whatever the faults are by then."""
        began = time.monotonic()
        self.silent_now[id(request)] = request.path.removeprefix("/")
        try:
            while request.transport is not None and not request.transport.is_closing():
                await asyncio.sleep(0.1)
        finally:
            self.silences.append(time.monotonic() - began)
            del self.silent_now[id(request)]

    def _broken_off(self, request: web.Request) -> web.Response:
        self._abort(request)
        return web.Response(status=502)

    @staticmethod
    def _abort(request: web.Request) -> None:
        """The connection breaks, as when a server dies."""
        if request.transport is not None:
            request.transport.abort()


def _refusal(code: int) -> web.Response:
    reason = {403: "Forbidden", 429: "TooManyRequests"}.get(code, "InternalError")
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code}
    headers = {"Retry-After": "1"} if code == 429 else {}
    return web.json_response({**status, "message": "made up by the proxy"}, status=code, headers=headers)


async def _lines(answer: aiohttp.ClientResponse, within_seconds: float | None) -> AsyncIterator[bytes]:
    """Each with its newline, until the server ends the watch or the time is over."""
    splitter, end = LineSplitter(), None if within_seconds is None else time.monotonic() + within_seconds
    while True:
        try:
            left = None if end is None else max(0.0, end - time.monotonic())
            chunk = await asyncio.wait_for(answer.content.readany(), left)
        except TimeoutError:
            return
        if not chunk:
            return
        for line in splitter.feed(chunk):
            yield line + b"\n"
