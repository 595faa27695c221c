"""HTTP/1.1 as a client of the API server needs it: the bytes of a request, and an answer as it arrives.

http.client reads the head of an answer with the parser for e-mail and takes 0.09 ms of CPU for each; this takes 0.02.
It is strict: an answer whose end two readers could see in different places is refused, or its connection not used
again.

Raises HTTPException for what is no such answer, OSError when the connection fails.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator, Mapping
from http.client import BadStatusLine, HTTPException, IncompleteRead, InvalidURL, LineTooLong, RemoteDisconnected

MOST_HEAD_BYTES = 64 * 1024
MOST_LINE_BYTES = 8 * 1024
"""Of a chunk's size, with what may stand beside it."""
RECEIVED_BYTES = 64 * 1024
_STATUS_LINE = re.compile(r"HTTP/1\.([01]) ([1-5][0-9][0-9])(?: .*)?")
_TARGET = re.compile(r"[!-~]+")
_NAME = re.compile(r"[!#-'*+.^_`|~0-9A-Za-z-]+")
_LENGTH = re.compile(r"[0-9]{1,18}")
_CHUNK_SIZE = re.compile(rb"[0-9A-Fa-f]{1,15}")
_WITHOUT_BODY = (204, 304)


def request(method: str, target: str, headers: Mapping[str, str], body: bytes | None) -> bytes:
    """In one piece, so that it is one packet and one TLS record."""
    if not _TARGET.fullmatch(target):
        raise InvalidURL(f"{target!r} has a character that no path may have")
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    if body is not None:
        lines.append(f"content-length: {len(body)}")
    text = "\r\n".join(lines)
    if text.count("\n") != len(lines) - 1 or text.count("\r") != len(lines) - 1:
        raise HTTPException("a header of the request has a line break")  # without its value: it may be a token
    return f"{text}\r\n\r\n".encode("latin-1") + (body or b"")


class Answer:
    """One answer, of which the head has been read. Not thread-safe."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._buffer = b""
        self.status, self.headers, self._keep_alive = self._head()
        while self.status < 200:  # an interim answer; the one that counts follows
            self.status, self.headers, self._keep_alive = self._head()
        self._over = False

    @property
    def reusable(self) -> bool:
        """The connection is good for another request: this answer has been read to its end, and nothing after it."""
        return self._over and self._keep_alive and not self._buffer

    def pieces(self) -> Iterator[bytes]:
        """The body in what has arrived together; ends with it."""
        coding = self.headers.get("transfer-encoding")
        length = self.headers.get("content-length")
        if self.status in _WITHOUT_BODY:
            self._over = True
        elif coding is not None:
            if coding.lower() != "chunked":
                raise HTTPException(f"the answer is encoded as {coding!r}, which nobody has asked for")
            self._keep_alive = self._keep_alive and length is None
            yield from self._chunked()
        elif length is not None:
            if not _LENGTH.fullmatch(length):
                raise HTTPException(f"the answer's Content-Length is {length!r}")
            yield from self._counted(int(length))
        else:
            yield from self._until_closed()

    def _counted(self, left: int) -> Iterator[bytes]:
        while left > len(self._buffer):
            if self._buffer:
                left -= len(self._buffer)
                piece, self._buffer = self._buffer, b""
                yield piece
            self._buffer = self._receive(left)
        piece, self._buffer = self._buffer[:left], self._buffer[left:]
        self._over = True
        if piece:
            yield piece

    def _chunked(self) -> Iterator[bytes]:
        chunks = Chunks()
        while True:
            piece = chunks.feed(self._buffer)
            self._buffer = chunks.rest if chunks.over else b""
            self._over = chunks.over
            if piece:
                yield piece
            if self._over:
                return
            self._buffer = self._receive()

    def _until_closed(self) -> Iterator[bytes]:
        self._keep_alive = False
        piece = self._buffer or self._socket.recv(RECEIVED_BYTES)
        self._buffer = b""
        while piece:
            yield piece
            piece = self._socket.recv(RECEIVED_BYTES)
        self._over = True

    def _receive(self, missing: int | None = None) -> bytes:
        received = self._socket.recv(RECEIVED_BYTES)
        if not received:
            raise IncompleteRead(b"", missing)
        return received

    def _head(self) -> tuple[int, dict[str, str], bool]:
        while (end := self._buffer.find(b"\r\n\r\n")) < 0:
            if len(self._buffer) > MOST_HEAD_BYTES:
                raise LineTooLong("head")
            received = self._socket.recv(RECEIVED_BYTES)
            if not received:
                raise RemoteDisconnected("the server has closed the connection without an answer")
            self._buffer += received
        first, *lines = self._buffer[:end].decode("latin-1").split("\r\n")
        self._buffer = self._buffer[end + 4 :]
        status = _STATUS_LINE.fullmatch(first)
        if status is None:
            raise BadStatusLine(first[:200])
        headers: dict[str, str] = {}
        for line in lines:
            name, _, value = line.partition(":")
            if not _NAME.fullmatch(name):
                raise HTTPException(f"the answer has the line {line[:200]!r} in its head")
            name, value = name.lower(), value.strip(" \t")
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        keep_alive = status[1] == "1" and headers.get("connection", "").lower() in ("", "keep-alive")
        return int(status[2]), headers, keep_alive


class Chunks:
    """Takes the framing off a chunked body, however its bytes are cut."""

    def __init__(self) -> None:
        self.over = False
        self.rest = b""
        """What has been fed and is not used: a line without its end, or what follows the body."""
        self._left = 0
        """Of the data of a chunk."""
        self._expected = self._size

    def feed(self, data: bytes) -> bytes:
        """The data in it."""
        if self.rest:
            data = self.rest + data
        at, found = 0, []
        while at < len(data) and not self.over:
            if self._left:
                found.append(data[at : at + self._left])
                at += len(found[-1])
                self._left -= len(found[-1])
                continue
            end = data.find(b"\r\n", at)
            if end < 0:
                if len(data) - at > MOST_LINE_BYTES:
                    raise LineTooLong("line of a chunk")
                break
            self._expected(data[at:end])
            at = end + 2
        self.rest = data[at:]
        return b"".join(found)

    def _size(self, line: bytes) -> None:
        size = line.partition(b";")[0].strip(b" \t")
        if not _CHUNK_SIZE.fullmatch(size):
            raise HTTPException(f"a chunk of the answer has the size {size[:200]!r}")
        self._left = int(size, 16)
        self._expected = self._end if self._left else self._trailer

    def _end(self, line: bytes) -> None:
        if line:
            raise HTTPException("a chunk of the answer is longer than it says")
        self._expected = self._size

    def _trailer(self, line: bytes) -> None:
        self.over = not line
