"""The frames that the roles speak: a JSON header, raw arrays behind it. No pickle, so nothing that a peer sends runs.

    4 bytes magic | 4 bytes length of the header | 4 bytes length of the body | header (UTF-8 JSON) | body

The header is `{"op": ..., "fields": {...}, "arrays": [[name, dtype, shape], ...]}`, the body the arrays one after the
other, little-endian, C order. Lengths are big-endian. Everything is checked before memory is taken for it.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from io import BufferedIOBase
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAGIC = b"DGT1"
HEADER_LIMIT_BYTES = 64 * 1024
BODY_LIMIT_BYTES = 8 * 1024 * 1024

Array = NDArray[Any]

_PREFIX = struct.Struct("!4sII")
_DTYPES: dict[str, np.dtype[Any]] = {
    "float32": np.dtype("<f4"),
    "float64": np.dtype("<f8"),
    "int64": np.dtype("<i8"),
    "uint8": np.dtype("|u1"),
}


class ProtocolError(Exception):
    """The peer does not speak this protocol, or breaks its limits. The connection is of no more use."""


@dataclass(frozen=True, slots=True)
class Message:
    op: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, Array] = field(default_factory=dict)
    """As decoded they are views of the received bytes: read-only."""


def encode(message: Message) -> bytes:
    """One frame. Raises ProtocolError when the message breaks a limit or has an array of another type."""
    described, chunks = [], []
    for name, array in message.arrays.items():
        dtype = _DTYPES.get(array.dtype.name)
        if dtype is None:
            raise ProtocolError(f"array {name!r} is of type {array.dtype.name}, must be one of {', '.join(_DTYPES)}")
        described.append([name, array.dtype.name, list(array.shape)])
        chunks.append(np.ascontiguousarray(array, dtype=dtype).tobytes())
    header = json.dumps({"op": message.op, "fields": dict(message.fields), "arrays": described}).encode()
    body = b"".join(chunks)
    _check_sizes(len(header), len(body))
    return _PREFIX.pack(MAGIC, len(header), len(body)) + header + body


def read_message(stream: BufferedIOBase) -> Message | None:
    """The next frame, None when the peer has closed between two frames. Raises ProtocolError and OSError."""
    prefix = _read(stream, _PREFIX.size, may_end=True)
    if not prefix:
        return None
    magic, header_bytes, body_bytes = _PREFIX.unpack(prefix)
    if magic != MAGIC:
        raise ProtocolError(f"frame begins with {magic!r}, must begin with {MAGIC!r}: is this port another program's?")
    _check_sizes(header_bytes, body_bytes)
    header = _read(stream, header_bytes)
    return _decode(header, _read(stream, body_bytes))


def _check_sizes(header_bytes: int, body_bytes: int) -> None:
    if header_bytes > HEADER_LIMIT_BYTES:
        raise ProtocolError(f"header of {header_bytes} bytes, at most {HEADER_LIMIT_BYTES} are allowed")
    if body_bytes > BODY_LIMIT_BYTES:
        raise ProtocolError(f"body of {body_bytes} bytes, at most {BODY_LIMIT_BYTES} are allowed")


def _read(stream: BufferedIOBase, count: int, *, may_end: bool = False) -> bytes:
    data = stream.read(count) if count else b""
    if len(data) < count and not (may_end and not data):
        raise ProtocolError(f"connection ended inside a frame: {len(data)} of {count} bytes")
    return data


def _decode(header: bytes, body: bytes) -> Message:
    try:
        parsed = json.loads(header)
        op, fields, described = parsed["op"], parsed["fields"], parsed["arrays"]
        triples = [(str(name), str(dtype), [int(n) for n in shape]) for name, dtype, shape in described]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ProtocolError(f"header is not an object with op, fields and arrays: {error!r}") from None
    if not isinstance(op, str) or not isinstance(fields, dict):
        raise ProtocolError("header: op must be a string and fields an object")
    arrays: dict[str, Array] = {}
    offset = 0
    for name, dtype_name, shape in triples:
        dtype = _DTYPES.get(dtype_name)
        if dtype is None or any(n < 0 for n in shape):
            raise ProtocolError(f"array {name!r}: {dtype_name} {shape} is not a type and shape that is allowed")
        count = math.prod(shape)
        if count * dtype.itemsize > len(body) - offset:
            raise ProtocolError(f"array {name!r} of shape {shape} reaches beyond the end of the body")
        arrays[name] = np.frombuffer(body, dtype, count, offset).reshape(shape)
        offset += count * dtype.itemsize
    if offset != len(body):
        raise ProtocolError(f"body has {len(body) - offset} bytes more than its arrays")
    return Message(op, fields, arrays)
