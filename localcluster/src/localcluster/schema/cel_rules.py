"""x-kubernetes-validations: the rules of a schema over an object and its old self.

Mirrors apiextensions' schema/cel/validation.go (v0.36), without its cost budgets. Rules are compiled once a schema.
Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from localcluster.schema.causes import NO_PATH, OMITTED, FieldCause, duplicate, forbidden, invalid, required
from localcluster.schema.cel_program import CelCompileError, CelProgram, CelRuntimeError, optional_of
from localcluster.schema.cel_values import is_declared, to_cel, with_type_and_metadata
from localcluster.schema.correlate import map_key, old_items
from localcluster.schema.field_path import FieldPathError, normalize_field_path
from localcluster.schema.node import Rule, SchemaNode

_MAX_MESSAGE_BYTES: Final = 5 * 1024


@dataclass(frozen=True, slots=True)
class CompiledRule:
    rule: Rule
    program: CelProgram | None
    message: CelProgram | None
    error: str = ""
    message_error: str = ""
    field_path: str = ""

    @property
    def uses_old_self(self) -> bool:
        return self.program is not None and self.program.uses_old_self


def compile_rule(rule: Rule, node: SchemaNode, typed: SchemaNode) -> CompiledRule:
    program: CelProgram | None = None
    message: CelProgram | None = None
    error = message_error = field_path = ""
    if not rule.rule.strip():
        return CompiledRule(rule, None, None)
    try:
        program = CelProgram(rule.rule, typed)
    except CelCompileError as problem:
        return CompiledRule(rule, None, None, error=f"compilation failed: {problem}")
    if rule.message_expression:
        try:
            message = CelProgram(rule.message_expression, typed)
        except CelCompileError as problem:
            message_error = f"messageExpression compilation failed: {problem}"
    if rule.field_path:
        try:
            field_path = normalize_field_path(rule.field_path, node)
        except FieldPathError:
            field_path = ""
    return CompiledRule(rule, program, message, error, message_error, field_path)


@dataclass(frozen=True, slots=True)
class RuleTree:
    """The part of a schema that has rules, at it or below it."""

    node: SchemaNode
    typed: SchemaNode
    rules: tuple[CompiledRule, ...]
    properties: Mapping[str, RuleTree]
    additional: RuleTree | None
    items: RuleTree | None


def build_rules(node: SchemaNode | None, *, resource_root: bool) -> RuleTree | None:
    """None where no rule is."""
    if node is None or not (is_declared(node) or resource_root):
        return None
    typed = with_type_and_metadata(node) if resource_root else node
    properties = {}
    for key, child in node.properties.items():
        tree = build_rules(child, resource_root=False)
        if tree is not None:
            properties[key] = tree
    additional = build_rules(node.additional_node, resource_root=False)
    items = build_rules(node.items, resource_root=False)
    rules = tuple(compile_rule(rule, node, typed) for rule in node.rules)
    return (
        RuleTree(node, typed, rules, properties, additional, items)
        if rules or properties or additional or items
        else None
    )


def run_rules(tree: RuleTree, value: Any, old: Any, path: str = "") -> list[FieldCause]:
    """`old` is None on create. A rule about oldSelf runs where there is an old self to compare with, or where it says
    that it can do without."""
    if value is None:
        return []
    causes = _run_rules(tree, value, old, path) if tree.rules else []
    if isinstance(value, list) and tree.items is not None:
        before = old_items(tree.node, old)
        for index, item in enumerate(value):
            # Only items of a list-map have a previous value: without keys, items of two writes cannot be matched.
            key = map_key(item, tree.node) if before else None
            causes += run_rules(tree.items, item, None if key is None else before.get(key), f"{path}[{index}]")
    elif isinstance(value, dict):
        olds = old if isinstance(old, dict) else {}
        for key, child in value.items() if tree.additional is not None else ():
            causes += run_rules(tree.additional, child, olds.get(key), f"{path}[{key}]") if tree.additional else []
        for key, child in value.items():
            if key in tree.properties:
                causes += run_rules(tree.properties[key], child, olds.get(key), f"{path}.{key}" if path else key)
    return causes


def _run_rules(tree: RuleTree, value: Any, old: Any, path: str) -> list[FieldCause]:
    causes: list[FieldCause] = []
    place = path or NO_PATH
    type_name = tree.node.type
    self_value = to_cel(value, tree.typed)
    old_value = None if old is None else to_cel(old, tree.typed)
    for compiled in tree.rules:
        rule = compiled.rule
        if compiled.error:
            causes.append(invalid(place, type_name, f"rule compile error: {compiled.error}"))
            continue
        # A transition rule does not apply to a new object or field.
        if compiled.program is None or (compiled.uses_old_self and old is None and not rule.optional_old_self):
            continue
        variables = {"self": self_value}
        if compiled.uses_old_self:
            variables["oldSelf"] = optional_of(old_value) if rule.optional_old_self else old_value
        try:
            if compiled.program.run(variables) is True:
                continue
        except CelRuntimeError as error:
            causes.append(invalid(place, type_name, _runtime_text(str(error), rule)))
            continue
        where = ".".join(part for part in (path, compiled.field_path) if part) or NO_PATH
        # The API server leaves objects and lists out of the cause, which may be large.
        shown = OMITTED if type_name in ("object", "array") else value
        causes.append(_make_cause(where, shown, _render_message(compiled, variables), rule.reason))
    return causes


def _runtime_text(error: str, rule: Rule) -> str:
    name = (rule.message or rule.rule).strip()
    if error.startswith("no such overload"):
        return (
            f"'{error}': call arguments did not match a supported operator, function or macro signature for rule:"
            f" {name}"
        )
    return f"{error} evaluating rule: {name}"


def _render_message(compiled: CompiledRule, variables: dict[str, Any]) -> str:
    if compiled.message is not None:
        try:
            text = compiled.message.run(variables)
        except CelRuntimeError:
            text = None
        trimmed = text.strip() if isinstance(text, str) else ""
        # A messageExpression that fails, or gives several lines or too many, falls back to the message.
        if trimmed and "\n" not in trimmed and len(trimmed.encode("utf-8", "replace")) <= _MAX_MESSAGE_BYTES:
            return trimmed
    rule = compiled.rule
    return rule.message.strip() if rule.message else f"failed rule: {rule.rule.strip()}"


def _make_cause(place: str, value: Any, detail: str, reason: str) -> FieldCause:
    if reason == "FieldValueForbidden":
        return forbidden(place, detail)
    if reason == "FieldValueRequired":
        return required(place, detail)
    if reason == "FieldValueDuplicate":
        return duplicate(place, value)
    return invalid(place, value, detail)
