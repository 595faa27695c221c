"""The API server behind HTTP (aiohttp): sockets, watches, streams with pods, the proxy to kubelets' logs. Decides
nothing.

Everything runs in one event loop, so that `ApiServer` stays single-threaded. `serve` returns once the port is open;
`Server` may be closed twice. HTTPS with a token when it is given them (`tls`, `access`); plain HTTP for everybody
otherwise.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable
from dataclasses import dataclass

import aiohttp
from aiohttp import web

from localcluster.access import Access
from localcluster.apiserver import ApiServer
from localcluster.apiserver.errors import StatusError
from localcluster.streaming import StreamNode
from localcluster.streaming.serve import serve_stream
from localcluster.wire import Request, Response, Watch

_MAX_BODY_BYTES = 3 << 20
_LONGEST_NAP_SECONDS = 30.0


@dataclass(slots=True)
class Server:
    host: str
    port: int
    """The real one, also when 0 was asked for."""
    _runner: web.AppRunner
    _ticker: asyncio.Task[None]
    _app: _App
    _secure: bool = False

    def stream_from(self, node: StreamNode) -> None:
        """Streams (exec, port-forward) are this node agent's from here on."""
        self._app.node = node

    @property
    def url(self) -> str:
        return url_of(self.host, self.port, secure=self._secure)

    async def close(self) -> None:
        self._ticker.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._ticker
        await self._app.close()
        await self._runner.cleanup()


def url_of(host: str, port: int, *, secure: bool) -> str:
    return f"{'https' if secure else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"


async def serve(
    apiserver: ApiServer,
    host: str = "127.0.0.1",
    port: int = 0,
    after: Callable[[], None] | None = None,
    *,
    tls: ssl.SSLContext | None = None,
    access: Access = Access(),  # noqa: B008
) -> Server:  # noqa: B008, RUF100
    """Open the port. Raises OSError when it is taken. `after` is called after each request (to wake controllers)."""
    app = _App(apiserver, after, access)
    application = web.Application(client_max_size=_MAX_BODY_BYTES)
    application.router.add_route("*", "/{path:.*}", app.answer)
    # No access log (it costs more than the answer); a watch that ends is no reason to wait at shutdown.
    runner = web.AppRunner(
        application, access_log=None, shutdown_timeout=0.5, keepalive_timeout=75, handler_cancellation=True
    )
    await runner.setup()
    site = web.TCPSite(runner, host, port, ssl_context=tls)
    try:
        await site.start()
    except OSError:
        await runner.cleanup()
        raise
    return Server(host, runner.addresses[0][1], runner, asyncio.create_task(app.tick()), app, tls is not None)


class _App:
    def __init__(self, apiserver: ApiServer, after: Callable[[], None] | None, access: Access) -> None:
        self._apiserver = apiserver
        self._after = after
        self._access = access
        self._client: aiohttp.ClientSession | None = None
        self._opened = asyncio.Event()
        self.node: StreamNode | None = None

    async def answer(self, request: web.Request) -> web.StreamResponse:
        headers = {name.lower(): value for name, value in request.headers.items()}
        # Raw: a name with %2F in it must stay one segment.
        path = request.raw_path.partition("?")[0]
        # Before the body is read: a stranger must not make the server take megabytes.
        if (refused := self._access.refusal(request.method, path, headers)) is not None:
            return _to_web_response(refused)
        try:
            body = await request.read()
        except web.HTTPRequestEntityTooLarge:
            message = f"Request entity too large: limit is {_MAX_BODY_BYTES}"
            return _to_web_response(StatusError(413, "RequestEntityTooLarge", message).response())
        # All values of a repeated parameter, as dryRun=All&dryRun=All; the last one counts.
        ours = Request(request.method, path, dict(request.query), body, headers)
        if (url := self._apiserver.remote_log_url(ours)) is not None:
            return await self._proxy_log(request, url)
        if headers.get("upgrade", "").lower() == "websocket":
            query = {name: request.query.getall(name) for name in request.query}
            if (stream := self._apiserver.stream(ours, query)) is not None:
                return (
                    _to_web_response(stream)
                    if isinstance(stream, Response)
                    else await serve_stream(request, stream, self.node)
                )
        result = self._apiserver.handle(ours)
        if self._after is not None:
            self._after()
        if isinstance(result, Response):
            return _to_web_response(result)
        self._opened.set()
        return await _stream_watch(request, result)

    async def tick(self) -> None:
        """Sleeps until something is due; a new watch may make it earlier."""
        while True:
            self._apiserver.tick()
            due = self._apiserver.next_due()
            nap = (
                _LONGEST_NAP_SECONDS
                if due is None
                else min(_LONGEST_NAP_SECONDS, max(0.01, due - self._apiserver.clock()))
            )
            self._opened.clear()
            # Not wait_for: in Python 3.11 it swallows a cancellation that meets its wake-up, and close() then hangs.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(nap):
                    await self._opened.wait()

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()

    async def _proxy_log(self, request: web.Request, url: str) -> web.StreamResponse:
        if self._client is None:
            self._client = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None, connect=10))
        try:
            async with self._client.get(url) as answer:
                response = web.StreamResponse(
                    status=answer.status, headers={"Content-Type": answer.headers.get("Content-Type", "text/plain")}
                )
                await response.prepare(request)
                async for chunk in answer.content.iter_any():
                    await response.write(chunk)
                await response.write_eof()
                return response
        except aiohttp.ClientError as error:
            return _to_web_response(StatusError(500, "InternalError", f'Get "{url}": {error}').response())


def _to_web_response(response: Response) -> web.Response:
    headers = {
        "Content-Type": response.content_type,
        "Cache-Control": "no-cache, private",
        **{name.title(): value for name, value in response.headers.items()},
    }
    return web.Response(status=response.status, body=response.body, headers=headers)


async def _stream_watch(request: web.Request, watch: Watch) -> web.StreamResponse:
    loop = asyncio.get_running_loop()
    news = asyncio.Event()

    def wake() -> None:
        loop.call_soon_threadsafe(news.set)

    watch.wake = wake
    response = web.StreamResponse(headers={"Content-Type": watch.content_type, "Cache-Control": "no-cache, private"})
    response.enable_chunked_encoding()
    try:
        await response.prepare(request)
        while True:
            news.clear()
            if lines := watch.poll():
                await response.write(b"".join(lines))
                continue
            if watch.closed:
                break
            await news.wait()
        await response.write_eof()
    except (ConnectionError, aiohttp.ClientConnectionResetError):
        pass
    finally:
        watch.wake = None
        watch.close()
    return response
