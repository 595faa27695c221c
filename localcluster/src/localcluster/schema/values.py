"""Types, bounds, formats and junctors: what a value must be.

Mirrors k8s.io/kube-openapi/pkg/validation/validate with apiextensions' validation.go (v0.36). Where no branch of an
anyOf or oneOf holds, the errors of the branch with the fewest are shown. (Go counts the checks that each branch
passes.) Pure; never raises, whatever the JSON.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from localcluster.schema import causes as c
from localcluster.schema import formats
from localcluster.schema.correlate import same
from localcluster.schema.gotext import INT64_MAX, INT64_MIN, go_float, go_json, go_quote
from localcluster.schema.node import SchemaNode
from localcluster.schema.pattern import PatternError, compile_pattern

_MAX_JSON_INTEGER: Final = float(2**53 - 1)
_FLOAT32_MAX: Final = 3.4028234663852886e38


Errors = dict[str, c.FieldCause]
"""By their own text: each once, in order."""


def _type_name(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "string"
    if isinstance(value, int):
        return "integer" if INT64_MIN <= value <= INT64_MAX else "number"
    if isinstance(value, float):
        return "number"
    return "array" if isinstance(value, list) else "object"


def _is_whole(value: float) -> bool:
    """swag.IsFloat64AJSONInteger."""
    if not math.isfinite(value) or abs(value) > _MAX_JSON_INTEGER:
        return False
    nearest = float(math.trunc(value))
    return value == nearest or (nearest != 0 and abs(value - nearest) / (abs(value) + abs(nearest)) < 1e-9)


def _finite(value: float) -> float:
    """A JSON integer beyond int64 is a float64 to Go."""
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _is_allowed(value: Any, one: Any) -> bool:
    """Is `value` this member of an enum? Go converts it to the member's type first, which cuts a fraction off."""
    if isinstance(value, float) and isinstance(one, int) and not isinstance(one, bool) and math.isfinite(value):
        return math.trunc(value) == one
    return same(value, one)


class ValueValidator:
    """`base` is the field that the whole value belongs to (`status` for the status subresource, else empty)."""

    def __init__(self, base: str = "") -> None:
        self._base = base

    def validate(self, value: Any, node: SchemaNode) -> list[c.FieldCause]:
        return list(self._validate_node(value, node, "").values())

    def _field_name(self, path: str) -> str:
        name = path.removeprefix(".")
        return ".".join(part for part in (self._base, name) if part) or c.NO_PATH

    def _fail(self, result: Errors, path: str, build: Callable[..., c.FieldCause], value: Any, text: str) -> None:
        result.setdefault(text, build(self._field_name(path), value, text))

    def _add_plain(self, result: Errors, text: str) -> None:
        result.setdefault(text, c.invalid(self._base or c.NO_PATH, "", text))

    def _validate_node(self, value: Any, node: SchemaNode, path: str) -> Errors:
        result: Errors = {}
        if value is None:
            self._validate_null(result, node, path)
            return result
        kind = _type_name(value)
        if node.types or node.format:
            self._validate_type(result, value, kind, node, path)
        if node.any_of or node.one_of or node.all_of or node.not_ is not None:
            result.update(self._validate_junctors(value, node, path))
        if kind == "string":
            self._validate_string(result, value, node, path)
            check = formats.FORMATS.get(formats.normalize_name(node.format)) if node.format else None
            if check is not None and not check(value):
                text = f"{path} in body must be of type {node.format}: {go_quote(value)}"
                self._fail(result, path, c.type_invalid, value, text)
        elif kind in ("integer", "number"):
            self._validate_number(result, value if kind == "integer" else _finite(value), node, path)
        elif kind == "array":
            self._validate_array(result, value, node, path)
        if node.enum and not any(_is_allowed(value, one) for one in node.enum):
            self._validate_enum(result, value, node, path)
        if kind == "object":
            self._validate_object(result, value, node, path)
        return result

    def _validate_null(self, result: Errors, node: SchemaNode, path: str) -> None:
        if node.types and "null" not in node.types and not node.nullable:
            self._fail(
                result, path, c.type_invalid, "null", f'{path} in body must be of type {",".join(node.types)}: "null"'
            )
        if node.enum:
            self._validate_enum(result, None, node, path)

    def _validate_enum(self, result: Errors, value: Any, node: SchemaNode, path: str) -> None:
        result.setdefault(
            f"{path} in body should be one of {go_json(list(node.enum))}",
            c.not_supported(self._field_name(path), value, node.enum),
        )

    def _validate_type(self, result: Errors, value: Any, kind: str, node: SchemaNode, path: str) -> None:
        types = node.types
        # JSON does not distinguish 1.0 from 1: a number without a fraction is an integer.
        float_as_int = kind == "number" and "integer" in types and _is_whole(_finite(value))
        matching = kind in types or float_as_int or (kind == "integer" and "number" in types)
        if node.format and kind not in ("string", "array"):
            inferred = {"integer": "int64", "number": "float64"}.get(kind, "")
            if not matching and inferred != node.format:
                self._fail(
                    result,
                    path,
                    c.type_invalid,
                    inferred,
                    f'{path} in body must be of type {node.format}: "{inferred}"',
                )
                return
        # A string with a format is checked by the format alone, unless a number was declared.
        if node.format and kind in ("string", "array") and not {"number", "integer"} & set(types):
            return
        if not matching:
            self._fail(
                result, path, c.type_invalid, kind, f'{path} in body must be of type {",".join(types)}: "{kind}"'
            )

    def _validate_string(self, result: Errors, value: str, node: SchemaNode, path: str) -> None:
        if node.max_length is not None and len(value) > node.max_length:
            result.setdefault(
                f"{path} in body should be at most {node.max_length} chars long",
                c.too_long(self._field_name(path), node.max_length),
            )
        elif node.min_length is not None and len(value) < node.min_length:
            self._fail(
                result, path, c.invalid, value, f"{path} in body should be at least {node.min_length} chars long"
            )
        elif node.pattern:
            try:
                if compile_pattern(node.pattern).search(value) is None:
                    self._fail(result, path, c.invalid, value, f"{path} in body should match '{node.pattern}'")
            except PatternError as error:
                self._fail(
                    result,
                    path,
                    c.invalid,
                    value,
                    f"{path} in body should match '{node.pattern}, but pattern is invalid: {error}'",
                )

    def _in_range(self, result: Errors, value: float, node: SchemaNode, prefix: str, path: str) -> bool:
        """May the number be held by the declared type and format?"""
        declared = node.type
        number_format = node.format if declared in ("integer", "number") else ""
        fits = True
        if declared == "integer":
            limit = 2**31 if number_format == "int32" else 2**63
            fits = (
                math.isfinite(value) and float(value).is_integer() and -limit <= value < limit
                if isinstance(value, float)
                else -limit <= value < limit
            )
        elif number_format == "float":
            fits = abs(value) <= _FLOAT32_MAX
        if not fits:
            shape = f"with format {number_format}" if number_format else "(default format)"
            self._add_plain(result, f"{prefix} value must be of type {declared} {shape} in {path}")
        return fits

    def _validate_number(self, result: Errors, value: float, node: SchemaNode, path: str) -> None:
        self._in_range(result, value, node, "Checked", path)
        native = isinstance(value, int)
        if (factor := node.multiple_of) is not None:
            whole = native and self._in_range(result, factor, node, "MultipleOf", path)
            self._validate_multiple(result, value, int(factor) if whole else float(factor), path)
        if (bound := node.maximum) is not None:
            bound = self._check_bound(result, bound, node, "Maximum boundary", path, native=native)
            if value >= bound if node.exclusive_maximum else value > bound:
                words = "less than" if node.exclusive_maximum else "less than or equal to"
                self._fail(result, path, c.invalid, value, f"{path} in body should be {words} {_go_number(bound)}")
        if (bound := node.minimum) is not None:
            bound = self._check_bound(result, bound, node, "Minimum boundary", path, native=native)
            if value <= bound if node.exclusive_minimum else value < bound:
                words = "greater than" if node.exclusive_minimum else "greater than or equal to"
                self._fail(result, path, c.invalid, value, f"{path} in body should be {words} {_go_number(bound)}")

    def _check_bound(
        self, result: Errors, bound: float, node: SchemaNode, prefix: str, path: str, *, native: bool
    ) -> float:
        """An integer is compared with the bound cut to an integer, when the bound is one of its type."""
        fits = self._in_range(result, bound, node, prefix, path)
        return math.trunc(bound) if native and fits and math.isfinite(bound) else float(bound)

    def _validate_multiple(self, result: Errors, value: float, factor: float, path: str) -> None:
        if factor <= 0:
            self._fail(
                result,
                path,
                c.invalid,
                factor,
                f"factor MultipleOf declared for {path} must be positive: {_go_number(factor)}",
            )
        elif isinstance(factor, int):
            if value % factor:
                self._fail(result, path, c.invalid, value, f"{path} in body should be a multiple of {factor}")
        elif not _is_whole(1 / factor * value if factor < 1 else value / factor):
            self._fail(result, path, c.invalid, value, f"{path} in body should be a multiple of {_go_number(factor)}")

    def _validate_array(self, result: Errors, value: list[Any], node: SchemaNode, path: str) -> None:
        size = len(value)
        if node.items is not None:
            for index, item in enumerate(value):
                result.update(self._validate_node(item, node.items, f"{path}[{index}]"))
        if node.min_items is not None and size < node.min_items:
            self._fail(result, path, c.invalid, size, f"{path} in body should have at least {node.min_items} items")
        if node.max_items is not None and size > node.max_items:
            result.setdefault(
                f"{path} in body should have at most {node.max_items} items",
                c.too_many(self._field_name(path), size, node.max_items),
            )

    def _validate_object(self, result: Errors, value: dict[str, Any], node: SchemaNode, path: str) -> None:
        self._property_count(result, len(value), node, path)
        for key, child in value.items() if node.additional is not None else ():
            # additionalProperties is for the fields that properties does not name.
            if key in node.properties:
                continue
            if isinstance(node.additional, SchemaNode):
                result.update(self._validate_node(child, node.additional, f"{path}.{key}"))
            elif node.additional is False:
                self._fail(result, path, c.invalid, key, f"{path}.{key} in body is a forbidden property")
        for key, schema in node.properties.items():
            if key in value:
                child_path = f"{path}.{key}" if path else key
                result.update(self._validate_node(value[key], schema, child_path))
        for key in node.required:
            if key not in value:
                result.setdefault(f"{path}.{key} in body is required", c.required(self._field_name(f"{path}.{key}")))

    def _property_count(self, result: Errors, size: int, node: SchemaNode, path: str) -> None:
        least, most = node.min_properties, node.max_properties
        if least is not None and size < least:
            self._fail(result, path, c.invalid, size, f"{path} in body should have at least {least} properties")
        if most is not None and size > most:
            text = f"{path} in body should have at most {most} properties"
            result.setdefault(text, c.too_many(self._field_name(path), size, most))

    def _validate_junctors(self, value: Any, node: SchemaNode, path: str) -> Errors:
        result: Errors = {}
        if node.any_of:
            self._any_of(result, value, node, path)
        if node.one_of:
            self._one_of(result, value, node, path)
        if node.all_of:
            branches = [self._validate_node(value, branch, path) for branch in node.all_of]
            for branch in branches:
                result.update(branch)
            if any(branches):
                none = "" if not all(branches) else ". None validated"
                self._add_plain(result, f"{go_quote(path)} must validate all the schemas (allOf){none}")
        if node.not_ is not None and not self._validate_node(value, node.not_, path):
            self._add_plain(result, f"{go_quote(path)} must not validate the schema (not)")
        return result

    def _any_of(self, result: Errors, value: Any, node: SchemaNode, path: str) -> None:
        branches = [self._validate_node(value, schema, path) for schema in node.any_of]
        if all(branches):
            self._add_plain(result, f"{go_quote(path)} must validate at least one schema (anyOf)")
            result.update(_fewest_errors(branches))

    def _one_of(self, result: Errors, value: Any, node: SchemaNode, path: str) -> None:
        branches = [self._validate_node(value, schema, path) for schema in node.one_of]
        valid = sum(not branch for branch in branches)
        if valid == 1:
            return
        found = f"Found {valid} valid alternatives" if valid else "Found none valid"
        self._add_plain(result, f"{go_quote(path)} must validate one and only one schema (oneOf). {found}")
        # A branch that fails after one has succeeded is not shown: Go keeps only failures seen before any success, and
        # forgets them at the first one.
        if not valid:
            result.update(_fewest_errors(branches))


def _fewest_errors(branches: list[Errors]) -> Errors:
    return min(branches, key=len)


def _go_number(value: float) -> str:
    return str(value) if isinstance(value, int) else go_float(value)
