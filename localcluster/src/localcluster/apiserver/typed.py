"""Decoding of the built-in kinds as Go's strict decoder does it: unknown fields, wrong types, normal forms of
quantities.

The schemas are Kubernetes' own (`openapi/builtin.json.gz`), compiled once into small nodes. `decode` changes the body
that it is given in place. It never applies defaults and never judges values: that is the strategies' part.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import orjson

from localcluster import times
from localcluster.quantity import BadQuantity, canonical_quantity
from localcluster.wire import Json

_PREFIX = "#/components/schemas/"
_SCALARS = {"string": "string", "boolean": "bool", "number": "float64"}
_INTEGERS = {"int32": "int32", "int64": "int64"}
_INT32, _INT64 = 2**31, 2**63
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
_TIMES = {"io.k8s.apimachinery.pkg.apis.meta.v1.Time", "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime"}
_FREE_FORM = {"io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1", "io.k8s.apimachinery.pkg.runtime.RawExtension"}
_FALSE_IS_ABSENT = {
    "hostNetwork",
    "hostPID",
    "hostIPC",
    "stdin",
    "stdinOnce",
    "tty",
    "readOnly",
    "publishNotReadyAddresses",
    "unschedulable",
}
"""Plain Go booleans with omitempty: false and absent are the same and are printed as absent."""
_EMPTY_COUNTS = {"storageClassName", "ingressClassName", "volumeName", "holderIdentity"}


class WrongType(Exception):
    """The first value that Go could not have decoded."""

    list_from_map = False


@cache
def builtin_schemas() -> dict[str, Json]:
    """Kubernetes' OpenAPI v3 component schemas of the served built-in kinds, by name."""
    data = Path(__file__).parent.joinpath("openapi", "builtin.json.gz").read_bytes()
    schemas: dict[str, Json] = orjson.loads(gzip.decompress(data))
    return schemas


@cache
def kind_schemas() -> dict[tuple[str, str], str]:
    """(apiVersion, kind) -> name of its schema."""
    found = {}
    for name, schema in builtin_schemas().items():
        for gvk in schema.get("x-kubernetes-group-version-kind", []):
            found[f"{gvk['group']}/{gvk['version']}".lstrip("/"), gvk["kind"]] = name
    return found


class TypeNode:
    """One type. `kind`: object, map, array, string, bool, int, float64, quantity, intstr, time or any."""

    __slots__ = ("child", "fields", "kind", "name", "required")

    def __init__(self, kind: str, name: str) -> None:
        self.kind = kind
        self.name = name
        self.fields: dict[str, TypeNode] = {}
        self.required: frozenset[str] = frozenset()
        self.child: TypeNode | None = None


@cache
def _named_node(reference: str) -> TypeNode:
    """The node of a component schema. Cached before its fields are filled: schemas may refer to themselves."""
    short = reference.rsplit(".", 1)[-1]
    if reference == _QUANTITY:
        return TypeNode("quantity", "resource.Quantity")
    if reference == _INT_OR_STRING:
        return TypeNode("intstr", "intstr.IntOrString")
    if reference in _TIMES:
        return TypeNode("time", "v1." + short)
    schema = builtin_schemas()[reference]
    # Content without a schema here is stored as the client sent it.
    if reference in _FREE_FORM or (
        ("properties" not in schema and schema.get("type", "object") == "object")
        and "additionalProperties" not in schema
    ):
        return TypeNode("any", short)
    if "properties" not in schema:
        return _build_node(schema)
    return TypeNode("object", _go_name(reference))


_filled: set[str] = set()


def _go_name(reference: str) -> str:
    parts = reference.split(".")
    return f"{parts[-2]}.{parts[-1]}"


def node_of(reference: str) -> TypeNode:
    node = _named_node(reference)
    if node.kind == "object" and reference not in _filled:
        _filled.add(reference)
        schema = builtin_schemas()[reference]
        node.required = frozenset(schema.get("required", ()))
        node.fields = {name: _build_node(value) for name, value in schema["properties"].items()}
    return node


def _build_node(schema: Json) -> TypeNode:
    reference = schema.get("$ref") or next((part["$ref"] for part in schema.get("allOf", []) if "$ref" in part), None)
    if reference:
        return node_of(reference.removeprefix(_PREFIX))
    kind = schema.get("type")
    if kind == "array":
        node = TypeNode("array", "")
        node.child = _build_node(schema["items"])
        node.name = "[]" + node.child.name
        return node
    if kind == "object" and "additionalProperties" in schema:
        node = TypeNode("map", "")
        node.child = _build_node(schema["additionalProperties"])
        node.name = "map[string]" + node.child.name
        return node
    if kind == "integer":
        return TypeNode("int", _INTEGERS.get(schema.get("format", ""), "int64"))
    if kind in _SCALARS:
        return TypeNode("bytes" if schema.get("format") == "byte" else _SCALARS[kind], _SCALARS[kind])
    return TypeNode("any", "interface {}")


def decode(api_version: str, kind: str, body: Json) -> list[str]:
    """Bring `body` into the form that Kubernetes would store, in place; return the strict decoder's complaints, such as
    `unknown field "spec.foo"`. Raises WrongType."""
    reference = kind_schemas().get((api_version, kind))
    if reference is None:
        return []
    unknown: list[str] = []
    _decode_object(node_of(reference), body, "", "", unknown)
    return unknown


def _decode_object(node: TypeNode, value: Json, path: str, go_path: str, unknown: list[str]) -> None:
    fields = node.fields
    for name in list(value):
        child, item = fields.get(name), value[name]
        if child is None:
            unknown.append(f'unknown field "{path}{name}"')
        if child is None or item is None:
            del value[name]
        elif child.kind == "object":
            if item.__class__ is not dict:
                raise _wrong_type(item, node, go_path + name, child)
            _decode_object(child, item, f"{path}{name}.", f"{go_path}{name}.", unknown)
        elif not (child.kind == "string" and item and item.__class__ is str) and not (
            child.kind == "bool" and item is True
        ):
            value[name] = _decode_value(child, item, path + name, go_path + name, node, unknown)
            if _is_absent(child.kind, name, value[name], node):
                del value[name]


def _is_absent(kind: str, name: str, value: Any, node: TypeNode) -> bool:
    """What Go leaves out of the JSON: empty lists and maps, empty strings, and some fields that are false."""
    if kind in ("array", "map"):
        return not value and name not in node.required
    if kind == "string":
        return not value and name not in node.required and name not in _EMPTY_COUNTS
    return value is False and name in _FALSE_IS_ABSENT


def _decode_value(node: TypeNode, value: Any, path: str, go_path: str, owner: TypeNode, unknown: list[str]) -> Any:
    kind = node.kind
    if kind == "quantity":
        return _decode_quantity(value)
    if kind not in _COMPOSITES:
        fits = _FITS.get(kind)
        if fits is not None and not fits(node, value):
            raise _wrong_type(value, owner, go_path, node)
        if kind == "time":
            return _decode_time(value, micro=node.name == "v1.MicroTime")
        return int(value) if kind == "int" else value
    whole: Any = value
    if value.__class__ is not _COMPOSITES[kind]:
        raise _wrong_type(value, owner, go_path, node)
    if kind == "array":
        return _decode_list(node, whole, path, go_path, owner, unknown)
    if kind == "map":
        return _decode_map(node, whole, path, go_path, owner, unknown)
    _decode_object(node, whole, path + ".", go_path + ".", unknown)
    return whole


def _is_int(node: TypeNode, value: Any) -> bool:
    if isinstance(value, bool) or not (isinstance(value, int) or (isinstance(value, float) and value.is_integer())):
        return False
    most = _INT32 if node.name == "int32" else _INT64
    return bool(-most <= value < most)


def _is_text(node: TypeNode, value: Any) -> bool:
    return isinstance(value, str)


_COMPOSITES: Mapping[str, type] = {"array": list, "map": dict, "object": dict}
_FITS: Mapping[str, Callable[[TypeNode, Any], bool]] = {
    "string": _is_text,
    "bytes": _is_text,
    "time": _is_text,
    "bool": lambda node, value: isinstance(value, bool),
    "int": _is_int,
    "float64": lambda node, value: isinstance(value, int | float) and not isinstance(value, bool),
    "intstr": lambda node, value: isinstance(value, int | str) and not isinstance(value, bool),
}


def _decode_list(
    node: TypeNode, value: list[Any], path: str, go_path: str, owner: TypeNode, unknown: list[str]
) -> list[Any]:
    child = node.child
    assert child is not None  # noqa: S101  every array has its items' type
    if child.kind != "object":
        return [
            _decode_value(child, item, f"{path}[{index}]", go_path, owner, unknown) for index, item in enumerate(value)
        ]
    for index, item in enumerate(value):
        if not isinstance(item, dict):
            raise _wrong_type(item, owner, go_path, child)
        _decode_object(child, item, f"{path}[{index}].", go_path + ".", unknown)
    return value


def _decode_map(node: TypeNode, value: Json, path: str, go_path: str, owner: TypeNode, unknown: list[str]) -> Json:
    child = node.child
    assert child is not None  # noqa: S101  every map has its values' type
    if child.kind == "string" and all(item.__class__ is str for item in value.values()):
        return value
    found: Json = {}
    for key, item in value.items():
        if item is not None:
            found[key] = _decode_value(child, item, f"{path}.{key}", go_path, owner, unknown)
        # Go decodes null in a map of strings as the empty string.
        elif child.kind in ("string", "bytes"):
            found[key] = ""
    return found


def _decode_time(value: str, *, micro: bool) -> str | None:
    try:
        return times.canonical_time(value, micro=micro)
    except times.NoTimeError as wrong:
        raise WrongType(str(wrong)) from None


def _decode_quantity(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise WrongType("unable to parse quantity's suffix")
    try:
        return canonical_quantity(str(value))
    except BadQuantity as bad:
        raise WrongType(str(bad)) from None


def _wrong_type(value: Any, owner: TypeNode, go_path: str, node: TypeNode) -> WrongType:
    if isinstance(value, bool):
        got = "bool"
    elif isinstance(value, int | float):
        got = "number" if node.kind != "int" else f"number {orjson.dumps(value).decode()}"
    else:
        got = "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"
    owner_name = owner.name.rsplit(".", 1)[-1]
    type_name = "time.Time" if node.kind == "time" else node.name
    wrong = WrongType(f"json: cannot unmarshal {got} into Go struct field {owner_name}.{go_path} of type {type_name}")
    wrong.list_from_map = node.kind == "array" and isinstance(value, dict)
    return wrong
