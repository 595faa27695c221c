"""The little of /openapi/v2 that kubectl asks for: whether the server validates the fields of kinds that it does not
know yet. kubectl looks at the Namespace's PATCH for that, in gnostic's protobuf. Pure.
"""

from __future__ import annotations

CONTENT_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"


def _bytes(number: int, data: bytes | str) -> bytes:
    raw = data.encode() if isinstance(data, str) else data
    return _varint(number << 3 | 2) + _varint(len(raw)) + raw


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def document(version: str) -> bytes:
    """An OpenAPI v2 Document with one path. Field numbers: gnostic's openapiv2/OpenAPIv2.proto."""
    query = _bytes(2, "query") + _bytes(4, "fieldValidation") + _bytes(6, "string")
    parameter = _bytes(1, _bytes(2, _bytes(3, query)))
    extension = _bytes(1, "x-kubernetes-group-version-kind") + _bytes(
        2, _bytes(2, 'group: ""\nkind: Namespace\nversion: v1\n')
    )
    operation = _bytes(5, "patchCoreV1Namespace") + _bytes(8, parameter) + _bytes(9, b"") + _bytes(13, extension)
    item = _bytes(1, "/api/v1/namespaces/{name}") + _bytes(2, _bytes(8, operation))
    info = _bytes(1, "Kubernetes") + _bytes(2, version)
    return _bytes(1, "2.0") + _bytes(2, info) + _bytes(8, _bytes(2, item)) + _bytes(9, b"")
