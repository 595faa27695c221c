"""Keywords of a CRD schema that may not be there, or not together.

Mirrors ValidateCustomResourceDefinitionOpenAPISchema and specStandardValidatorV3 of apiextensions' validation.go (v0.36). Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from localcluster.schema import causes as c
from localcluster.schema.field_path import FieldPathError, normalize_field_path
from localcluster.schema.node import build
from localcluster.schema.prune import META

Json = dict[str, Any]

_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_UNSUPPORTED: Final = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
_REASONS: Final = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")


def check_keywords(schema: Json, path: str, *, root: bool = True, no_defaults: str = "") -> Iterator[c.FieldCause]:
    """`no_defaults` says why a default may not stand here; empty where it may."""
    yield from _own(schema, path, no_defaults)
    additional, properties, items = schema.get("additionalProperties"), schema.get("properties"), schema.get("items")
    if schema.get("uniqueItems") is True:
        yield c.forbidden(
            f"{path}.uniqueItems", "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        )
    if properties and additional is not None and additional is not True:
        yield c.forbidden(f"{path}.additionalProperties", "additionalProperties and properties are mutual exclusive")
    if isinstance(additional, dict):
        yield from check_keywords(additional, f"{path}.additionalProperties", root=False, no_defaults=no_defaults)
    for name, child in properties.items() if isinstance(properties, dict) else ():
        reason = f"in top-level {name}" if root and name in META else no_defaults
        if isinstance(child, dict):
            yield from check_keywords(child, f"{path}.properties[{name}]", root=False, no_defaults=reason)
    for name in ("allOf", "oneOf", "anyOf"):
        branches = schema.get(name)
        for index, branch in enumerate(branches if isinstance(branches, list) else ()):
            if isinstance(branch, dict):
                yield from check_keywords(branch, f"{path}.{name}[{index}]", root=False, no_defaults=no_defaults)
    for name, child in (("not", schema.get("not")), ("items", items)):
        if isinstance(child, dict):
            yield from check_keywords(child, f"{path}.{name}", root=False, no_defaults=no_defaults)
    yield from _map_type(schema, path)
    yield from _list_type(schema, path)
    yield from _rules(schema, path)


def _own(schema: Json, path: str, no_defaults: str) -> Iterator[c.FieldCause]:
    kind = schema.get("type")
    if kind == "null":
        yield c.forbidden(f"{path}.type", "type cannot be set to null, use nullable as an alternative")
    if kind and kind not in _TYPES:
        yield c.not_supported(f"{path}.type", kind, _TYPES)
    if schema.get("default") is not None and no_defaults:
        yield c.forbidden(f"{path}.default", f"must not be set {no_defaults}")
    for name in _UNSUPPORTED:
        if schema.get(name) not in (None, "", {}):
            yield c.forbidden(f"{path}.{name}", f"{name} is not supported")
    if isinstance(schema.get("items"), list):
        yield c.forbidden(f"{path}.items", "items must be a schema object and not an array")
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        yield c.invalid(f"{path}.x-kubernetes-preserve-unknown-fields", False, "must be true or undefined")


def _map_type(schema: Json, path: str) -> Iterator[c.FieldCause]:
    map_type, kind = schema.get("x-kubernetes-map-type"), schema.get("type") or ""
    if map_type is None:
        return
    if kind != "object":
        detail = "must be object if x-kubernetes-map-type is specified"
        yield c.invalid(f"{path}.type", kind, detail) if kind else c.required(f"{path}.type", detail)
    if map_type not in ("atomic", "granular"):
        yield c.not_supported(f"{path}.x-kubernetes-map-type", map_type, ["atomic", "granular"])


def _list_type(schema: Json, path: str) -> Iterator[c.FieldCause]:
    list_type, kind, keys = (
        schema.get("x-kubernetes-list-type"),
        schema.get("type") or "",
        schema.get("x-kubernetes-list-map-keys") or [],
    )
    items = schema.get("items") if isinstance(schema.get("items"), dict) else None
    if list_type is None:
        if keys:
            yield c.required(f"{path}.x-kubernetes-list-type", "must be map if x-kubernetes-list-map-keys is non-empty")
        return
    if kind != "array":
        detail = "must be array if x-kubernetes-list-type is specified"
        yield c.invalid(f"{path}.type", kind, detail) if kind else c.required(f"{path}.type", detail)
    elif list_type == "set" and items is not None:
        yield from _set_items(items, path)
    if list_type not in ("atomic", "set", "map"):
        yield c.not_supported(f"{path}.x-kubernetes-list-type", list_type, ["atomic", "set", "map"])
    if keys and list_type != "map":
        yield c.invalid(
            f"{path}.x-kubernetes-list-type", list_type, "must be map if x-kubernetes-list-map-keys is non-empty"
        )
    if list_type == "map":
        yield from _map_items(items, keys, path)
    if items is not None and list_type in ("set", "map") and items.get("nullable") is True:
        yield c.forbidden(f"{path}.items.nullable", f"cannot be nullable when x-kubernetes-list-type is {list_type}")
    if items is not None and list_type == "map":
        yield from _map_keys(items, keys, path)


def _set_items(items: Json, path: str) -> Iterator[c.FieldCause]:
    detail = "must be atomic as item of a list with x-kubernetes-list-type=set"
    list_type, map_type = items.get("x-kubernetes-list-type"), items.get("x-kubernetes-map-type")
    if items.get("type") == "array" and list_type not in (None, "atomic"):
        yield c.invalid(f"{path}.items.x-kubernetes-list-type", list_type, detail)
    if items.get("type") == "object" and map_type != "atomic":
        # The API server shows the list type here (its own slip), which is null for an object.
        yield c.invalid(f"{path}.items.x-kubernetes-map-type", list_type, detail)


def _map_items(items: Json | None, keys: list[str], path: str) -> Iterator[c.FieldCause]:
    if not keys:
        yield c.required(f"{path}.x-kubernetes-list-map-keys", "must not be empty if x-kubernetes-list-type is map")
    if items is None:
        yield c.required(f"{path}.items", "must have a schema if x-kubernetes-list-type is map")
        return
    if items.get("type") != "object":
        yield c.invalid(
            f"{path}.items.type",
            items.get("type") or "",
            "must be object if parent array's x-kubernetes-list-type is map",
        )
        return
    for index, key in enumerate(keys):
        prop = (items.get("properties") or {}).get(key)
        if prop is None:
            yield c.invalid(f"{path}.x-kubernetes-list-map-keys", keys, "entries must all be names of item properties")
        elif prop.get("type") in ("array", "object"):
            yield c.invalid(
                f"{path}.items.properties[{key}].type",
                items.get("type"),
                "must be a scalar type if parent array's x-kubernetes-list-type is map",
            )
        if key in keys[:index]:
            yield c.invalid(f"{path}.x-kubernetes-list-map-keys", keys, "must not contain duplicate entries")


def _map_keys(items: Json, keys: list[str], path: str) -> Iterator[c.FieldCause]:
    required = items.get("required") or []
    for key in keys:
        prop = (items.get("properties") or {}).get(key)
        if not isinstance(prop, dict):
            continue
        place = f"{path}.items.properties[{key}]"
        if key not in required and prop.get("default") is None:
            yield c.required(
                f"{place}.default",
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
            )
        if prop.get("nullable") is True:
            yield c.forbidden(
                f"{place}.nullable", "this property is in x-kubernetes-list-map-keys, so it cannot be nullable"
            )


def _rules(schema: Json, path: str) -> Iterator[c.FieldCause]:
    node = build(schema)
    for index, rule in enumerate(node.rules):
        place = f"{path}.x-kubernetes-validations[{index}]"
        if not rule.rule.strip():
            yield c.required(f"{place}.rule", "rule is not specified")
        elif rule.message and not rule.message.strip():
            yield c.invalid(f"{place}.message", rule.message, "must be non-empty if specified")
        elif "\n" in rule.message.strip():
            yield c.invalid(f"{place}.message", rule.message, "must not contain line breaks")
        elif "\n" in rule.rule.strip() and not rule.message.strip():
            yield c.required(f"{place}.message", "message must be specified if rule contains line breaks")
        if rule.message_expression and not rule.message_expression.strip():
            yield c.required(f"{place}.messageExpression", "messageExpression must be non-empty if specified")
        if rule.reason and rule.reason not in _REASONS:
            yield c.not_supported(f"{place}.reason", rule.reason, _REASONS)
        if rule.field_path:
            try:
                normalize_field_path(rule.field_path, node)
            except FieldPathError:
                yield c.invalid(f"{place}.fieldPath", rule.field_path, "must be a valid path")
