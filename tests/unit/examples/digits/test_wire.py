"""What goes in comes out, and what is not a frame is told so before memory is taken for it."""

from __future__ import annotations

import io
import json
import struct
from dataclasses import dataclass

import numpy as np
import pytest

from examples.digits.wire import (
    BODY_LIMIT_BYTES,
    HEADER_LIMIT_BYTES,
    MAGIC,
    Array,
    Message,
    ProtocolError,
    encode,
    read_message,
)


def frame(header: object, body: bytes = b"", *, magic: bytes = MAGIC) -> bytes:
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("!4sII", magic, len(raw), len(body)) + raw + body


def with_arrays(*described: object) -> dict[str, object]:
    return {"op": "x", "fields": {}, "arrays": list(described)}


@dataclass(frozen=True)
class Case:
    data: bytes
    want_error: str


CASES: dict[str, Case] = {
    "another protocol": Case(b"GET / HTTP/1.1\r\n\r\n", "another program's"),
    "an end inside the frame": Case(frame(with_arrays())[:-2], "ended inside a frame"),
    "a header beyond the limit": Case(struct.pack("!4sII", MAGIC, HEADER_LIMIT_BYTES + 1, 0), "header of 65537 bytes"),
    "a body beyond the limit": Case(struct.pack("!4sII", MAGIC, 2, BODY_LIMIT_BYTES + 1), "body of 8388609 bytes"),
    "a header that is no JSON": Case(frame(b"{"), "header is not an object"),
    "a header that is nested without end": Case(frame(b"[" * 60_000), "header is not an object"),
    "a header that lacks a key": Case(frame({"op": "x", "fields": {}}), "header is not an object"),
    "fields that are no object": Case(frame({"op": "x", "fields": [], "arrays": []}), "fields an object"),
    "an array of objects": Case(frame(with_arrays(["a", "object", [1]]), b"12345678"), "not a type and shape"),
    "a shape below zero": Case(frame(with_arrays(["a", "uint8", [-1]])), "not a type and shape"),
    "an array larger than the body": Case(frame(with_arrays(["a", "float32", [2]]), b"1234"), "beyond the end"),
    "a shape that overflows 64 bits": Case(frame(with_arrays(["a", "uint8", [2**40, 2**40]]), b"1"), "beyond the end"),
    "bytes that belong to no array": Case(frame(with_arrays(), b"1"), "1 bytes more"),
}


@pytest.mark.parametrize("name", CASES)
def test_refused(name: str) -> None:
    with pytest.raises(ProtocolError, match=CASES[name].want_error):
        read_message(io.BytesIO(CASES[name].data))


def test_what_is_sent_arrives_bit_by_bit() -> None:
    arrays: dict[str, Array] = {
        "none": np.zeros((0, 3), np.float32),
        "turned": np.arange(6, dtype=np.float32).reshape(2, 3).T,
        "not numbers": np.array([np.nan, np.inf, -0.0], np.float64),
        "one": np.array(7, np.int64),
        "bytes": np.arange(256, dtype=np.uint8),
    }
    stream = io.BytesIO(encode(Message("push", {"a": [1, None]}, arrays)) + encode(Message("pull")))
    first, second, end = (read_message(stream) for _ in range(3))
    assert first is not None
    assert second == Message("pull")
    assert end is None
    assert (first.op, first.fields) == ("push", {"a": [1, None]})
    for name, array in arrays.items():
        np.testing.assert_array_equal(first.arrays[name], array)
        assert first.arrays[name].dtype == array.dtype


def test_an_array_of_another_type_is_not_sent() -> None:
    with pytest.raises(ProtocolError, match="'a' is of type complex128"):
        encode(Message("x", {}, {"a": np.zeros(1, np.complex128)}))
