"""Is this a schema that a CRD may have? Structural, with sound defaults and rules that compile.

Mirrors apiextensions' schema/validation.go, schema/complete.go, schema/defaulting/validation.go and
ValidateCustomResourceDefinitionOpenAPISchema (v0.36), without the cost estimates of rules. Pure.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from localcluster.schema import causes as c
from localcluster.schema.cel_rules import build_rules, compile_rule, run_rules
from localcluster.schema.cel_values import declared, with_type_and_metadata
from localcluster.schema.correlate import same
from localcluster.schema.embedded import validate_embedded
from localcluster.schema.gotext import GoStruct
from localcluster.schema.keywords import check_keywords
from localcluster.schema.node import Node, Rule, build
from localcluster.schema.pattern import PatternError, compile_pattern
from localcluster.schema.prune import META, prune_embedded_metadata, prune_value
from localcluster.schema.values import ValueValidator

Json = dict[str, Any]
_INT_OR_STRING: Final = [{"type": "integer"}, {"type": "string"}]
_NOT_NESTED: Final = (
    ("type", "must be empty to be structural"),
    ("additionalProperties", "must be undefined to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
    ("x-kubernetes-embedded-resource", "must be false to be structural"),
    ("x-kubernetes-int-or-string", "must be false to be structural"),
    ("x-kubernetes-list-map-keys", "must be empty to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
    ("x-kubernetes-validations", "must be empty to be structural"),
)
_NO_TYPE: Final = {
    "root": "must not be empty at the root",
    "item": "must not be empty for specified array items",
    "field": "must not be empty for specified object fields",
}


def prune_defaults(node: Node) -> Node:
    """Defaults as they are applied: without what the schema itself would prune."""
    default = node.default
    if isinstance(default, dict | list):
        default = copy.deepcopy(default)
        prune_value(default, node)
        prune_embedded_metadata(default, node, "")
    additional = node.additional
    return replace(
        node,
        default=default,
        properties={key: prune_defaults(child) for key, child in node.properties.items()},
        items=prune_defaults(node.items) if node.items else None,
        additional=prune_defaults(additional) if isinstance(additional, Node) else additional,
    )


def check_schema(schema: Json, path: str, *, status_subresource: bool) -> list[c.FieldCause]:
    found: list[c.FieldCause] = []
    if status_subresource and schema.get("type") != "object":
        found.append(
            c.invalid(
                f"{path}.type",
                schema.get("type") or "",
                'only "object" is allowed as the type at the root of the schema if the status subresource is enabled',
            )
        )
    if schema.get("nullable") is True:
        found.append(c.forbidden(f"{path}.nullable", "nullable cannot be true at the root"))
    structural = sorted([*_invariants(schema, "root", path), *_complete(schema, schema, path, path)], key=str)
    sound = not structural
    found += structural
    if sound:
        defaults = list(_defaults(replace(build(schema), embedded=True), path))
        sound = not defaults
        found += defaults
    keywords = list(check_keywords(schema, path))
    found += keywords
    if sound and not keywords:
        found += _rules(build(schema), path, uncorrelated="", resource_root=True)
    return found


def _schemas(value: Any) -> list[Json]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _properties(schema: Json) -> dict[str, Json]:
    properties = schema.get("properties")
    return {k: v for k, v in properties.items() if isinstance(v, dict)} if isinstance(properties, dict) else {}


def _branches(schema: Json, path: str) -> Iterator[tuple[Json, str]]:
    for name in ("anyOf", "allOf", "oneOf"):
        for index, branch in enumerate(_schemas(schema.get(name))):
            yield branch, f"{path}.{name}[{index}]"
    if isinstance(schema.get("not"), dict):
        yield schema["not"], f"{path}.not"


def _invariants(schema: Json, level: str, path: str) -> Iterator[c.FieldCause]:
    """validateStructuralInvariants: what the structural part of a schema must look like."""
    kind = schema.get("type") or ""
    embedded = schema.get("x-kubernetes-embedded-resource") is True
    preserve = schema.get("x-kubernetes-preserve-unknown-fields") is True
    int_or_string = schema.get("x-kubernetes-int-or-string") is True
    additional = schema.get("additionalProperties")
    properties = _properties(schema)
    items = schema.get("items")
    if kind == "array" and not isinstance(items, dict):
        yield c.required(f"{path}.items", "must be specified")
    if isinstance(items, dict):
        yield from _invariants(items, "item", f"{path}.items")
    for name, child in properties.items():
        if not (level == "root" and name == "metadata"):
            yield from _invariants(child, "field", f"{path}.properties[{name}]")
    if additional is not None and level == "root":
        yield c.forbidden(f"{path}.additionalProperties", "must not be used at the root")
    if isinstance(additional, dict):
        yield from _invariants(additional, "field", f"{path}.additionalProperties")
    for name, present in (("preserve-unknown-fields", preserve), ("embedded-resource", embedded)):
        if int_or_string and present:
            yield c.invalid(f"{path}.x-kubernetes-{name}", True, "must be false if x-kubernetes-int-or-string is true")
    yield from _value_validation(schema, path, skip_any_of=schema.get("anyOf") == _INT_OR_STRING)
    yield from _type(kind, level, path, embedded=embedded, untyped_allowed=int_or_string or preserve)
    if embedded and additional is not None:
        yield c.forbidden(f"{path}.additionalProperties", "must not be used if x-kubernetes-embedded-resource is set")
    if level == "root" or embedded:
        yield from _resource_fields(properties, level, path)
    if embedded and not preserve and not properties:
        yield c.required(
            f"{path}.properties",
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields",
        )


def _type(kind: Any, level: str, path: str, *, embedded: bool, untyped_allowed: bool) -> Iterator[c.FieldCause]:
    if embedded and kind != "object":
        detail = "must be object if x-kubernetes-embedded-resource is true"
        yield c.invalid(f"{path}.type", kind, detail) if kind else c.required(f"{path}.type", detail)
    elif not kind and not untyped_allowed:
        yield c.required(f"{path}.type", _NO_TYPE[level])
    if level == "root" and kind and kind != "object":
        yield c.invalid(f"{path}.type", kind, "must be object at the root")


def _resource_fields(properties: dict[str, Json], level: str, path: str) -> Iterator[c.FieldCause]:
    for name in ("kind", "apiVersion"):
        if name in properties and properties[name].get("type") != "string":
            yield c.invalid(f"{path}.properties[{name}].type", properties[name].get("type") or "", "must be string")
    metadata = properties.get("metadata")
    if metadata is None:
        return
    place = f"{path}.properties[metadata]"
    if metadata.get("type") != "object":
        yield c.invalid(f"{place}.type", metadata.get("type") or "", "must be object")
    rest = {k: v for k, v in metadata.items() if k not in ("type", "default") and v not in (None, False, [], {}, "")}
    if set(_properties(metadata)) <= {"name", "generateName"}:
        rest.pop("properties", None)
    if level == "root" and rest:
        yield c.forbidden(
            place, "must not specify anything other than name and generateName, but metadata is implicitly specified"
        )


def _value_validation(schema: Json, path: str, *, skip_any_of: bool) -> Iterator[c.FieldCause]:
    skip_first = bool(_schemas(schema.get("allOf"))) and _schemas(schema["allOf"])[0].get("anyOf") == _INT_OR_STRING
    for branch, place in _branches(schema, path):
        if not (skip_any_of and ".anyOf[" in place[len(path) :]):
            yield from _nested(branch, place, skip_any_of=skip_first and place == f"{path}.allOf[0]")
    pattern = schema.get("pattern")
    if isinstance(pattern, str) and pattern:
        try:
            compile_pattern(pattern)
        except PatternError as error:
            yield c.invalid(f"{path}.pattern", pattern, f"must be a valid regular expression, but isn't: {error}")


def _nested(schema: Json, path: str, *, skip_any_of: bool = False) -> Iterator[c.FieldCause]:
    """validateNestedValueValidation: under a junctor only value validations may stand."""
    yield from _value_validation(schema, path, skip_any_of=skip_any_of)
    if isinstance(schema.get("items"), dict):
        yield from _nested(schema["items"], f"{path}.items")
    for name, child in _properties(schema).items():
        yield from _nested(child, f"{path}.properties[{name}]")
    for name, detail in _NOT_NESTED:
        if schema.get(name) not in (None, "", False, []):
            yield c.forbidden(f"{path}.{name}", detail)
    if "metadata" in _properties(schema):
        yield c.forbidden(f"{path}.properties[metadata]", "must not be specified in a nested context")


def _complete(nested: Json, schema: Json | None, schema_path: str, path: str) -> Iterator[c.FieldCause]:
    """validateStructuralCompleteness: a junctor speaks only of fields that the structural part has."""
    for branch, place in _branches(nested, path):
        yield from _counterpart(branch, schema, schema_path, place)


def _counterpart(nested: Json, schema: Json | None, schema_path: str, path: str) -> Iterator[c.FieldCause]:
    if schema is None:
        yield c.required(schema_path, f"because it is defined in {path}")
        return
    yield from _complete(nested, schema, schema_path, path)
    if isinstance(nested.get("items"), dict):
        items = schema.get("items")
        yield from _counterpart(
            nested["items"], items if isinstance(items, dict) else None, f"{schema_path}.items", f"{path}.items"
        )
    known = _properties(schema)
    for name, child in _properties(nested).items():
        place = f"{path}.properties[{name}]"
        if name not in known:
            yield c.required(f"{schema_path}.properties[{name}]", f"because it is defined in {place}")
        else:
            yield from _counterpart(child, known[name], f"{schema_path}.properties[{name}]", place)


def _defaults(node: Node, path: str) -> Iterator[c.FieldCause]:
    """ValidateDefaults: a default is pruned, valid, and meets the rules of its place."""
    if node.default is not None:
        yield from _default(node, f"{path}.default")
    if node.items is not None:
        yield from _defaults(node.items, f"{path}.items")
    for name, child in node.properties.items():
        if not (node.embedded and name in META):
            yield from _defaults(child, f"{path}.properties[{name}]")


def _default(node: Node, path: str) -> Iterator[c.FieldCause]:
    pruned = copy.deepcopy(node.default)
    prune_value(pruned, node)
    if not same(pruned, node.default):
        yield c.invalid(path, node.default, "must not have unknown fields")
    errors = validate_embedded(node.default, node, path) or ValueValidator(path).validate(node.default, node)
    tree = build_rules(node, resource_root=False)
    if not errors and tree is not None:
        errors = run_rules(tree, node.default, node.default, None) or run_rules(tree, node.default, None, None)
        errors = [
            replace(error, field=path if error.field == c.NO_PATH else f"{path}.{error.field}") for error in errors
        ]
    yield from errors


def _rule_struct(rule: Rule) -> GoStruct:
    """A rule as the API server shows it: its internal Go struct."""
    return GoStruct(
        Rule=rule.rule,
        Message=rule.message,
        MessageExpression=rule.message_expression,
        Reason=rule.reason or None,
        FieldPath=rule.field_path,
        OptionalOldSelf=rule.optional_old_self,
    )


def _rules(node: Node, path: str, *, uncorrelated: str, resource_root: bool) -> Iterator[c.FieldCause]:
    """CEL rules compile, and use oldSelf only where there is one to find."""
    typed = with_type_and_metadata(node) if resource_root or node.embedded else node
    for index, rule in enumerate(node.rules):
        place = f"{path}.x-kubernetes-validations[{index}]"
        compiled = compile_rule(rule, node, typed)
        shown = _rule_struct(rule)
        if compiled.error:
            yield c.invalid(f"{place}.rule", shown, compiled.error)
        if compiled.message_error:
            yield c.invalid(f"{place}.messageExpression", shown, compiled.message_error)
        if compiled.uses_old_self:
            if uncorrelated:
                yield c.invalid(
                    f"{place}.rule",
                    rule.rule,
                    f"oldSelf cannot be used on the uncorrelatable portion of the schema within {uncorrelated}",
                )
        elif rule.optional_old_self is not None:
            yield c.invalid(
                f"{place}.optionalOldSelf", rule.optional_old_self, "may not be set if oldSelf is not used in rule"
            )
    if node.additional_node is not None:
        yield from _rules(
            node.additional_node, f"{path}.additionalProperties", uncorrelated=uncorrelated, resource_root=False
        )
    for name, child in node.properties.items():
        if declared(child):
            yield from _rules(child, f"{path}.properties[{name}]", uncorrelated=uncorrelated, resource_root=False)
    if node.items is not None:
        lost = uncorrelated if node.list_type == "map" else (uncorrelated or path)
        yield from _rules(node.items, f"{path}.items", uncorrelated=lost, resource_root=False)
