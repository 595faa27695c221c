"""`kubectl exec`: one command in a container, its streams as channels of a WebSocket.

v5.channel.k8s.io and v4: each message begins with its channel (0 stdin, 1 stdout, 2 stderr, 3 the status at the end,
4 the size of the terminal); v5 adds 255, by which a client closes its stdin. A command whose client has gone is killed:
its output has no reader.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import struct
import termios
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import orjson
from aiohttp import WSMsgType, web

from localcluster.wire import Json

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
STDIN, STDOUT, STDERR, STATUS, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
READ_BYTES = 32 * 1024
WAITING_MESSAGES = 64
NOT_STARTED = (
    'error executing command in container: failed to exec in container: failed to start exec "{}": OCI runtime exec '
    "failed: exec failed: unable to start container process: {}: unknown"
)
"""What the kubelet says over containerd."""


@dataclass(frozen=True, slots=True)
class Command:
    words: tuple[str, ...]
    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    tty: bool = False


def internal_error(message: str) -> Json:
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"Internal error occurred: {message}",
        "reason": "InternalError",
        "details": {"causes": [{"message": message}]},
        "code": 500,
    }


def ended(words: Sequence[str], code: int) -> Json:
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    why = f"error executing command [{' '.join(words)}], exit code {code}"
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: {why}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


async def send_status(socket: web.WebSocketResponse, status: Json) -> None:
    with contextlib.suppress(ConnectionError):
        await socket.send_bytes(bytes((STATUS,)) + orjson.dumps(status))


async def execute(socket: web.WebSocketResponse, line: list[str], command: Command) -> None:
    """Runs `line` (a container runner's, for `command`) until it or its client ends."""
    streams = _Streams(command)
    errors_read, errors_write = os.pipe()
    try:
        try:
            with streams.childs_ends() as (stdin, stdout, stderr):
                process = await asyncio.create_subprocess_exec(
                    *_with_options(line, tty=command.tty, errors=errors_write),
                    stdin=stdin,
                    stdout=stdout,
                    stderr=stderr,
                    pass_fds=(errors_write,),
                    # The whole group is killed when the client goes, and a terminal needs the leader of a session.
                    start_new_session=True,
                )
        finally:
            os.close(errors_write)
        client = asyncio.create_task(_listen(socket, streams))
        running = asyncio.create_task(_run(socket, process, streams))
        try:
            # Either the command ends, or the client that reads its output is gone.
            await asyncio.wait((client, running), return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                # An exit code alone does not say whether the command ran: a shell answers 126 and 127, too.
                failure = os.read(errors_read, READ_BYTES).decode(errors="replace")
                why = NOT_STARTED.format(process.pid, failure)
                await send_status(socket, internal_error(why) if failure else ended(command.words, running.result()))
        finally:
            client.cancel()
            await _end_process(process, running)
    finally:
        streams.close()
        os.close(errors_read)


async def _end_process(process: asyncio.subprocess.Process, running: asyncio.Task[int]) -> None:
    if running.done():
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    running.cancel()
    await process.wait()


def _with_options(line: list[str], *, tty: bool, errors: int) -> list[str]:
    at = line.index("exec") + 1
    return [*line[:at], "--errors", str(errors), *(["--tty"] if tty else []), *line[at:]]


async def _run(socket: web.WebSocketResponse, process: asyncio.subprocess.Process, streams: _Streams) -> int:
    over = asyncio.Event()
    copies = [asyncio.create_task(_copy(socket, fd, channel, over)) for fd, channel in streams.outputs]
    try:
        code = await process.wait()
        over.set()
        await asyncio.gather(*copies)
    finally:
        for copy in copies:
            copy.cancel()
    return 128 - code if code < 0 else code


async def _copy(socket: web.WebSocketResponse, fd: int, channel: int, over: asyncio.Event) -> None:
    """Until its end, or until the command is over and all that it wrote is read: a process that it left behind may
    hold the other end for as long as it likes."""
    while True:
        try:
            data = os.read(fd, READ_BYTES)
        except BlockingIOError:
            # A child of the command may hold the pipe for ever; what was written before the end has been copied.
            if over.is_set():
                return
            await _wait_ready(fd, over)
            continue
        except OSError:
            return  # The last process that held the terminal has ended.
        if not data:
            return
        if not socket.closed:
            await socket.send_bytes(bytes((channel,)) + data)


async def _wait_ready(fd: int, over: asyncio.Event) -> None:
    """Until there is something to read, or it is over."""
    loop = asyncio.get_running_loop()
    readable: asyncio.Future[None] = loop.create_future()
    loop.add_reader(fd, _wake, readable)
    waiting = asyncio.create_task(over.wait())
    try:
        await asyncio.wait((readable, waiting), return_when=asyncio.FIRST_COMPLETED)
    finally:
        loop.remove_reader(fd)
        waiting.cancel()


def _wake(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)


async def _listen(socket: web.WebSocketResponse, streams: _Streams) -> None:
    """Until the client goes away."""
    given: asyncio.Queue[bytes] = asyncio.Queue(WAITING_MESSAGES)
    writer = asyncio.create_task(_write(streams, given))
    try:
        async for message in socket:
            if message.type == WSMsgType.TEXT:
                # Some clients send text as text messages.
                content = message.data.encode()
            elif message.type == WSMsgType.BINARY:
                content = message.data
            else:
                break
            if content[:1] == bytes((STDIN,)) and len(content) > 1:
                await given.put(content[1:])
            elif content == bytes((CLOSE, STDIN)):
                await given.put(b"")
            elif content[:1] == bytes((RESIZE,)):
                streams.resize(content[1:])
    finally:
        writer.cancel()


async def _write(streams: _Streams, given: asyncio.Queue[bytes]) -> None:
    loop = asyncio.get_running_loop()
    while True:
        data = await given.get()
        if not data:
            streams.close_stdin()
        while data and streams.stdin >= 0:
            try:
                data = data[os.write(streams.stdin, data) :]
            except BlockingIOError:
                writable: asyncio.Future[None] = loop.create_future()
                loop.add_writer(streams.stdin, _wake, writable)
                try:
                    await writable
                finally:
                    loop.remove_writer(streams.stdin)
            except OSError:
                streams.close_stdin()  # the command reads no more


class _Streams:
    """Pipes, or one terminal, between here and a command."""

    def __init__(self, command: Command) -> None:
        self._child: list[int] = []
        self.stdin = -1
        self.outputs: list[tuple[int, int]] = []
        """(file descriptor, channel)"""
        self.terminal = -1
        if command.tty:
            self.terminal, slave = os.openpty()
            self._child = [slave, slave, slave]
            self.stdin = self.terminal if command.stdin else -1
            self.outputs = [(self.terminal, STDOUT)]
        else:
            null = os.open(os.devnull, os.O_RDWR)
            self._child = [null, null, null]
            if command.stdin:
                self._child[0], self.stdin = os.pipe()
            for wanted, channel in ((command.stdout, STDOUT), (command.stderr, STDERR)):
                if wanted:
                    mine, self._child[channel] = os.pipe()
                    self.outputs.append((mine, channel))
            if null not in self._child:
                os.close(null)
        for fd in {self.stdin, *(fd for fd, _ in self.outputs)} - {-1}:
            os.set_blocking(fd, False)

    @contextlib.contextmanager
    def childs_ends(self) -> Iterator[list[int]]:
        try:
            yield self._child
        finally:
            for fd in set(self._child):
                os.close(fd)

    def resize(self, message: bytes) -> None:
        with contextlib.suppress(orjson.JSONDecodeError, KeyError, TypeError, OSError, struct.error):
            size = orjson.loads(message)
            if self.terminal >= 0:
                packed = struct.pack("HHHH", int(size["Height"]), int(size["Width"]), 0, 0)
                fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, packed)

    def close_stdin(self) -> None:
        # The terminal is the output as well, and stays open until the command ends.
        if self.stdin >= 0 and self.stdin != self.terminal:
            os.close(self.stdin)
        self.stdin = -1

    def close(self) -> None:
        self.close_stdin()
        for fd, _ in self.outputs:
            os.close(fd)
        self.outputs = []
