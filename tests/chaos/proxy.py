"""A proxy before the API server, for the operator alone: it can be slow, answer 429, or be switched off.

Plain HTTP inside, TLS to the API server. It runs in a thread of its own; `faults` may be changed at any time. Users and node
agents go to the API server itself, so what a job is asked to do does not hang on it.
"""

from __future__ import annotations

import asyncio
import json
import random
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import aiohttp
from aiohttp import web

_NOT_PASSED_ON = {"host", "connection", "transfer-encoding", "content-length", "keep-alive"}


@dataclass(frozen=True, slots=True)
class Faults:
    latency_seconds: float = 0.0
    """Before a request is passed on; up to twice as long, at random."""
    refused_share: float = 0.0
    """So many requests of 1 get 429 with Retry-After 1."""
    cut_share: float = 0.0
    """So many requests of 1 are carried out and their answers thrown away with the connection."""


class Proxy:
    def __init__(self, server: str, seed: int) -> None:
        self.faults = Faults()
        self.refused = self.cut = 0
        self._server = server
        self._rng = random.Random(seed)
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

    def kubeconfig(self, original: Path) -> Path:
        """The same user, by way of this proxy."""
        config = json.loads(original.read_text())
        config["clusters"][0]["cluster"] = {"server": self.url}
        path = original.with_name(f"proxied-{original.name}")
        path.write_text(json.dumps(config))
        path.chmod(0o600)
        return path

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # the loopback, and a token that is worth nothing
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=context, limit=0), timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False)
        app = web.Application(client_max_size=16 << 20)
        app.router.add_route("*", "/{path:.*}", self._handle)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        loop, over = asyncio.get_running_loop(), asyncio.Event()
        self._over = lambda: loop.call_soon_threadsafe(over.set)
        self._started.set()
        await over.wait()
        await runner.cleanup()
        await self._session.close()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        faults, roll = self.faults, self._rng.random()
        if roll < faults.refused_share:
            self.refused += 1
            return web.json_response(
                {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "TooManyRequests", "code": 429,
                 "message": "made up by the proxy"}, status=429, headers={"Retry-After": "1"})
        if faults.latency_seconds:
            await asyncio.sleep(faults.latency_seconds * (1 + self._rng.random()))
        headers = {k: v for k, v in request.headers.items() if k.lower() not in _NOT_PASSED_ON}
        body = await request.read()
        target = self._server + request.path_qs
        try:
            async with self._session.request(request.method, target, headers=headers, data=body) as answer:
                return await self._pass_on(request, answer, cut=roll > 1 - faults.cut_share)
        except (aiohttp.ClientError, OSError):
            self._abort(request)  # whichever side has gone, the other one sees its connection break
            return web.Response(status=502)

    async def _pass_on(self, request: web.Request, answer: aiohttp.ClientResponse, *, cut: bool) -> web.StreamResponse:
        if cut and request.method != "GET":
            await answer.read()
            self.cut += 1
            self._abort(request)
            return web.Response(status=502)
        given = web.StreamResponse(status=answer.status, headers={
            k: v for k, v in answer.headers.items() if k.lower() not in _NOT_PASSED_ON})
        await given.prepare(request)
        async for chunk in answer.content.iter_any():
            await given.write(chunk)
        await given.write_eof()
        return given

    @staticmethod
    def _abort(request: web.Request) -> None:
        """The connection breaks, as when a server dies."""
        if request.transport is not None:
            request.transport.abort()
