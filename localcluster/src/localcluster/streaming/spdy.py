"""SPDY/3.1 as far as `kubectl port-forward` speaks it inside a WebSocket: the server's side. Pure: bytes in, events and
frames out.

Follows moby/spdystream, which kubectl and kube-apiserver use: headers are compressed against the draft's dictionary,
pings are answered, and there is no flow control.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

_WORDS: Final = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges "
    "age allow authorization cache-control connection content-base content-encoding content-language "
    "content-length content-location content-md5 content-range content-type date etag expect expires from host"
    " if-match if-modified-since if-none-match if-range if-unmodified-since last-modified location "
    "max-forwards pragma proxy-authenticate proxy-authorization range referer retry-after server te trailer "
    "transfer-encoding upgrade user-agent vary via warning www-authenticate method get status 200_OK version "
    "HTTP/1.1 url public set-cookie keep-alive origin"
)
_TAIL: Final = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505203 "
    "Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 "
    "Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service UnavailableJan Feb Mar Apr "
    "May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/p"
    "ng,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,publicprivatemax-"
    "age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
DICTIONARY: Final = (
    b"".join(struct.pack(">I", len(word)) + word.replace("_", " ").encode() for word in _WORDS.split(" "))
    + _TAIL.encode()
)
"""draft-mbelshe-httpbis-spdy-00, section 2.6.10.1."""
_CONTROL, _VERSION, _FIN = 0x8000, 3, 1
_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _PING = 1, 2, 3, 6
MAX_FRAME_BYTES: Final = 1 << 20


class ProtocolError(Exception):
    """What came is no SPDY."""


@dataclass(frozen=True, slots=True)
class Opened:
    stream: int
    headers: dict[str, str]


@dataclass(frozen=True, slots=True)
class Data:
    stream: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Finished:
    """The client sends nothing more on it."""

    stream: int


@dataclass(frozen=True, slots=True)
class Reset:
    stream: int


@dataclass(frozen=True, slots=True)
class Ping:
    number: bytes


Event = Opened | Data | Finished | Reset | Ping


@dataclass(slots=True)
class Session:
    """One connection. Frames must be sent in the order in which they were made."""

    _rest: bytes = b""
    _inflate: zlib._Decompress = field(default_factory=lambda: zlib.decompressobj(zdict=DICTIONARY))
    _deflate: zlib._Compress = field(default_factory=lambda: zlib.compressobj(zdict=DICTIONARY))

    def receive(self, data: bytes) -> Iterator[Event]:
        """Frames may come in pieces. Raises ProtocolError."""
        self._rest += data
        while len(self._rest) >= 8:
            size = int.from_bytes(self._rest[5:8])
            # The client chooses the size; without a limit it could fill the memory.
            if size > MAX_FRAME_BYTES:
                raise ProtocolError(f"a frame of {size} bytes")
            if len(self._rest) < 8 + size:
                return
            head, body, self._rest = self._rest[:8], self._rest[8 : 8 + size], self._rest[8 + size :]
            try:
                yield from self._parse_event(head, body)
            except (struct.error, zlib.error, UnicodeDecodeError) as error:
                raise ProtocolError(str(error)) from error

    def _parse_event(self, head: bytes, body: bytes) -> Iterator[Event]:
        first, kind, flags = struct.unpack_from(">HHB", head)
        if not first & _CONTROL:
            stream = int.from_bytes(head[:4])
            if body:
                yield Data(stream, body)
        elif first & ~_CONTROL != _VERSION:
            raise ProtocolError(f"version {first & ~_CONTROL}")
        elif kind == _SYN_STREAM:
            stream = struct.unpack_from(">I", body)[0] & 0x7FFFFFFF
            yield Opened(stream, self._parse_headers(body[10:]))
        elif kind == _RST_STREAM:
            yield Reset(struct.unpack_from(">I", body)[0])
            return
        elif kind == _PING:
            yield Ping(body)
            return
        else:
            return
        if flags & _FIN:
            yield Finished(stream)

    def _parse_headers(self, block: bytes) -> dict[str, str]:
        # One stream of compression for the whole session: headers must be read in their order, all of them.
        plain = self._inflate.decompress(block, MAX_FRAME_BYTES)
        (count,), at, parts = struct.unpack_from(">I", plain), 4, []
        for _ in range(count * 2):
            (size,) = struct.unpack_from(">I", plain, at)
            parts.append(plain[at + 4 : at + 4 + size].decode())
            at += 4 + size
        return {name.lower(): value for name, value in zip(parts[::2], parts[1::2], strict=True)}

    def reply(self, stream: int) -> bytes:
        """Takes a stream that was opened."""
        # Without the flush the reply would stay in the compressor.
        block = self._deflate.compress(struct.pack(">I", 0)) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        return _control_frame(_SYN_REPLY, struct.pack(">I", stream) + block)


def data(stream: int, content: bytes, *, last: bool = False) -> bytes:
    return struct.pack(">IB", stream, _FIN if last else 0) + len(content).to_bytes(3) + content


def pong(ping: Ping) -> bytes:
    return _control_frame(_PING, ping.number)


def _control_frame(kind: int, body: bytes) -> bytes:
    return struct.pack(">HHB", _CONTROL | _VERSION, kind, 0) + len(body).to_bytes(3) + body
