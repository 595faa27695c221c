"""Requests as bytes, and answers however their bytes are cut: what they say, and whether the connection goes on."""

from __future__ import annotations

import re
from http.client import HTTPException
from typing import Any

import pytest

from tjworker.kube.http1 import MOST_HEAD_BYTES, Answer, build_request


class Sent:
    """A socket on which a server has sent this, in these pieces, and has closed it then."""

    def __init__(self, pieces: list[bytes]) -> None:
        self.pieces = [piece for piece in pieces if piece]

    def recv(self, _most: int) -> bytes:
        return self.pieces.pop(0) if self.pieces else b""


def answer(*pieces: bytes) -> Answer:
    connected: Any = Sent(list(pieces))
    return Answer(connected)


def read(*pieces: bytes) -> tuple[int, bytes, bool]:
    """(status, body, whether the connection is good for another request)."""
    got = answer(*pieces)
    body = b"".join(got.pieces())
    return got.status, body, got.reusable


OK = b"HTTP/1.1 200 OK\r\n"
READ: dict[str, tuple[bytes, tuple[int, bytes, bool]]] = {
    "a body with its length leaves the connection open": (
        OK + b"Content-Length: 5\r\n\r\nhello",
        (200, b"hello", True),
    ),
    "so does an answer that has none": (b"HTTP/1.1 204 No Content\r\n\r\n", (204, b"", True)),
    "one that has not changed has no body, whatever length it names": (
        b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
        (304, b"", True),
    ),
    "chunks are put together": (
        OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n00A;name=value\r\n\r\n3456789\n\r\n0\r\n\r\n",
        (200, b"abc\r\n3456789\n", True),
    ),
    "what stands after the last chunk is passed over": (
        OK + b"Transfer-Encoding: Chunked\r\n\r\n1\r\na\r\n0\r\nX-Sum: 1\r\nY: 2\r\n\r\n",
        (200, b"a", True),
    ),
    "a body without either ends with the connection": (OK + b"\r\nall of it", (200, b"all of it", False)),
    "a server that says so ends the connection": (
        OK + b"Connection: close\r\nContent-Length: 1\r\n\r\na",
        (200, b"a", False),
    ),
    "so does an old one": (b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na", (200, b"a", False)),
    "an interim answer is none": (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
        + OK
        + b"Content-Length: 1\r\n\r\na",
        (200, b"a", True),
    ),
}


@pytest.mark.parametrize("case", READ)
def test_an_answer_is_read_however_it_is_cut(case: str) -> None:
    sent, want = READ[case]
    assert read(sent) == want
    assert read(*(sent[at : at + 1] for at in range(len(sent)))) == want
    for at in range(1, len(sent)):
        assert read(sent[:at], sent[at:]) == want, f"cut at {at}"


@pytest.mark.parametrize(
    "framing", [b"Content-Length: 1\r\n\r\na", b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n"]
)
def test_a_connection_on_which_more_came_than_was_asked_for_is_not_used_again(framing: bytes) -> None:
    assert read(OK + framing + b"HTTP/1.1 200 OK\r\n") == (200, b"a", False)


REFUSED: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "without an answer"),
    "another protocol": (b"SSH-2.0-OpenSSH\r\n\r\n", "Expected HTTP/"),
    "another version": (b"HTTP/2 200 OK\r\n\r\n", "not valid HTTP/1.1"),
    "chunks and a length": (
        OK + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
        "can't be present",
    ),
    "a size without an end": (OK + b"Transfer-Encoding: chunked\r\n\r\n" + b"1" * 100, "size overflow"),
    "interim answers without end": (b"HTTP/1.1 100 Continue\r\n\r\n" * (MOST_HEAD_BYTES // 20), "more than"),
    "another protocol from here on, unasked": (
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
        "not valid HTTP/1.1",
    ),
    "no status": (b"HTTP/1.1 OK\r\n\r\n", "Invalid status code"),
    "an unknown status": (b"HTTP/1.1 000 ?\r\n\r\n", "status 0"),
    "a header without a name": (OK + b": 5\r\n\r\n", "Invalid header token"),
    "a header over two lines": (OK + b"A: b\r\n c\r\n\r\n", "Unexpected whitespace"),
    "a name with a space": (OK + b"Content-Length : 5\r\n\r\nhello", "Invalid header field"),
    "two lengths": (OK + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!", "Duplicate Content-Length"),
    "a length below zero": (OK + b"Content-Length: -5\r\n\r\nhello", "in Content-Length"),
    "a body that is cut off": (OK + b"Content-Length: 5\r\n\r\nhell", "IncompleteRead"),
    "another encoding": (OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "'gzip, chunked'"),
    "a chunk without a size": (OK + b"Transfer-Encoding: chunked\r\n\r\n\r\n", "chunk size"),
    "a chunk with a prefix": (OK + b"Transfer-Encoding: chunked\r\n\r\n0x1\r\na\r\n0\r\n\r\n", "chunk size"),
    "a chunk that is longer than it says": (
        OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n",
        "after chunk data",
    ),
    "chunks that are cut off": (OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhell", "IncompleteRead"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_whole_answer_is_refused(case: str) -> None:
    sent, words = REFUSED[case]
    with pytest.raises(HTTPException) as refused:
        read(sent)
    assert re.search(words, f"{refused.value!r} {refused.value}")


@pytest.mark.parametrize("target", ["", "/a b", "/a\r\nx: y", "/a\n", "/ä", "/\x7f", "/\x00"])
def test_a_path_that_is_none_is_not_sent(target: str) -> None:
    with pytest.raises(HTTPException):
        build_request("GET", target, {}, None)


@pytest.mark.parametrize("value", ["secret\r\nx: y", "secret\n", "sec\rret"])
def test_a_header_with_a_line_break_is_not_sent_and_not_shown(value: str) -> None:
    with pytest.raises(HTTPException) as refused:
        build_request("GET", "/", {"authorization": value}, None)
    assert "sec" not in str(refused.value)
