"""Requests as bytes, and answers however their bytes are cut: what they say, and whether the connection goes on."""

from __future__ import annotations

import random
import re
from http.client import HTTPException
from typing import Any

import pytest

from tests.support.seeds import the_seed
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
    "so does an empty body": (OK + b"content-length: 0\r\n\r\n", (200, b"", True)),
    "so does an answer that has none": (b"HTTP/1.1 204 No Content\r\n\r\n", (204, b"", True)),
    "one that has not changed has no body, whatever length it names": (
        b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
        (304, b"", True),
    ),
    "a status needs no words": (b"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\n{}", (200, b"{}", True)),
    "chunks are put together": (
        OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n00A;name=value\r\n\r\n3456789\n\r\n0\r\n\r\n",
        (200, b"abc\r\n3456789\n", True),
    ),
    "what stands after the last chunk is passed over": (
        OK + b"Transfer-Encoding: Chunked\r\n\r\n1\r\na\r\n0\r\nX-Sum: 1\r\nY: 2\r\n\r\n",
        (200, b"a", True),
    ),
    "a body without either ends with the connection": (OK + b"\r\nall of it", (200, b"all of it", False)),
    "an empty one, too": (OK + b"\r\n", (200, b"", False)),
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


def test_an_answer_is_whole_whatever_comes_after_it() -> None:
    upgrade = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n"
    assert read(OK + b"Content-Length: 1\r\n\r\na" + upgrade) == (200, b"a", False)


def test_an_answer_that_has_not_been_read_keeps_its_connection() -> None:
    assert not answer(OK + b"Content-Length: 1\r\n\r\na").reusable
    assert not answer(OK + b"Content-Length: 1\r\n\r\n").reusable


def test_names_of_headers_are_lower_case_and_those_that_come_twice_one() -> None:
    got = answer(OK + b"Retry-After:  7\t\r\nVary: a\r\nvary:b\r\nEmpty:\r\n\r\n")
    assert got.headers == {"retry-after": "7", "vary": "a, b", "empty": ""}


REFUSED: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "without an answer"),
    "half a head": (OK + b"Content-Le", "without an answer"),
    "another protocol": (b"SSH-2.0-OpenSSH\r\n\r\n", "Expected HTTP/"),
    "another version": (b"HTTP/2 200 OK\r\n\r\n", "not valid HTTP/1.1"),
    "a version that does not exist": (b"HTTP/2.0 200 OK\r\n\r\n", "version 2.0"),
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
    "a head without an end": (OK + b"A: " + b"x" * (MOST_HEAD_BYTES + 1), "more than"),
    "a header without a name": (OK + b": 5\r\n\r\n", "Invalid header token"),
    "a header over two lines": (OK + b"A: b\r\n c\r\n\r\n", "Unexpected whitespace"),
    "a name with a space": (OK + b"Content-Length : 5\r\n\r\nhello", "Invalid header field"),
    "two lengths": (OK + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!", "Duplicate Content-Length"),
    "a length with a sign": (OK + b"Content-Length: +5\r\n\r\nhello", "in Content-Length"),
    "a length below zero": (OK + b"Content-Length: -5\r\n\r\nhello", "in Content-Length"),
    "a body that is cut off": (OK + b"Content-Length: 5\r\n\r\nhell", "IncompleteRead"),
    "another encoding": (OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "'gzip, chunked'"),
    "a chunk without a size": (OK + b"Transfer-Encoding: chunked\r\n\r\n\r\n", "chunk size"),
    "a chunk with a sign": (OK + b"Transfer-Encoding: chunked\r\n\r\n+1\r\na\r\n0\r\n\r\n", "chunk size"),
    "a chunk with a prefix": (OK + b"Transfer-Encoding: chunked\r\n\r\n0x1\r\na\r\n0\r\n\r\n", "chunk size"),
    "a chunk that is longer than it says": (
        OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n",
        "after chunk data",
    ),
    "chunks that are cut off": (OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhell", "IncompleteRead"),
    "chunks without the last": (OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n", "IncompleteRead"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_whole_answer_is_refused(case: str) -> None:
    sent, words = REFUSED[case]
    with pytest.raises(HTTPException) as refused:
        read(sent)
    assert re.search(words, f"{refused.value!r} {refused.value}")


def test_chunks_come_out_as_they_went_in_however_they_are_cut() -> None:
    seed = the_seed()
    dice = random.Random(seed)
    for _ in range(200):
        data = [dice.randbytes(dice.choice((1, 2, 15, 16, 17, 300))) for _ in range(dice.randrange(6))]
        framed = OK + b"Transfer-Encoding: chunked\r\n\r\n"
        framed += b"".join(b"%X\r\n%s\r\n" % (len(part), part) for part in data) + b"0\r\n\r\n"
        pieces, at = [], 0
        while at < len(framed):
            step = dice.choice((1, 2, 3, 100))
            pieces.append(framed[at : at + step])
            at += step
        assert read(*pieces) == (200, b"".join(data), True), f"TJ_TEST_SEED={seed}"


def test_data_leaves_before_its_chunk_is_whole() -> None:
    pieces = answer(OK + b"Transfer-Encoding: chunked\r\n\r\n", b"5\r\nhe", b"ll", b"o\r\n0\r\n\r\n").pieces()
    assert list(pieces) == [b"he", b"ll", b"o"]


def test_a_request_is_one_piece_of_bytes() -> None:
    assert build_request("PUT", "/api?a=b", {"host": "h:1", "accept": "x"}, b"{}") == (
        b"PUT /api?a=b HTTP/1.1\r\nhost: h:1\r\naccept: x\r\ncontent-length: 2\r\n\r\n{}"
    )
    assert build_request("GET", "/", {"host": "h"}, None) == b"GET / HTTP/1.1\r\nhost: h\r\n\r\n"


@pytest.mark.parametrize("target", ["", "/a b", "/a\r\nx: y", "/a\n", "/ä", "/\x7f", "/\x00"])
def test_a_path_that_is_none_is_not_sent(target: str) -> None:
    with pytest.raises(HTTPException):
        build_request("GET", target, {}, None)


@pytest.mark.parametrize("value", ["secret\r\nx: y", "secret\n", "sec\rret"])
def test_a_header_with_a_line_break_is_not_sent_and_not_shown(value: str) -> None:
    with pytest.raises(HTTPException) as refused:
        build_request("GET", "/", {"authorization": value}, None)
    assert "sec" not in str(refused.value)
