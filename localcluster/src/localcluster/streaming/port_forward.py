"""`kubectl port-forward`: TCP connections to a pod's ports, many in one WebSocket.

Two ways to share it: SPDY streams inside (kubectl since 1.31), and channels, two for each port, one connection each
(v4.channel.k8s.io, client libraries). An error is sent in the stream or channel of the connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from aiohttp import WSMsgType, web

from localcluster.streaming import spdy

TUNNEL = "SPDY/3.1+portforward.k8s.io"
CHANNELS = "v4.channel.k8s.io"
PROTOCOLS = (TUNNEL, CHANNELS)
READ_BYTES = 32 * 1024
WAITING_CHUNKS = 64
Send = Callable[[bytes], Awaitable[None]]


@dataclass(slots=True)
class PortConnection:
    """One connection to a port, from its client's first word to its end."""

    pod: str
    """The pod's name in errors."""
    addresses: Sequence[str]
    port: int
    send: Send
    given: asyncio.Queue[bytes] = field(default_factory=lambda: asyncio.Queue(WAITING_CHUNKS))
    """What the client sends; an empty chunk is its end."""

    _over: asyncio.Event = field(default_factory=asyncio.Event)

    async def give(self, chunk: bytes) -> None:
        """Waits while the pod takes nothing, until the connection is over."""
        # A connection that has ended must not block the others of the same WebSocket.
        giving, over = asyncio.create_task(self.given.put(chunk)), asyncio.create_task(self._over.wait())
        await asyncio.wait((giving, over), return_when=asyncio.FIRST_COMPLETED)
        giving.cancel()
        over.cancel()

    async def run(self) -> str:
        """Copies both ways until the pod has sent everything; what went wrong, or nothing."""
        try:
            reader, writer = await self._open()
        except OSError as error:
            where, why = f"{self.addresses[0]}:{self.port}", os.strerror(error.errno or 0).lower()
            return f"error forwarding port {self.port} to pod {self.pod}: dial tcp4 {where}: connect: {why}"
        finally:
            self._over.set()
        return await self._copy(reader, writer)

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str:
        self._over.clear()
        to_pod = asyncio.create_task(self._to_pod(writer))
        try:
            while chunk := await reader.read(READ_BYTES):
                await self.send(chunk)
        except ConnectionError as error:
            return f"error forwarding port {self.port} to pod {self.pod}: {error}"
        finally:
            self._over.set()
            to_pod.cancel()
            writer.close()
        return ""

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        for address in self.addresses[:-1]:
            # The program may listen on another of the pod's addresses.
            with contextlib.suppress(ConnectionRefusedError):
                return await asyncio.open_connection(address, self.port)
        return await asyncio.open_connection(self.addresses[-1], self.port)

    async def _to_pod(self, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while chunk := await self.given.get():
                writer.write(chunk)
                await writer.drain()
            # Half closed: the program may still answer what it has read to the end.
            writer.write_eof()


# --- channels ---------------------------------------------------------------------------------------------------------


async def channels(socket: web.WebSocketResponse, pod: str, addresses: Sequence[str], ports: Sequence[int]) -> None:
    """Channel 2 n carries the data of port n, channel 2 n + 1 its error; each begins with the port, two bytes."""
    connections = []
    for number, port in enumerate(ports):
        for channel in (2 * number, 2 * number + 1):
            # Both channels of a port begin with its number, by which the client distinguishes them.
            await socket.send_bytes(bytes((channel,)) + port.to_bytes(2, "little"))
        connections.append(PortConnection(pod, addresses, port, _on_channel(socket, 2 * number)))
    tasks = [asyncio.create_task(_serve_channel(socket, number, each)) for number, each in enumerate(connections)]
    client = asyncio.create_task(_listen(socket, connections))
    everything = asyncio.gather(*tasks)
    try:
        await asyncio.wait((client, everything), return_when=asyncio.FIRST_COMPLETED)
    finally:
        client.cancel()
        everything.cancel()
        with contextlib.suppress(asyncio.CancelledError, ConnectionError):
            await everything


def _on_channel(socket: web.WebSocketResponse, channel: int) -> Send:
    async def send(chunk: bytes) -> None:
        await socket.send_bytes(bytes((channel,)) + chunk)

    return send


async def _serve_channel(socket: web.WebSocketResponse, number: int, connection: PortConnection) -> None:
    if error := await connection.run():
        await socket.send_bytes(bytes((2 * number + 1,)) + error.encode())


async def _listen(socket: web.WebSocketResponse, connections: Sequence[PortConnection]) -> None:
    async for message in socket:
        if message.type != WSMsgType.BINARY:
            return
        number, odd = divmod(message.data[0], 2) if message.data else (0, 1)
        if not odd and number < len(connections) and len(message.data) > 1:
            await connections[number].give(message.data[1:])


# --- SPDY -------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Tunnel:
    socket: web.WebSocketResponse
    pod: str
    addresses: Sequence[str]
    _session: spdy.Session = field(default_factory=spdy.Session)
    _error_streams: dict[str, int] = field(default_factory=dict)
    """By the request that they belong to."""
    _connections: dict[int, tuple[PortConnection, asyncio.Task[None]]] = field(default_factory=dict)
    """By data stream."""

    async def run(self) -> None:
        try:
            async for message in self.socket:
                if message.type != WSMsgType.BINARY:
                    break
                for event in self._session.receive(message.data):
                    await self._take(event)
        except (spdy.ProtocolError, ConnectionError):
            pass  # the client sees the end of the connection
        finally:
            tasks = [task for _, task in self._connections.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _take(self, event: spdy.Event) -> None:
        match event:
            case spdy.Ping():
                await self.socket.send_bytes(spdy.pong(event))
            case spdy.Opened(stream, headers):
                await self.socket.send_bytes(self._session.reply(stream))
                self._open(stream, headers)
            case spdy.Data(stream, chunk) if stream in self._connections:
                await self._connections[stream][0].give(chunk)
            case spdy.Finished(stream) if stream in self._connections:
                await self._connections[stream][0].give(b"")
            case spdy.Reset(stream) if stream in self._connections:
                self._connections[stream][1].cancel()

    def _open(self, stream: int, headers: dict[str, str]) -> None:
        request, port = headers.get("requestid", ""), headers.get("port", "")
        if headers.get("streamtype") == "error":
            self._error_streams[request] = stream
        # kubectl opens the error stream first; a data stream without one could not report a failure.
        elif headers.get("streamtype") == "data" and port.isdigit() and request in self._error_streams:

            async def send(chunk: bytes) -> None:
                await self.socket.send_bytes(spdy.data(stream, chunk))

            connection = PortConnection(self.pod, self.addresses, int(port), send)
            task = asyncio.create_task(self._forward_stream(stream, self._error_streams.pop(request), connection))
            self._connections[stream] = connection, task

    async def _forward_stream(self, stream: int, error_stream: int, connection: PortConnection) -> None:
        error = ""
        try:
            error = await connection.run()
        finally:
            # kubectl waits for the end of both, whatever happened.
            del self._connections[stream]
            if not self.socket.closed:
                with contextlib.suppress(ConnectionError):
                    await self.socket.send_bytes(spdy.data(error_stream, error.encode(), last=True))
                    await self.socket.send_bytes(spdy.data(stream, b"", last=True))
