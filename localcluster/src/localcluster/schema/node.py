"""A CRD's `openAPIV3Schema` as a tree of frozen nodes, made once a version and then only read.

The same node serves pruning, defaulting, validation and the CEL view. Pure; never raises on an odd schema (structure.py
says what is wrong with one): values of the wrong type count as absent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from localcluster.schema import formats
from localcluster.wire import Json


@dataclass(frozen=True, slots=True)
class Rule:
    """One entry of x-kubernetes-validations."""

    rule: str
    message: str
    message_expression: str
    reason: str
    field_path: str
    optional_old_self: bool | None


@dataclass(frozen=True, slots=True)
class SchemaNode:
    types: tuple[str, ...] = ()
    nullable: bool = False
    format: str = ""
    """The default that value validation sees: empty when the API server would strip it."""
    enum: tuple[Any, ...] = ()
    maximum: float | None = None
    minimum: float | None = None
    exclusive_maximum: bool = False
    exclusive_minimum: bool = False
    multiple_of: float | None = None
    max_length: int | None = None
    min_length: int | None = None
    pattern: str = ""
    max_items: int | None = None
    min_items: int | None = None
    max_properties: int | None = None
    min_properties: int | None = None
    required: tuple[str, ...] = ()
    properties: Mapping[str, SchemaNode] = field(default_factory=dict)
    additional: SchemaNode | bool | None = None
    items: SchemaNode | None = None
    all_of: tuple[SchemaNode, ...] = ()
    any_of: tuple[SchemaNode, ...] = ()
    one_of: tuple[SchemaNode, ...] = ()
    not_: SchemaNode | None = None
    default: Any = None
    """None when there is none: a default of null is none to the API server too."""
    preserve: bool = False
    embedded: bool = False
    """The whole resource, whose apiVersion, kind and metadata are there whatever the schema says."""
    int_or_string: bool = False
    list_type: str = ""
    list_map_keys: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()

    @property
    def type(self) -> str:
        return self.types[0] if len(self.types) == 1 else ""

    @property
    def additional_node(self) -> SchemaNode | None:
        return self.additional if isinstance(self.additional, SchemaNode) else None

    def child(self, key: str) -> SchemaNode | None:
        """The schema of one field: the property's, else that of additionalProperties."""
        return self.properties.get(key) or self.additional_node


def _read_text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _read_number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _read_count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _read_texts(value: Any) -> tuple[str, ...]:
    return tuple(v for v in value if isinstance(v, str)) if isinstance(value, list) else ()


def _read_nodes(value: Any) -> tuple[SchemaNode, ...]:
    return tuple(build(v) for v in value if isinstance(v, dict)) if isinstance(value, list) else ()


def _read_rules(value: Any) -> tuple[Rule, ...]:
    rules = [v for v in value if isinstance(v, dict)] if isinstance(value, list) else []
    return tuple(
        Rule(
            _read_text(r.get("rule")),
            _read_text(r.get("message")),
            _read_text(r.get("messageExpression")),
            _read_text(r.get("reason")),
            _read_text(r.get("fieldPath")),
            r["optionalOldSelf"] if isinstance(r.get("optionalOldSelf"), bool) else None,
        )
        for r in rules
    )


def _read_additional(value: Any) -> SchemaNode | bool | None:
    if isinstance(value, dict):
        return build(value)
    return value if isinstance(value, bool) else None


def build(schema: Json) -> SchemaNode:
    int_or_string = schema.get("x-kubernetes-int-or-string") is True
    declared = _read_text(schema.get("type"))
    types: tuple[str, ...] = ("integer", "string") if int_or_string else ((declared,) if declared else ())
    raw_format = _read_text(schema.get("format"))
    properties = schema.get("properties")
    items = schema.get("items")
    forbidden = schema.get("not")
    enum = schema.get("enum")
    return SchemaNode(
        types=types,
        nullable=schema.get("nullable") is True,
        format=raw_format if formats.is_known(types[0] if len(types) == 1 else "", raw_format) else "",
        enum=tuple(enum) if isinstance(enum, list) else (),
        maximum=_read_number(schema.get("maximum")),
        minimum=_read_number(schema.get("minimum")),
        exclusive_maximum=schema.get("exclusiveMaximum") is True,
        exclusive_minimum=schema.get("exclusiveMinimum") is True,
        multiple_of=_read_number(schema.get("multipleOf")),
        max_length=_read_count(schema.get("maxLength")),
        min_length=_read_count(schema.get("minLength")),
        pattern=_read_text(schema.get("pattern")),
        max_items=_read_count(schema.get("maxItems")),
        min_items=_read_count(schema.get("minItems")),
        max_properties=_read_count(schema.get("maxProperties")),
        min_properties=_read_count(schema.get("minProperties")),
        required=_read_texts(schema.get("required")),
        properties={k: build(v) for k, v in properties.items() if isinstance(v, dict)}
        if isinstance(properties, dict)
        else {},
        additional=_read_additional(schema.get("additionalProperties")),
        items=build(items) if isinstance(items, dict) else None,
        all_of=_read_nodes(schema.get("allOf")),
        any_of=_read_nodes(schema.get("anyOf")),
        one_of=_read_nodes(schema.get("oneOf")),
        not_=build(forbidden) if isinstance(forbidden, dict) else None,
        default=schema.get("default"),
        preserve=schema.get("x-kubernetes-preserve-unknown-fields") is True,
        int_or_string=int_or_string,
        list_type=_read_text(schema.get("x-kubernetes-list-type")),
        list_map_keys=_read_texts(schema.get("x-kubernetes-list-map-keys")),
        rules=_read_rules(schema.get("x-kubernetes-validations")),
    )
