"""Decoding of the built-in kinds as Go's strict decoder does it: unknown fields, wrong types, normal forms of quantities.

The schemas are Kubernetes' own (`openapi/builtin.json.gz`), compiled once into small nodes. `decode` changes the body that
it is given in place. It never applies defaults and never judges values: that is the strategies' part.
"""

from __future__ import annotations

import gzip
import re
from datetime import UTC, datetime
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any

import orjson

from localcluster.schema.normal import NormalParts
from localcluster.wire import Json

_PREFIX = "#/components/schemas/"
_SCALARS = {"string": "string", "boolean": "bool", "number": "float64"}
_INTEGERS = {"int32": "int32", "int64": "int64"}
_INT32 = 2**31
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


class Node:
    """One type. `kind`: object, map, array, string, bool, int, float64, quantity, intstr, time or any."""

    __slots__ = ("child", "fields", "kind", "name", "required")

    def __init__(self, kind: str, name: str) -> None:
        self.kind = kind
        self.name = name
        self.fields: dict[str, Node] = {}
        self.required: frozenset[str] = frozenset()
        self.child: Node | None = None


@cache
def _named(reference: str) -> Node:
    """The node of a component schema. Cached before its fields are filled: schemas may refer to themselves."""
    short = reference.rsplit(".", 1)[-1]
    if reference == _QUANTITY:
        return Node("quantity", "resource.Quantity")
    if reference == _INT_OR_STRING:
        return Node("intstr", "intstr.IntOrString")
    if reference in _TIMES:
        return Node("time", "v1." + short)
    schema = builtin_schemas()[reference]
    if reference in _FREE_FORM or (
        ("properties" not in schema and schema.get("type", "object") == "object")
        and "additionalProperties" not in schema
    ):
        return Node("any", short)
    if "properties" not in schema:
        return _inline(schema)
    return Node("object", _go_name(reference))


_filled: set[str] = set()


def _go_name(reference: str) -> str:
    parts = reference.split(".")
    return f"{parts[-2]}.{parts[-1]}"


def node_of(reference: str) -> Node:
    node = _named(reference)
    if node.kind == "object" and reference not in _filled:
        _filled.add(reference)
        schema = builtin_schemas()[reference]
        node.required = frozenset(schema.get("required", ()))
        node.fields = {name: _inline(value) for name, value in schema["properties"].items()}
    return node


def _inline(schema: Json) -> Node:
    reference = schema.get("$ref") or next((part["$ref"] for part in schema.get("allOf", []) if "$ref" in part), None)
    if reference:
        return node_of(reference.removeprefix(_PREFIX))
    kind = schema.get("type")
    if kind == "array":
        node = Node("array", "")
        node.child = _inline(schema["items"])
        node.name = "[]" + node.child.name
        return node
    if kind == "object" and "additionalProperties" in schema:
        node = Node("map", "")
        node.child = _inline(schema["additionalProperties"])
        node.name = "map[string]" + node.child.name
        return node
    if kind == "integer":
        return Node("int", _INTEGERS.get(schema.get("format", ""), "int64"))
    if kind in _SCALARS:
        return Node("bytes" if schema.get("format") == "byte" else _SCALARS[kind], _SCALARS[kind])
    return Node("any", "interface {}")


def decode(api_version: str, kind: str, body: Json) -> list[str]:
    """Bring `body` into the form that Kubernetes would store, in place; return the strict decoder's complaints, such as
    `unknown field "spec.foo"`. Raises WrongType."""
    reference = kind_schemas().get((api_version, kind))
    if reference is None:
        return []
    return _normal_parts(reference).through(body, partial(_decoded, node_of(reference)))


@cache
def _normal_parts(reference: str) -> NormalParts:
    return NormalParts()


def _decoded(node: Node, body: Json) -> list[str]:
    unknown: list[str] = []
    _object(node, body, "", "", unknown)
    return unknown


def _object(node: Node, value: Json, path: str, go_path: str, unknown: list[str]) -> None:  # noqa: C901, PLR0912  one branch a type
    fields = node.fields
    for name in list(value):
        child = fields.get(name)
        if child is None:
            unknown.append(f'unknown field "{path}{name}"')
            del value[name]
            continue
        item = value[name]
        if item is None:
            del value[name]
            continue
        kind = child.kind
        if kind == "string":
            if item.__class__ is not str:
                raise _wrong(item, node, go_path + name, child)
            if not item and name not in node.required and name not in _EMPTY_COUNTS:
                del value[name]
        elif kind == "object":
            if item.__class__ is not dict:
                raise _wrong(item, node, go_path + name, child)
            _object(child, item, f"{path}{name}.", f"{go_path}{name}.", unknown)
        elif kind in ("array", "map"):
            value[name] = _value(child, item, path + name, go_path + name, node, unknown)
            if not value[name] and name not in node.required:
                del value[name]
        elif (kind == "bool" and item is True) or (
            kind == "int" and item.__class__ is int and -_INT32 <= item < _INT32
        ):
            continue
        else:
            value[name] = _value(child, item, path + name, go_path + name, node, unknown)
            if item is False and name in _FALSE_IS_ABSENT:
                del value[name]


def _value(node: Node, value: Any, path: str, go_path: str, owner: Node, unknown: list[str]) -> Any:  # noqa: C901, PLR0911, PLR0912  one branch a type
    kind = node.kind
    if kind == "array":
        if not isinstance(value, list):
            raise _wrong(value, owner, go_path, node)
        assert node.child is not None  # noqa: S101  every array has its items' type
        if node.child.kind == "object":
            for index, item in enumerate(value):
                if not isinstance(item, dict):
                    raise _wrong(item, owner, go_path, node.child)
                _object(node.child, item, f"{path}[{index}].", go_path + ".", unknown)
            return value
        return [
            _value(node.child, item, f"{path}[{index}]", go_path, owner, unknown) for index, item in enumerate(value)
        ]
    if kind == "map":
        if not isinstance(value, dict):
            raise _wrong(value, owner, go_path, node)
        assert node.child is not None  # noqa: S101
        if node.child.kind == "string" and all(item.__class__ is str for item in value.values()):
            return value
        for key in [key for key, item in value.items() if item is None]:
            value[key] = "" if node.child.kind in ("string", "bytes") else value[key]
        return {
            key: _value(node.child, item, f"{path}.{key}", go_path, owner, unknown)
            for key, item in value.items()
            if item is not None
        }
    if kind == "object":
        if not isinstance(value, dict):
            raise _wrong(value, owner, go_path, node)
        _object(node, value, path + ".", go_path + ".", unknown)
    elif kind in ("string", "bytes", "time"):
        if not isinstance(value, str):
            raise _wrong(value, owner, go_path, node)
        if kind == "time":
            return _time(value, exact=node.name == "v1.MicroTime")
    elif kind == "bool":
        if not isinstance(value, bool):
            raise _wrong(value, owner, go_path, node)
    elif kind == "int":
        if isinstance(value, float) and value.is_integer():
            return int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            raise _wrong(value, owner, go_path, node)
        if node.name == "int32" and not -_INT32 <= value < _INT32:
            raise _wrong(value, owner, go_path, node)
    elif kind == "float64":
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise _wrong(value, owner, go_path, node)
    elif kind == "quantity":
        return _quantity(value)
    elif kind == "intstr" and (not isinstance(value, int | str) or isinstance(value, bool)):
        raise _wrong(value, owner, go_path, node)
    return value


_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d)")


@lru_cache(maxsize=4096)
def _time(value: str, *, exact: bool) -> str:
    """A time in its canonical form, which is UTC. `exact`: with microseconds, neither more nor fewer digits."""
    found = _TIME.fullmatch(value)
    layout = "2006-01-02T15:04:05.000000Z07:00" if exact else "2006-01-02T15:04:05Z07:00"
    if found is None or (exact and len(found[2] or "") != 7):
        rest = value[19:] if found else value
        wanted = ".000000" if found else "2006"
        raise WrongType(f'parsing time "{value}" as "{layout}": cannot parse "{rest}" as "{wanted}"')
    if found[3] == "Z" and (exact or not found[2]):
        return value
    moment = datetime.fromisoformat(value).astimezone(UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ" if exact else "%Y-%m-%dT%H:%M:%SZ")


def _quantity(value: Any) -> str:
    from localcluster.apiserver.quantity import BadQuantity, canonical

    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise WrongType("unable to parse quantity's suffix")
    try:
        return canonical(str(value))
    except BadQuantity as bad:
        raise WrongType(str(bad)) from None


def _wrong(value: Any, owner: Node, go_path: str, node: Node) -> WrongType:
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
