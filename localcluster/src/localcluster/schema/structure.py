"""Can the objects of this schema be checked? Known types, patterns and CEL rules that compile.

Of apiextensions' schema/validation.go (v0.36) only that: kube-apiserver refuses more, such as schemas that are not
structural and defaults that are not valid. Pure.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from localcluster.schema import causes as c
from localcluster.schema.cel_rules import compile_rule
from localcluster.schema.cel_values import is_declared, with_type_and_metadata
from localcluster.schema.gotext import GoStruct
from localcluster.schema.node import SchemaNode, build
from localcluster.schema.pattern import PatternError, compile_pattern
from localcluster.schema.prune import prune_value
from localcluster.wire import Json

_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")


def prune_defaults(node: SchemaNode) -> SchemaNode:
    """Defaults as they are applied: without what the schema itself would prune."""
    default = node.default
    # A default is written into objects after they were pruned.
    if isinstance(default, dict | list):
        default = copy.deepcopy(default)
        prune_value(default, node)
    additional = node.additional
    return replace(
        node,
        default=default,
        properties={key: prune_defaults(child) for key, child in node.properties.items()},
        items=prune_defaults(node.items) if node.items else None,
        additional=prune_defaults(additional) if isinstance(additional, SchemaNode) else additional,
    )


def check_schema(schema: Json, path: str) -> list[c.FieldCause]:
    node = build(schema)
    if node.type != "object":
        return [c.invalid(f"{path}.type", node.type, "must be object at the root")]
    return list(_check_values(node, path)) or list(_check_rules(node, path, uncorrelated="", resource_root=True))


def _check_values(node: SchemaNode, path: str) -> Iterator[c.FieldCause]:
    if node.type and node.type not in _TYPES:
        yield c.not_supported(f"{path}.type", node.type, _TYPES)
    try:
        compile_pattern(node.pattern)
    except PatternError as error:
        yield c.invalid(f"{path}.pattern", node.pattern, f"must be a valid regular expression, but isn't: {error}")
    for name, child in node.properties.items():
        yield from _check_values(child, f"{path}.properties[{name}]")
    for part, below in (("items", node.items), ("additionalProperties", node.additional_node), ("not", node.not_)):
        if below is not None:
            yield from _check_values(below, f"{path}.{part}")
    for part, branches in (("allOf", node.all_of), ("anyOf", node.any_of), ("oneOf", node.one_of)):
        for index, branch in enumerate(branches):
            yield from _check_values(branch, f"{path}.{part}[{index}]")


def _check_rules(node: SchemaNode, path: str, *, uncorrelated: str, resource_root: bool) -> Iterator[c.FieldCause]:
    """CEL rules compile, and use oldSelf only where there is one to find."""
    typed = with_type_and_metadata(node) if resource_root else node
    for index, rule in enumerate(node.rules):
        place = f"{path}.x-kubernetes-validations[{index}]"
        compiled = compile_rule(rule, node, typed)
        shown = GoStruct(
            Rule=rule.rule,
            Message=rule.message,
            MessageExpression=rule.message_expression,
            Reason=rule.reason or None,
            FieldPath=rule.field_path,
            OptionalOldSelf=rule.optional_old_self,
        )
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
        yield from _check_rules(
            node.additional_node, f"{path}.additionalProperties", uncorrelated=uncorrelated, resource_root=False
        )
    for name, child in node.properties.items():
        if is_declared(child):
            yield from _check_rules(child, f"{path}.properties[{name}]", uncorrelated=uncorrelated, resource_root=False)
    if node.items is not None:
        # Items of a plain list have no identity: an update cannot say which old item a new one was.
        lost = uncorrelated if node.list_type == "map" else (uncorrelated or path)
        yield from _check_rules(node.items, f"{path}.items", uncorrelated=lost, resource_root=False)
