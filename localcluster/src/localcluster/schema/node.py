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
class Node:
    types: tuple[str, ...] = ()
    nullable: bool = False
    format: str = ""
    """As the value validation sees it: empty when the API server would strip it."""
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
    properties: Mapping[str, Node] = field(default_factory=dict)
    additional: Node | bool | None = None
    items: Node | None = None
    all_of: tuple[Node, ...] = ()
    any_of: tuple[Node, ...] = ()
    one_of: tuple[Node, ...] = ()
    not_: Node | None = None
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
    def additional_node(self) -> Node | None:
        return self.additional if isinstance(self.additional, Node) else None

    def child(self, key: str) -> Node | None:
        """The schema of one field: the property's, else that of additionalProperties."""
        return self.properties.get(key) or self.additional_node


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(v for v in value if isinstance(v, str)) if isinstance(value, list) else ()


def _nodes(value: Any) -> tuple[Node, ...]:
    return tuple(build(v) for v in value if isinstance(v, dict)) if isinstance(value, list) else ()


def _rules(value: Any) -> tuple[Rule, ...]:
    rules = [v for v in value if isinstance(v, dict)] if isinstance(value, list) else []
    return tuple(
        Rule(
            _text(r.get("rule")),
            _text(r.get("message")),
            _text(r.get("messageExpression")),
            _text(r.get("reason")),
            _text(r.get("fieldPath")),
            r["optionalOldSelf"] if isinstance(r.get("optionalOldSelf"), bool) else None,
        )
        for r in rules
    )


def _additional(value: Any) -> Node | bool | None:
    if isinstance(value, dict):
        return build(value)
    return value if isinstance(value, bool) else None


def build(schema: Json) -> Node:
    int_or_string = schema.get("x-kubernetes-int-or-string") is True
    declared = _text(schema.get("type"))
    types: tuple[str, ...] = ("integer", "string") if int_or_string else ((declared,) if declared else ())
    raw_format = _text(schema.get("format"))
    properties = schema.get("properties")
    items = schema.get("items")
    forbidden = schema.get("not")
    enum = schema.get("enum")
    return Node(
        types=types,
        nullable=schema.get("nullable") is True,
        format=raw_format if formats.known(types[0] if len(types) == 1 else "", raw_format) else "",
        enum=tuple(enum) if isinstance(enum, list) else (),
        maximum=_number(schema.get("maximum")),
        minimum=_number(schema.get("minimum")),
        exclusive_maximum=schema.get("exclusiveMaximum") is True,
        exclusive_minimum=schema.get("exclusiveMinimum") is True,
        multiple_of=_number(schema.get("multipleOf")),
        max_length=_count(schema.get("maxLength")),
        min_length=_count(schema.get("minLength")),
        pattern=_text(schema.get("pattern")),
        max_items=_count(schema.get("maxItems")),
        min_items=_count(schema.get("minItems")),
        max_properties=_count(schema.get("maxProperties")),
        min_properties=_count(schema.get("minProperties")),
        required=_texts(schema.get("required")),
        properties={k: build(v) for k, v in properties.items() if isinstance(v, dict)}
        if isinstance(properties, dict)
        else {},
        additional=_additional(schema.get("additionalProperties")),
        items=build(items) if isinstance(items, dict) else None,
        all_of=_nodes(schema.get("allOf")),
        any_of=_nodes(schema.get("anyOf")),
        one_of=_nodes(schema.get("oneOf")),
        not_=build(forbidden) if isinstance(forbidden, dict) else None,
        default=schema.get("default"),
        preserve=schema.get("x-kubernetes-preserve-unknown-fields") is True,
        int_or_string=int_or_string,
        list_type=_text(schema.get("x-kubernetes-list-type")),
        list_map_keys=_texts(schema.get("x-kubernetes-list-map-keys")),
        rules=_rules(schema.get("x-kubernetes-validations")),
    )
