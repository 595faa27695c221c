"""SPDY frames, by the draft's own words and a client's bytes."""

from __future__ import annotations

import struct
import zlib

import pytest

from localcluster.streaming import spdy


def syn_stream(compress: zlib._Compress, stream: int, headers: dict[str, str], *, last: bool = False) -> bytes:
    plain = struct.pack(">I", len(headers))
    for part in (part for pair in headers.items() for part in pair):
        plain += struct.pack(">I", len(part)) + part.encode()
    block = struct.pack(">IIBB", stream, 0, 0, 0) + compress.compress(plain) + compress.flush(zlib.Z_SYNC_FLUSH)
    return struct.pack(">HHB", 0x8003, 1, int(last)) + len(block).to_bytes(3) + block


def test_the_dictionary_is_the_drafts() -> None:
    assert (len(spdy.DICTIONARY), zlib.adler32(spdy.DICTIONARY)) == (1423, 0xE3C6A7C2)


@pytest.mark.parametrize("size", [1, 7, 1 << 16])
def test_frames_are_read_however_they_are_cut(size: int) -> None:
    compress = zlib.compressobj(zdict=spdy.DICTIONARY)
    sent = (
        syn_stream(compress, 1, {"StreamType": "error", "port": "80"}, last=True)
        + syn_stream(compress, 3, {"streamtype": "data"})
        + spdy.data(3, b"hello")
        + struct.pack(">HHB", 0x8003, 4, 0) + (4).to_bytes(3) + bytes(4)  # settings: nothing to us
        + spdy.pong(spdy.Ping(b"\0\0\0\7"))
        + spdy.data(3, b"!", last=True)
        + struct.pack(">HHB", 0x8003, 3, 0) + (8).to_bytes(3) + struct.pack(">II", 3, 5)
    )  # fmt: skip
    session = spdy.Session()
    events = [event for at in range(0, len(sent), size) for event in session.receive(sent[at : at + size])]
    assert events == [
        spdy.Opened(1, {"streamtype": "error", "port": "80"}), spdy.Finished(1),
        spdy.Opened(3, {"streamtype": "data"}), spdy.Data(3, b"hello"), spdy.Ping(b"\0\0\0\7"),
        spdy.Data(3, b"!"), spdy.Finished(3), spdy.Reset(3),
    ]  # fmt: skip


BROKEN = {
    "another version": struct.pack(">HHB", 0x8002, 1, 0) + bytes(3),
    "a frame without end": struct.pack(">HHB", 0x8003, 1, 0) + b"\xff\xff\xff",
    "headers that are not compressed": struct.pack(">HHB", 0x8003, 1, 0) + (14).to_bytes(3) + bytes(14),
    "a stream without number": struct.pack(">HHB", 0x8003, 1, 0) + (2).to_bytes(3) + bytes(2),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_no_spdy_is_refused(name: str) -> None:
    with pytest.raises(spdy.ProtocolError):
        list(spdy.Session().receive(BROKEN[name]))
