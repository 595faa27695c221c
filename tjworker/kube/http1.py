"""HTTP/1.1 as a client of the API server needs it: the bytes of a request, and an answer as it arrives.

httptools reads answers: http.client reads each head with the parser for e-mail, which takes 0.09 ms of CPU. What does
not end where it says is refused; a connection on which more came than was asked for is not used again.

Raises HTTPException for what is no such answer, OSError when the connection fails.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator, Mapping
from http.client import BadStatusLine, HTTPException, IncompleteRead, InvalidURL, LineTooLong, RemoteDisconnected

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

MOST_HEAD_BYTES = 64 * 1024
RECEIVED_BYTES = 64 * 1024
_TARGET = re.compile(r"[!-~]+")
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
        self._message = _ParsedResponse()
        received = 0
        while not self._message.headed:
            piece = connected.recv(RECEIVED_BYTES)
            if not piece:
                raise RemoteDisconnected("the server has closed the connection without an answer")
            received += len(piece)
            self._message.feed(piece)
            if received > MOST_HEAD_BYTES and not self._message.headed:
                raise LineTooLong("head")
        self.status = self._message.status
        self.headers: Mapping[str, str] = self._message.headers
        coding = self.headers.get("transfer-encoding", "chunked")
        if coding.lower() != "chunked":
            raise HTTPException(f"the answer is encoded as {coding!r}, which nobody has asked for")

    @property
    def reusable(self) -> bool:
        """The connection is good for another request: this answer has been read to its end, and nothing after it."""
        return self._message.over and self._message.keep_alive and not self._message.body

    def pieces(self) -> Iterator[bytes]:
        """The body in what has arrived together; ends with it."""
        message = self._message
        while True:
            arrived = b"".join(message.body)
            message.body.clear()
            if arrived:
                yield arrived
            if message.over:
                return
            piece = self._socket.recv(RECEIVED_BYTES)
            if piece:
                message.feed(piece)
            elif self._ends_with_its_connection():
                return
            else:
                raise IncompleteRead(b"")

    def _ends_with_its_connection(self) -> bool:
        framed = "content-length" in self.headers or "transfer-encoding" in self.headers
        return not framed and self.status not in _WITHOUT_BODY


class _ParsedResponse:
    """What the parser calls. An interim answer (1xx) is none."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.headed = self.over = self.keep_alive = False
        self.body: list[bytes] = []
        """What has arrived of it and nobody has taken yet."""
        self._parser: HttpResponseParser | None = HttpResponseParser(self)

    def feed(self, piece: bytes) -> None:
        assert self._parser is not None  # noqa: S101  nobody feeds a message that is over
        try:
            self._parser.feed_data(piece)
        except (HttpParserError, HttpParserUpgrade) as error:
            if not self.over:
                wrong = HTTPException if self.headed else BadStatusLine
                raise wrong(f"no answer of HTTP/1.1: {error.__context__ or error}") from error
            self.keep_alive = False
        if self.over:
            self._parser = None  # each holds the other: else the garbage collector would have to part them

    # -- called by the parser ----------------------------------------------------------------------
    def on_message_begin(self) -> None:
        if self.over:
            self.keep_alive = False

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.headed:  # behind the last chunk
            return
        known, said = name.decode("latin-1").lower(), value.decode("latin-1").strip(" \t")
        self.headers[known] = f"{self.headers[known]}, {said}" if known in self.headers else said

    def on_headers_complete(self) -> None:
        assert self._parser is not None  # noqa: S101  it calls
        status, version = self._parser.get_status_code(), self._parser.get_http_version()
        if status < 100 or version not in ("1.0", "1.1"):
            raise HTTPException(f"the answer has the status {status} and the version {version}")
        if status < 200:
            self.headers.clear()
        elif not self.headed:
            self.status, self.headed = status, True

    def on_body(self, piece: bytes) -> None:
        if not self.over:
            self.body.append(piece)

    def on_message_complete(self) -> None:
        if self.headed and not self.over:
            assert self._parser is not None  # noqa: S101  it calls
            self.over = True
            self.keep_alive = self._parser.should_keep_alive()
