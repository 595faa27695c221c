"""Bodies in Kubernetes' protobuf (kubectl's `create` sends nothing else for built-in kinds) as the equivalent JSON.

Only read, never written: every client that sends protobuf also accepts JSON answers. Field numbers are Kubernetes' own
(`openapi/protobuf.json.gz`). Pure.
"""

from __future__ import annotations

import base64
import gzip
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import orjson

from localcluster import times
from localcluster.apiserver.errors import bad_request
from localcluster.apiserver.typed import builtin_schemas, kind_schemas
from localcluster.wire import Json

MAGIC = b"k8s\x00"
_META = "k8s.io.apimachinery.pkg.apis.meta.v1."


@cache
def _load_messages() -> dict[str, dict[str, list[Any]]]:
    data = Path(__file__).parent.joinpath("openapi", "protobuf.json.gz").read_bytes()
    table: dict[str, dict[str, list[Any]]] = orjson.loads(gzip.decompress(data))
    return table


def decode(body: bytes) -> Json:
    """Raises StatusError 400."""
    if not body.startswith(MAGIC):
        raise bad_request("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    try:
        api_version, kind, raw = _read_envelope(body[len(MAGIC) :])
        name = _message_of(api_version, kind)
        return {"kind": kind, "apiVersion": api_version, **_decode_message(raw, name)}
    except (IndexError, ValueError, KeyError) as wrong:
        raise bad_request(f"unable to decode the protobuf body: {wrong}") from None


def _read_envelope(data: bytes) -> tuple[str, str, bytes]:
    api_version = kind = ""
    raw = b""
    for number, value in _read_fields(data):
        if number == 1 and isinstance(value, bytes):
            for inner, text in _read_fields(value):
                if inner == 1 and isinstance(text, bytes):
                    api_version = text.decode()
                elif inner == 2 and isinstance(text, bytes):
                    kind = text.decode()
        elif number == 2 and isinstance(value, bytes):
            raw = value
    return api_version, kind, raw


def _message_of(api_version: str, kind: str) -> str:
    if kind == "DeleteOptions":
        return f"{_META}DeleteOptions"
    schema = kind_schemas().get((api_version, kind))
    if schema is None:
        raise ValueError(f'no kind "{kind}" is registered for version "{api_version}"')
    name = "k8s.io." + schema.removeprefix("io.k8s.")
    return name if name in _load_messages() else name.replace("apiextensions-apiserver", "apiextensions_apiserver")


def _read_fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    position = 0
    while position < len(data):
        tag, position = _read_varint(data, position)
        number, wire = tag >> 3, tag & 7
        if wire == 0:
            value, position = _read_varint(data, position)
            yield number, value
        elif wire == 2:
            length, position = _read_varint(data, position)
            if position + length > len(data):
                raise ValueError("unexpected EOF")
            yield number, data[position : position + length]
            position += length
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
            yield number, data[position : position + size]
            position += size
        else:
            raise ValueError(f"illegal wireType {wire}")


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 63:
            raise ValueError("integer overflow")


def _decode_message(data: bytes, name: str) -> Json:
    table = _load_messages()[name]
    schema = builtin_schemas().get(
        "io.k8s." + name.removeprefix("k8s.io.").replace("apiextensions_apiserver", "apiextensions-apiserver"), {}
    )
    known = schema.get("properties", {})
    result: Json = {}
    for number, value in _read_fields(data):
        entry = table.get(str(number))
        if entry is None:
            continue
        field, kind, repeated = entry
        if kind.startswith("map "):
            key, item = _decode_entry(value, kind[4:])
            result.setdefault(field, {})[key] = item
            continue
        decoded = _decode_value(value, kind)
        if known and field not in known and isinstance(decoded, dict):
            # Go embeds this struct: in JSON its fields are fields of the outer object.
            result |= decoded
        elif repeated:
            result.setdefault(field, []).append(decoded)
        else:
            result[field] = decoded
    # Go writes plain strings even when they are empty; absent and empty are the same there.
    return {field: value for field, value in result.items() if value not in ("", None)}


def _decode_entry(value: int | bytes, kind: str) -> tuple[str, Any]:
    key: str = ""
    item: Any = "" if kind in ("string", "bytes") else None
    for number, part in _read_fields(value if isinstance(value, bytes) else b""):
        if number == 1 and isinstance(part, bytes):
            key = part.decode()
        elif number == 2:
            item = _decode_value(part, kind)
    return key, item


def _decode_value(value: int | bytes, kind: str) -> Any:  # noqa: PLR0911  one line a type
    if isinstance(value, int):
        if kind == "bool":
            return bool(value)
        return value - (1 << 64) if value >> 63 else value
    if kind == "string":
        return value.decode()
    if kind == "bytes":
        return base64.b64encode(value).decode()
    short = kind.rsplit(".", 1)[-1]
    if short in ("Time", "MicroTime") and kind.startswith(_META):
        return _decode_time(value, micro=short == "MicroTime")
    if short == "Quantity":
        return next(
            (text.decode() for number, text in _read_fields(value) if number == 1 and isinstance(text, bytes)), "0"
        )
    if short == "IntOrString":
        parts = dict(_read_fields(value))
        text = parts.get(3, b"")
        return (
            text.decode() if parts.get(1) == 1 and isinstance(text, bytes) else _decode_value(parts.get(2, 0), "int32")
        )
    if short == "FieldsV1":
        return next(
            (orjson.loads(raw) for number, raw in _read_fields(value) if number == 1 and isinstance(raw, bytes)), {}
        )
    if short in ("RawExtension", "JSON"):
        return next(
            (
                orjson.loads(raw)
                for number, raw in _read_fields(value)
                if number == 1 and isinstance(raw, bytes) and raw
            ),
            None,
        )
    if short == "Verbs" or kind.endswith((".ExtraValue", ".FinalizerName")):
        return [item.decode() for _, item in _read_fields(value) if isinstance(item, bytes)]
    return _decode_message(value, kind)


def _decode_time(value: bytes, *, micro: bool) -> str | None:
    parts = {number: _decode_value(part, "int64") for number, part in _read_fields(value)}
    seconds, nanos = parts.get(1, 0), parts.get(2, 0)
    # The zero time of Go is year 1: absent in JSON.
    if seconds <= -62135596800:
        return None
    if micro:
        return times.format_time(seconds, f".{nanos // 1000:06d}")
    return times.format_time(seconds)
