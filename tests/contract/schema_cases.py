"""What kube-apiserver 1.36 says about custom resources and about schemas: cases as data.

Each `want` is what k8s.io/apiextensions-apiserver v0.36.3 itself answers (its validators were run on these inputs), so that any
implementation can be held to it. `reason`, `message` and `field` are those of `details.causes` of a 422 Status. Most schemas
are written for `spec` alone; `whole_object` ones are for the root. Nothing here imports an implementation.
"""

# ruff: noqa: E501 - messages stand as they are printed

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]
Cause = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class SchemaCase:
    """An object, or an update from `old`, against the schema of its spec."""

    schema: Json
    value: Any
    want: tuple[Cause, ...] = ()
    old: Any = None
    whole_object: bool = False

    def full_schema(self) -> Json:
        return self.schema if self.whole_object else {"type": "object", "properties": {"spec": self.schema}}

    def object(self) -> Json:
        return self._wrapped(self.value)

    def old_object(self) -> Json | None:
        return None if self.old is None else self._wrapped(self.old)

    def _wrapped(self, value: Any) -> Json:
        head: Json = {"apiVersion": "example.com/v1", "kind": "Foo"}
        return {**head, **value} if self.whole_object else {**head, "metadata": {"name": "a"}, "spec": value}


@dataclass(frozen=True, slots=True)
class CheckCase:
    """A schema, as a CRD with one version has it, and what is wrong with it. Its path in the CRD is PATH."""

    schema: Json
    want: tuple[Cause, ...] = ()


INT: Json = {"type": "integer"}
STR: Json = {"type": "string"}
NUM: Json = {"type": "number"}
BOOL: Json = {"type": "boolean"}

PATH = "spec.validation.openAPIV3Schema"

SCHEMA_CASES: dict[str, SchemaCase] = {
    "a string where an integer belongs": SchemaCase(
        schema={"type": "object", "properties": {"replicas": INT}},
        value={"replicas": "3"},
        want=(
            (
                "FieldValueTypeInvalid",
                'Invalid value: "string": spec.replicas in body must be of type integer: "string"',
                "spec.replicas",
            ),
        ),
    ),
    "an integer where a string belongs": SchemaCase(
        schema={"type": "object", "properties": {"name": STR}},
        value={"name": 3},
        want=(
            (
                "FieldValueTypeInvalid",
                'Invalid value: "integer": spec.name in body must be of type string: "integer"',
                "spec.name",
            ),
        ),
    ),
    "a boolean where an integer of format int32 belongs": SchemaCase(
        schema={"type": "object", "properties": {"n": {"type": "integer", "format": "int32"}}},
        value={"n": True},
        want=(("FieldValueTypeInvalid", 'Invalid value: "": spec.n in body must be of type int32: ""', "spec.n"),),
    ),
    "an object where a string belongs": SchemaCase(
        schema={"type": "object", "properties": {"name": STR}},
        value={"name": {"a": 1}},
        want=(
            (
                "FieldValueTypeInvalid",
                'Invalid value: "object": spec.name in body must be of type string: "object"',
                "spec.name",
            ),
        ),
    ),
    "a list where an object belongs": SchemaCase(
        schema={"type": "object", "properties": {"role": {"type": "object", "properties": {"a": INT}}}},
        value={"role": [1]},
        want=(
            (
                "FieldValueTypeInvalid",
                'Invalid value: "array": spec.role in body must be of type object: "array"',
                "spec.role",
            ),
        ),
    ),
    "a string where a list belongs": SchemaCase(
        schema={"type": "object", "properties": {"items": {"type": "array", "items": STR}}},
        value={"items": "x"},
        want=(
            (
                "FieldValueTypeInvalid",
                'Invalid value: "string": spec.items in body must be of type array: "string"',
                "spec.items",
            ),
        ),
    ),
    "a fraction where an integer belongs": SchemaCase(
        schema={"type": "object", "properties": {"n": INT}},
        value={"n": 1.5},
        want=(
            (
                "FieldValueTypeInvalid",
                'Invalid value: "number": spec.n in body must be of type integer: "number"',
                "spec.n",
            ),
            (
                "FieldValueInvalid",
                'Invalid value: "": Checked value must be of type integer (default format) in spec.n',
                "<nil>",
            ),
        ),
    ),
    "a whole float is an integer": SchemaCase(schema={"type": "object", "properties": {"n": INT}}, value={"n": 2.0}),
    "an integer is a number": SchemaCase(schema={"type": "object", "properties": {"n": NUM}}, value={"n": 2}),
    "a null list item that may not be null": SchemaCase(
        schema={"type": "object", "properties": {"l": {"type": "array", "items": STR}}},
        value={"l": ["a", None]},
        want=(
            (
                "FieldValueTypeInvalid",
                'Invalid value: "null": spec.l[1] in body must be of type string: "null"',
                "spec.l[1]",
            ),
        ),
    ),
    "a null item of a nullable list": SchemaCase(
        schema={
            "type": "object",
            "properties": {"l": {"type": "array", "items": {"type": "string", "nullable": True}}},
        },
        value={"l": ["a", None]},
    ),
    "a null field that is required": SchemaCase(
        schema={"type": "object", "required": ["a"], "properties": {"a": STR}},
        value={"a": None},
        want=(("FieldValueRequired", "Required value", "spec.a"),),
    ),
    "the spec itself is a string": SchemaCase(
        schema={"type": "object", "properties": {"a": STR}},
        value="hello",
        want=(
            ("FieldValueTypeInvalid", 'Invalid value: "string": spec in body must be of type object: "string"', "spec"),
        ),
    ),
    "wrong type deep in a list of objects": SchemaCase(
        schema={
            "type": "object",
            "properties": {"l": {"type": "array", "items": {"type": "object", "properties": {"port": INT}}}},
        },
        value={"l": [{"port": 1}, {"port": "x"}]},
        want=(
            (
                "FieldValueTypeInvalid",
                'Invalid value: "string": spec.l[1].port in body must be of type integer: "string"',
                "spec.l[1].port",
            ),
        ),
    ),
    "wrong type in a map of objects": SchemaCase(
        schema={
            "type": "object",
            "properties": {
                "roles": {"type": "object", "additionalProperties": {"type": "object", "properties": {"replicas": INT}}}
            },
        },
        value={"roles": {"worker": {"replicas": "x"}}},
        want=(
            (
                "FieldValueTypeInvalid",
                'Invalid value: "string": spec.roles.worker.replicas in body must be of type integer: "string"',
                "spec.roles.worker.replicas",
            ),
        ),
    ),
    "a number below its minimum": SchemaCase(
        schema={"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}},
        value={"n": 0},
        want=(
            ("FieldValueInvalid", "Invalid value: 0: spec.n in body should be greater than or equal to 1", "spec.n"),
        ),
    ),
    "a number above its maximum": SchemaCase(
        schema={"type": "object", "properties": {"n": {"type": "integer", "maximum": 10}}},
        value={"n": 11},
        want=(("FieldValueInvalid", "Invalid value: 11: spec.n in body should be less than or equal to 10", "spec.n"),),
    ),
    "an exclusive minimum": SchemaCase(
        schema={"type": "object", "properties": {"n": {"type": "integer", "minimum": 1, "exclusiveMinimum": True}}},
        value={"n": 1},
        want=(("FieldValueInvalid", "Invalid value: 1: spec.n in body should be greater than 1", "spec.n"),),
    ),
    "an exclusive maximum": SchemaCase(
        schema={"type": "object", "properties": {"n": {"type": "number", "maximum": 0.5, "exclusiveMaximum": True}}},
        value={"n": 0.5},
        want=(("FieldValueInvalid", "Invalid value: 0.5: spec.n in body should be less than 0.5", "spec.n"),),
    ),
    "a fraction below its minimum": SchemaCase(
        schema={"type": "object", "properties": {"n": {"type": "number", "minimum": 0.25}}},
        value={"n": 0.125},
        want=(
            (
                "FieldValueInvalid",
                "Invalid value: 0.125: spec.n in body should be greater than or equal to 0.25",
                "spec.n",
            ),
        ),
    ),
    "an int32 that is too large": SchemaCase(
        schema={"type": "object", "properties": {"n": {"type": "integer", "format": "int32"}}},
        value={"n": 2147483648},
        want=(
            (
                "FieldValueInvalid",
                'Invalid value: "": Checked value must be of type integer with format int32 in spec.n',
                "<nil>",
            ),
        ),
    ),
    "an int64 at its limit": SchemaCase(
        schema={"type": "object", "properties": {"n": {"type": "integer", "format": "int64"}}},
        value={"n": 9223372036854775807},
    ),
    "an integer beyond int64": SchemaCase(
        schema={"type": "object", "properties": {"n": {"type": "integer", "format": "int64"}}},
        value={"n": 9223372036854775808},
        want=(
            (
                "FieldValueTypeInvalid",
                'Invalid value: "float64": spec.n in body must be of type int64: "float64"',
                "spec.n",
            ),
            (
                "FieldValueInvalid",
                'Invalid value: "": Checked value must be of type integer with format int64 in spec.n',
                "<nil>",
            ),
        ),
    ),
    "not a multiple": SchemaCase(
        schema={"type": "object", "properties": {"n": {"type": "integer", "multipleOf": 5}}},
        value={"n": 7},
        want=(("FieldValueInvalid", "Invalid value: 7: spec.n in body should be a multiple of 5", "spec.n"),),
    ),
    "not a multiple of a fraction": SchemaCase(
        schema={"type": "object", "properties": {"n": {"type": "number", "multipleOf": 0.5}}},
        value={"n": 0.7},
        want=(("FieldValueInvalid", "Invalid value: 0.7: spec.n in body should be a multiple of 0.5", "spec.n"),),
    ),
    "a fractional bound on an integer": SchemaCase(
        schema={"type": "object", "properties": {"n": {"type": "integer", "minimum": 1.5}}},
        value={"n": 1},
        want=(
            (
                "FieldValueInvalid",
                'Invalid value: "": Minimum boundary value must be of type integer (default format) in spec.n',
                "<nil>",
            ),
            ("FieldValueInvalid", "Invalid value: 1: spec.n in body should be greater than or equal to 1.5", "spec.n"),
        ),
    ),
    "a string that is too long": SchemaCase(
        schema={"type": "object", "properties": {"s": {"type": "string", "maxLength": 3}}},
        value={"s": "abcd"},
        want=(("FieldValueTooLong", "Too long: may not be more than 3 bytes", "spec.s"),),
    ),
    "a maximum length of one": SchemaCase(
        schema={"type": "object", "properties": {"s": {"type": "string", "maxLength": 1}}},
        value={"s": "ab"},
        want=(("FieldValueTooLong", "Too long: may not be more than 1 byte", "spec.s"),),
    ),
    "length counts characters, not bytes": SchemaCase(
        schema={"type": "object", "properties": {"s": {"type": "string", "maxLength": 3}}}, value={"s": "äöü"}
    ),
    "a string that is too short": SchemaCase(
        schema={"type": "object", "properties": {"s": {"type": "string", "minLength": 2}}},
        value={"s": "a"},
        want=(("FieldValueInvalid", 'Invalid value: "a": spec.s in body should be at least 2 chars long', "spec.s"),),
    ),
    "an empty string that may not be": SchemaCase(
        schema={"type": "object", "properties": {"s": {"type": "string", "minLength": 1}}},
        value={"s": ""},
        want=(("FieldValueInvalid", 'Invalid value: "": spec.s in body should be at least 1 chars long', "spec.s"),),
    ),
    "too many items": SchemaCase(
        schema={"type": "object", "properties": {"l": {"type": "array", "maxItems": 2, "items": INT}}},
        value={"l": [1, 2, 3]},
        want=(("FieldValueTooMany", "Too many: 3: must have at most 2 items", "spec.l"),),
    ),
    "at most one item": SchemaCase(
        schema={"type": "object", "properties": {"l": {"type": "array", "maxItems": 1, "items": INT}}},
        value={"l": [1, 2]},
        want=(("FieldValueTooMany", "Too many: 2: must have at most 1 item", "spec.l"),),
    ),
    "too few items": SchemaCase(
        schema={"type": "object", "properties": {"l": {"type": "array", "minItems": 1, "items": INT}}},
        value={"l": []},
        want=(("FieldValueInvalid", "Invalid value: 0: spec.l in body should have at least 1 items", "spec.l"),),
    ),
    "too many properties": SchemaCase(
        schema={
            "type": "object",
            "properties": {"m": {"type": "object", "maxProperties": 1, "additionalProperties": STR}},
        },
        value={"m": {"a": "1", "b": "2"}},
        want=(("FieldValueTooMany", "Too many: 2: must have at most 1 item", "spec.m"),),
    ),
    "too few properties": SchemaCase(
        schema={
            "type": "object",
            "properties": {"m": {"type": "object", "minProperties": 1, "additionalProperties": STR}},
        },
        value={"m": {}},
        want=(("FieldValueInvalid", "Invalid value: 0: spec.m in body should have at least 1 properties", "spec.m"),),
    ),
    "a value outside its enum": SchemaCase(
        schema={"type": "object", "properties": {"p": {"type": "string", "enum": ["Never", "Always"]}}},
        value={"p": "Sometimes"},
        want=(
            ("FieldValueNotSupported", 'Unsupported value: "Sometimes": supported values: "Never", "Always"', "spec.p"),
        ),
    ),
    "a number outside its enum": SchemaCase(
        schema={"type": "object", "properties": {"p": {"type": "integer", "enum": [1, 2]}}},
        value={"p": 3},
        want=(("FieldValueNotSupported", 'Unsupported value: 3: supported values: "1", "2"', "spec.p"),),
    ),
    "a wrong type and outside its enum": SchemaCase(
        schema={"type": "object", "properties": {"p": {"type": "string", "enum": ["A"]}}},
        value={"p": 5},
        want=(
            (
                "FieldValueTypeInvalid",
                'Invalid value: "integer": spec.p in body must be of type string: "integer"',
                "spec.p",
            ),
            ("FieldValueNotSupported", 'Unsupported value: 5: supported values: "A"', "spec.p"),
        ),
    ),
    "a string that does not match": SchemaCase(
        schema={"type": "object", "properties": {"s": {"type": "string", "pattern": "^[a-z]+$"}}},
        value={"s": "A1"},
        want=(("FieldValueInvalid", "Invalid value: \"A1\": spec.s in body should match '^[a-z]+$'", "spec.s"),),
    ),
    "a trailing newline does not match a dollar": SchemaCase(
        schema={"type": "object", "properties": {"s": {"type": "string", "pattern": "^[a-z]+$"}}},
        value={"s": "a\n"},
        want=(("FieldValueInvalid", "Invalid value: \"a\\n\": spec.s in body should match '^[a-z]+$'", "spec.s"),),
    ),
    "a pattern with posix classes": SchemaCase(
        schema={"type": "object", "properties": {"s": {"type": "string", "pattern": "^[[:alpha:]]+$"}}},
        value={"s": "a1"},
        want=(("FieldValueInvalid", "Invalid value: \"a1\": spec.s in body should match '^[[:alpha:]]+$'", "spec.s"),),
    ),
    "too long and not matching: only the length is told": SchemaCase(
        schema={"type": "object", "properties": {"s": {"type": "string", "pattern": "^x$", "maxLength": 1}}},
        value={"s": "yy"},
        want=(("FieldValueTooLong", "Too long: may not be more than 1 byte", "spec.s"),),
    ),
    "not a date-time": SchemaCase(
        schema={"type": "object", "properties": {"t": {"type": "string", "format": "date-time"}}},
        value={"t": "yesterday"},
        want=(
            (
                "FieldValueTypeInvalid",
                'Invalid value: "yesterday": spec.t in body must be of type date-time: "yesterday"',
                "spec.t",
            ),
        ),
    ),
    "a date-time": SchemaCase(
        schema={"type": "object", "properties": {"t": {"type": "string", "format": "date-time"}}},
        value={"t": "2026-01-02T03:04:05Z"},
    ),
    "a date-time with a fraction and an offset": SchemaCase(
        schema={"type": "object", "properties": {"t": {"type": "string", "format": "date-time"}}},
        value={"t": "2026-01-02T03:04:05.678+02:00"},
    ),
    "not a duration": SchemaCase(
        schema={"type": "object", "properties": {"t": {"type": "string", "format": "duration"}}},
        value={"t": "soon"},
        want=(
            (
                "FieldValueTypeInvalid",
                'Invalid value: "soon": spec.t in body must be of type duration: "soon"',
                "spec.t",
            ),
        ),
    ),
    "a duration": SchemaCase(
        schema={"type": "object", "properties": {"t": {"type": "string", "format": "duration"}}}, value={"t": "1h30m"}
    ),
    "not an ipv4": SchemaCase(
        schema={"type": "object", "properties": {"a": {"type": "string", "format": "ipv4"}}},
        value={"a": "300.1.1.1"},
        want=(
            (
                "FieldValueTypeInvalid",
                'Invalid value: "300.1.1.1": spec.a in body must be of type ipv4: "300.1.1.1"',
                "spec.a",
            ),
        ),
    ),
    "not a uuid": SchemaCase(
        schema={"type": "object", "properties": {"a": {"type": "string", "format": "uuid"}}},
        value={"a": "zzz"},
        want=(("FieldValueTypeInvalid", 'Invalid value: "zzz": spec.a in body must be of type uuid: "zzz"', "spec.a"),),
    ),
    "not base64": SchemaCase(
        schema={"type": "object", "properties": {"a": {"type": "string", "format": "byte"}}},
        value={"a": "%%%"},
        want=(("FieldValueTypeInvalid", 'Invalid value: "%%%": spec.a in body must be of type byte: "%%%"', "spec.a"),),
    ),
    "not a uri": SchemaCase(
        schema={"type": "object", "properties": {"a": {"type": "string", "format": "uri"}}},
        value={"a": "not a uri"},
        want=(
            (
                "FieldValueTypeInvalid",
                'Invalid value: "not a uri": spec.a in body must be of type uri: "not a uri"',
                "spec.a",
            ),
        ),
    ),
    "not a hostname": SchemaCase(
        schema={"type": "object", "properties": {"a": {"type": "string", "format": "hostname"}}},
        value={"a": "-bad-"},
        want=(
            (
                "FieldValueTypeInvalid",
                'Invalid value: "-bad-": spec.a in body must be of type hostname: "-bad-"',
                "spec.a",
            ),
        ),
    ),
    "not a cidr": SchemaCase(
        schema={"type": "object", "properties": {"a": {"type": "string", "format": "cidr"}}},
        value={"a": "10.0.0.0"},
        want=(
            (
                "FieldValueTypeInvalid",
                'Invalid value: "10.0.0.0": spec.a in body must be of type cidr: "10.0.0.0"',
                "spec.a",
            ),
        ),
    ),
    "not a date": SchemaCase(
        schema={"type": "object", "properties": {"a": {"type": "string", "format": "date"}}},
        value={"a": "2026-13-01"},
        want=(
            (
                "FieldValueTypeInvalid",
                'Invalid value: "2026-13-01": spec.a in body must be of type date: "2026-13-01"',
                "spec.a",
            ),
        ),
    ),
    "not an email": SchemaCase(
        schema={"type": "object", "properties": {"a": {"type": "string", "format": "email"}}},
        value={"a": "nobody"},
        want=(
            (
                "FieldValueTypeInvalid",
                'Invalid value: "nobody": spec.a in body must be of type email: "nobody"',
                "spec.a",
            ),
        ),
    ),
    "not a k8s short name": SchemaCase(
        schema={"type": "object", "properties": {"a": {"type": "string", "format": "k8s-short-name"}}},
        value={"a": "Bad_Name"},
        want=(
            (
                "FieldValueTypeInvalid",
                'Invalid value: "Bad_Name": spec.a in body must be of type k8s-short-name: "Bad_Name"',
                "spec.a",
            ),
        ),
    ),
    "a format nobody knows has no effect": SchemaCase(
        schema={"type": "object", "properties": {"a": {"type": "string", "format": "colour"}}}, value={"a": "x"}
    ),
    "an integer format on a string has no effect": SchemaCase(
        schema={"type": "object", "properties": {"a": {"type": "string", "format": "int32"}}}, value={"a": "x"}
    ),
    "a required field is missing": SchemaCase(
        schema={"type": "object", "required": ["role"], "properties": {"role": STR}},
        value={},
        want=(("FieldValueRequired", "Required value", "spec.role"),),
    ),
    "two required fields are missing": SchemaCase(
        schema={"type": "object", "required": ["a", "b"], "properties": {"a": STR, "b": STR}},
        value={},
        want=(("FieldValueRequired", "Required value", "spec.a"), ("FieldValueRequired", "Required value", "spec.b")),
    ),
    "a required field of a list item is missing": SchemaCase(
        schema={
            "type": "object",
            "properties": {
                "l": {"type": "array", "items": {"type": "object", "required": ["name"], "properties": {"name": STR}}}
            },
        },
        value={"l": [{}]},
        want=(("FieldValueRequired", "Required value", "spec.l[0].name"),),
    ),
    "none of anyOf": SchemaCase(
        schema={
            "type": "object",
            "properties": {"a": INT, "b": INT},
            "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
        },
        value={},
        want=(
            ("FieldValueInvalid", 'Invalid value: "": "spec" must validate at least one schema (anyOf)', "<nil>"),
            ("FieldValueRequired", "Required value", "spec.a"),
        ),
    ),
    "none of oneOf": SchemaCase(
        schema={
            "type": "object",
            "properties": {"a": INT, "b": INT},
            "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
        },
        value={},
        want=(
            (
                "FieldValueInvalid",
                'Invalid value: "": "spec" must validate one and only one schema (oneOf). Found none valid',
                "<nil>",
            ),
            ("FieldValueRequired", "Required value", "spec.a"),
        ),
    ),
    "two of oneOf": SchemaCase(
        schema={
            "type": "object",
            "properties": {"a": INT, "b": INT},
            "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
        },
        value={"a": 1, "b": 2},
        want=(
            (
                "FieldValueInvalid",
                'Invalid value: "": "spec" must validate one and only one schema (oneOf). Found 2 valid alternatives',
                "<nil>",
            ),
        ),
    ),
    "one of oneOf": SchemaCase(
        schema={
            "type": "object",
            "properties": {"a": INT, "b": INT},
            "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
        },
        value={"a": 1},
    ),
    "one of allOf fails": SchemaCase(
        schema={"type": "object", "properties": {"n": {"type": "integer", "allOf": [{"minimum": 1}, {"maximum": 5}]}}},
        value={"n": 7},
        want=(
            ("FieldValueInvalid", "Invalid value: 7: spec.n in body should be less than or equal to 5", "spec.n"),
            ("FieldValueInvalid", 'Invalid value: "": "spec.n" must validate all the schemas (allOf)', "<nil>"),
        ),
    ),
    "all of allOf fail": SchemaCase(
        schema={
            "type": "object",
            "properties": {"n": {"type": "integer", "allOf": [{"minimum": 10}, {"multipleOf": 5}]}},
        },
        value={"n": 7},
        want=(
            ("FieldValueInvalid", "Invalid value: 7: spec.n in body should be greater than or equal to 10", "spec.n"),
            ("FieldValueInvalid", "Invalid value: 7: spec.n in body should be a multiple of 5", "spec.n"),
            (
                "FieldValueInvalid",
                'Invalid value: "": "spec.n" must validate all the schemas (allOf). None validated',
                "<nil>",
            ),
        ),
    ),
    "not": SchemaCase(
        schema={"type": "object", "properties": {"s": {"type": "string", "not": {"enum": ["bad"]}}}},
        value={"s": "bad"},
        want=(("FieldValueInvalid", 'Invalid value: "": "spec.s" must not validate the schema (not)', "<nil>"),),
    ),
    "anyOf shows the branch that came nearest": SchemaCase(
        schema={
            "type": "object",
            "properties": {"s": {"type": "string", "anyOf": [{"pattern": "^a", "minLength": 2}, {"maxLength": 1}]}},
        },
        value={"s": "bcd"},
        want=(
            ("FieldValueInvalid", 'Invalid value: "": "spec.s" must validate at least one schema (anyOf)', "<nil>"),
            ("FieldValueInvalid", "Invalid value: \"bcd\": spec.s in body should match '^a'", "spec.s"),
        ),
    ),
    "anyOf with properties": SchemaCase(
        schema={
            "type": "object",
            "properties": {"a": INT, "b": STR},
            "anyOf": [
                {"properties": {"a": {"minimum": 5}}, "required": ["a"]},
                {"properties": {"b": {"enum": ["x"]}}, "required": ["b"]},
            ],
        },
        value={"a": 1, "b": "y"},
        want=(
            ("FieldValueInvalid", 'Invalid value: "": "spec" must validate at least one schema (anyOf)', "<nil>"),
            ("FieldValueInvalid", "Invalid value: 1: spec.a in body should be greater than or equal to 5", "spec.a"),
        ),
    ),
    "int-or-string takes an integer": SchemaCase(
        schema={"type": "object", "properties": {"p": {"x-kubernetes-int-or-string": True}}}, value={"p": 5}
    ),
    "int-or-string takes a string": SchemaCase(
        schema={"type": "object", "properties": {"p": {"x-kubernetes-int-or-string": True}}}, value={"p": "50%"}
    ),
    "int-or-string takes no boolean": SchemaCase(
        schema={"type": "object", "properties": {"p": {"x-kubernetes-int-or-string": True}}},
        value={"p": True},
        want=(
            (
                "FieldValueTypeInvalid",
                'Invalid value: "boolean": spec.p in body must be of type integer,string: "boolean"',
                "spec.p",
            ),
        ),
    ),
    "int-or-string in its long form": SchemaCase(
        schema={
            "type": "object",
            "properties": {"p": {"x-kubernetes-int-or-string": True, "anyOf": [INT, STR], "pattern": "^[0-9]+%$"}},
        },
        value={"p": "x"},
        want=(("FieldValueInvalid", "Invalid value: \"x\": spec.p in body should match '^[0-9]+%$'", "spec.p"),),
    ),
    "int-or-string in its long form takes no list": SchemaCase(
        schema={"type": "object", "properties": {"p": {"x-kubernetes-int-or-string": True, "anyOf": [INT, STR]}}},
        value={"p": []},
        want=(
            (
                "FieldValueTypeInvalid",
                'Invalid value: "array": spec.p in body must be of type integer,string: "array"',
                "spec.p",
            ),
            ("FieldValueInvalid", 'Invalid value: "": "spec.p" must validate at least one schema (anyOf)', "<nil>"),
            (
                "FieldValueTypeInvalid",
                'Invalid value: "array": spec.p in body must be of type integer: "array"',
                "spec.p",
            ),
        ),
    ),
    "a set holds a value twice": SchemaCase(
        schema={
            "type": "object",
            "properties": {"l": {"type": "array", "x-kubernetes-list-type": "set", "items": STR}},
        },
        value={"l": ["a", "b", "a"]},
        want=(("FieldValueDuplicate", 'Duplicate value: "a"', "spec.l[2]"),),
    ),
    "a set holds a value three times": SchemaCase(
        schema={
            "type": "object",
            "properties": {"l": {"type": "array", "x-kubernetes-list-type": "set", "items": STR}},
        },
        value={"l": ["a", "a", "a"]},
        want=(("FieldValueDuplicate", 'Duplicate value: "a"', "spec.l[1]"),),
    ),
    "a list-map holds a key twice": SchemaCase(
        schema={
            "type": "object",
            "properties": {
                "l": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {"type": "object", "required": ["name"], "properties": {"name": STR, "n": INT}},
                }
            },
        },
        value={"l": [{"name": "a"}, {"name": "b"}, {"name": "a"}]},
        want=(("FieldValueDuplicate", 'Duplicate value: {"name":"a"}', "spec.l[2]"),),
    ),
    "a list-map with two keys holds them twice, one by default": SchemaCase(
        schema={
            "type": "object",
            "properties": {
                "l": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["port", "protocol"],
                    "items": {
                        "type": "object",
                        "required": ["port"],
                        "properties": {"port": INT, "protocol": {"type": "string", "default": "TCP"}},
                    },
                }
            },
        },
        value={"l": [{"port": 1}, {"port": 1, "protocol": "TCP"}, {"port": 1, "protocol": "UDP"}]},
        want=(("FieldValueDuplicate", 'Duplicate value: {"port":1,"protocol":"TCP"}', "spec.l[1]"),),
    ),
    "an update may keep a repeated value that was there": SchemaCase(
        schema={
            "type": "object",
            "properties": {"l": {"type": "array", "x-kubernetes-list-type": "set", "items": STR}, "n": INT},
        },
        value={"l": ["a", "a"], "n": 2},
        old={"l": ["a", "a"], "n": 1},
    ),
    "an update may not bring in a repeated value": SchemaCase(
        schema={
            "type": "object",
            "properties": {"l": {"type": "array", "x-kubernetes-list-type": "set", "items": STR}},
        },
        value={"l": ["a", "a"]},
        want=(("FieldValueDuplicate", 'Duplicate value: "a"', "spec.l[1]"),),
        old={"l": ["a"]},
    ),
    "several errors at once": SchemaCase(
        schema={
            "type": "object",
            "required": ["a"],
            "properties": {"a": STR, "n": {"type": "integer", "minimum": 1}, "p": {"type": "string", "enum": ["X"]}},
        },
        value={"n": 0, "p": "Y"},
        want=(
            ("FieldValueInvalid", "Invalid value: 0: spec.n in body should be greater than or equal to 1", "spec.n"),
            ("FieldValueNotSupported", 'Unsupported value: "Y": supported values: "X"', "spec.p"),
            ("FieldValueRequired", "Required value", "spec.a"),
        ),
    ),
    "a quote and a newline in a value": SchemaCase(
        schema={"type": "object", "properties": {"s": {"type": "string", "pattern": "^x$"}}},
        value={"s": 'a"b\nc'},
        want=(("FieldValueInvalid", 'Invalid value: "a\\"b\\nc": spec.s in body should match \'^x$\'', "spec.s"),),
    ),
    "an object outside its enum": SchemaCase(
        schema={
            "type": "object",
            "properties": {"o": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "enum": [{"a": 1}]}},
        },
        value={"o": {"b": "<x>"}},
        want=(
            (
                "FieldValueNotSupported",
                'Unsupported value: {"b":"\\u003cx\\u003e"}: supported values: "{\\"a\\":1}"',
                "spec.o",
            ),
        ),
    ),
    "a list outside its enum": SchemaCase(
        schema={"type": "object", "properties": {"o": {"type": "array", "items": INT, "enum": [[1, 2]]}}},
        value={"o": [2]},
        want=(("FieldValueNotSupported", 'Unsupported value: [2]: supported values: "[1,2]"', "spec.o"),),
    ),
    "an unchanged wrong value is let through on update": SchemaCase(
        schema={"type": "object", "properties": {"n": {"type": "integer", "minimum": 5}, "m": INT}},
        value={"n": 1, "m": 2},
        old={"n": 1, "m": 1},
    ),
    "a changed wrong value is not": SchemaCase(
        schema={"type": "object", "properties": {"n": {"type": "integer", "minimum": 5}}},
        value={"n": 2},
        want=(
            ("FieldValueInvalid", "Invalid value: 2: spec.n in body should be greater than or equal to 5", "spec.n"),
        ),
        old={"n": 1},
    ),
    "an unchanged list-map item is let through": SchemaCase(
        schema={
            "type": "object",
            "properties": {
                "l": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {"name": STR, "n": {"type": "integer", "minimum": 5}},
                    },
                }
            },
        },
        value={"l": [{"name": "b", "n": 9}, {"name": "a", "n": 1}]},
        old={"l": [{"name": "a", "n": 1}]},
    ),
    "an item of an atomic list is not": SchemaCase(
        schema={"type": "object", "properties": {"l": {"type": "array", "items": {"type": "integer", "minimum": 5}}}},
        value={"l": [9, 1]},
        want=(
            (
                "FieldValueInvalid",
                "Invalid value: 1: spec.l[1] in body should be greater than or equal to 5",
                "spec.l[1]",
            ),
        ),
        old={"l": [1]},
    ),
    "a required field that was missing before may stay missing in an unchanged part": SchemaCase(
        schema={
            "type": "object",
            "properties": {"a": {"type": "object", "required": ["x"], "properties": {"x": INT, "y": INT}}, "b": INT},
        },
        value={"a": {"y": 1}, "b": 2},
        old={"a": {"y": 1}, "b": 1},
    ),
    "a rule fails with its message": SchemaCase(
        schema={
            "type": "object",
            "properties": {"a": INT, "b": INT},
            "x-kubernetes-validations": [{"rule": "self.a <= self.b", "message": "a must not exceed b"}],
        },
        value={"a": 2, "b": 1},
        want=(("FieldValueInvalid", "Invalid value: a must not exceed b", "spec"),),
    ),
    "a rule fails without a message": SchemaCase(
        schema={
            "type": "object",
            "properties": {"a": INT, "b": INT},
            "x-kubernetes-validations": [{"rule": "self.a <= self.b"}],
        },
        value={"a": 2, "b": 1},
        want=(("FieldValueInvalid", "Invalid value: failed rule: self.a <= self.b", "spec"),),
    ),
    "a rule holds": SchemaCase(
        schema={
            "type": "object",
            "properties": {"a": INT, "b": INT},
            "x-kubernetes-validations": [{"rule": "self.a <= self.b"}],
        },
        value={"a": 1, "b": 1},
    ),
    "a rule on a scalar": SchemaCase(
        schema={
            "type": "object",
            "properties": {
                "a": {
                    "type": "integer",
                    "x-kubernetes-validations": [{"rule": "self % 2 == 0", "message": "must be even"}],
                }
            },
        },
        value={"a": 3},
        want=(("FieldValueInvalid", "Invalid value: 3: must be even", "spec.a"),),
    ),
    "a rule on a string": SchemaCase(
        schema={
            "type": "object",
            "properties": {
                "a": {
                    "type": "string",
                    "x-kubernetes-validations": [{"rule": "self.startsWith('x-')", "message": "must start with x-"}],
                }
            },
        },
        value={"a": "y"},
        want=(("FieldValueInvalid", 'Invalid value: "y": must start with x-', "spec.a"),),
    ),
    "a rule on a list": SchemaCase(
        schema={
            "type": "object",
            "properties": {
                "l": {
                    "type": "array",
                    "maxItems": 5,
                    "items": INT,
                    "x-kubernetes-validations": [{"rule": "self.all(x, x > 0)"}],
                }
            },
        },
        value={"l": [1, 0]},
        want=(("FieldValueInvalid", "Invalid value: failed rule: self.all(x, x > 0)", "spec.l"),),
    ),
    "a rule on each item": SchemaCase(
        schema={
            "type": "object",
            "properties": {
                "l": {
                    "type": "array",
                    "maxItems": 5,
                    "items": {
                        "type": "object",
                        "properties": {"n": INT},
                        "x-kubernetes-validations": [{"rule": "self.n > 0", "message": "n must be positive"}],
                    },
                }
            },
        },
        value={"l": [{"n": 1}, {"n": 0}, {"n": -1}]},
        want=(
            ("FieldValueInvalid", "Invalid value: n must be positive", "spec.l[1]"),
            ("FieldValueInvalid", "Invalid value: n must be positive", "spec.l[2]"),
        ),
    ),
    "a rule on each entry of a map": SchemaCase(
        schema={
            "type": "object",
            "properties": {
                "m": {
                    "type": "object",
                    "maxProperties": 5,
                    "additionalProperties": {
                        "type": "object",
                        "properties": {"n": INT},
                        "x-kubernetes-validations": [{"rule": "self.n > 0"}],
                    },
                }
            },
        },
        value={"m": {"w": {"n": 0}}},
        want=(("FieldValueInvalid", "Invalid value: failed rule: self.n > 0", "spec.m[w]"),),
    ),
    "a rule with a message expression": SchemaCase(
        schema={
            "type": "object",
            "properties": {"a": INT, "b": INT},
            "x-kubernetes-validations": [
                {
                    "rule": "self.a <= self.b",
                    "messageExpression": "'a is ' + string(self.a) + ', b is ' + string(self.b)",
                }
            ],
        },
        value={"a": 2, "b": 1},
        want=(("FieldValueInvalid", "Invalid value: a is 2, b is 1", "spec"),),
    ),
    "a message expression that fails gives the message": SchemaCase(
        schema={
            "type": "object",
            "properties": {"a": INT, "b": INT},
            "x-kubernetes-validations": [
                {"rule": "self.a <= 1", "messageExpression": "string(self.b)", "message": "too big"}
            ],
        },
        value={"a": 2},
        want=(("FieldValueInvalid", "Invalid value: too big", "spec"),),
    ),
    "a rule with reason Forbidden": SchemaCase(
        schema={
            "type": "object",
            "properties": {"a": INT},
            "x-kubernetes-validations": [
                {"rule": "self.a < 1", "message": "no", "reason": "FieldValueForbidden", "fieldPath": ".a"}
            ],
        },
        value={"a": 2},
        want=(("FieldValueForbidden", "Forbidden: no", "spec.a"),),
    ),
    "a rule with reason Required": SchemaCase(
        schema={
            "type": "object",
            "properties": {"a": INT, "b": INT},
            "x-kubernetes-validations": [
                {"rule": "has(self.b)", "message": "b is needed", "reason": "FieldValueRequired", "fieldPath": ".b"}
            ],
        },
        value={"a": 2},
        want=(("FieldValueRequired", "Required value: b is needed", "spec.b"),),
    ),
    "a rule with reason Duplicate": SchemaCase(
        schema={
            "type": "object",
            "properties": {"a": INT},
            "x-kubernetes-validations": [{"rule": "self.a < 1", "reason": "FieldValueDuplicate"}],
        },
        value={"a": 2},
        want=(("FieldValueDuplicate", "Duplicate value", "spec"),),
    ),
    "a rule reads a field that is not there": SchemaCase(
        schema={
            "type": "object",
            "properties": {"a": INT, "b": INT},
            "x-kubernetes-validations": [{"rule": "self.a <= self.b"}],
        },
        value={"a": 2},
        want=(
            ("FieldValueInvalid", 'Invalid value: "object": no such key: b evaluating rule: self.a <= self.b', "spec"),
        ),
    ),
    "has guards an absent field": SchemaCase(
        schema={
            "type": "object",
            "properties": {"a": INT, "b": INT},
            "x-kubernetes-validations": [{"rule": "!has(self.b) || self.a <= self.b"}],
        },
        value={"a": 2},
    ),
    "a rule divides by zero": SchemaCase(
        schema={
            "type": "object",
            "properties": {"a": INT, "b": INT},
            "x-kubernetes-validations": [{"rule": "self.a / self.b == 1"}],
        },
        value={"a": 2, "b": 0},
        want=(
            (
                "FieldValueInvalid",
                'Invalid value: "object": division by zero evaluating rule: self.a / self.b == 1',
                "spec",
            ),
        ),
    ),
    "a rule takes a modulus by zero": SchemaCase(
        schema={
            "type": "object",
            "properties": {"a": INT, "b": INT},
            "x-kubernetes-validations": [{"rule": "self.a % self.b == 1"}],
        },
        value={"a": 2, "b": 0},
        want=(
            (
                "FieldValueInvalid",
                'Invalid value: "object": modulus by zero evaluating rule: self.a % self.b == 1',
                "spec",
            ),
        ),
    ),
    "a rule overflows": SchemaCase(
        schema={"type": "object", "properties": {"a": INT}, "x-kubernetes-validations": [{"rule": "self.a + 1 > 0"}]},
        value={"a": 9223372036854775807},
        want=(
            ("FieldValueInvalid", 'Invalid value: "object": integer overflow evaluating rule: self.a + 1 > 0', "spec"),
        ),
    ),
    "a rule reads past the end": SchemaCase(
        schema={
            "type": "object",
            "properties": {"l": {"type": "array", "maxItems": 3, "items": INT}},
            "x-kubernetes-validations": [{"rule": "self.l[3] == 1"}],
        },
        value={"l": [1]},
        want=(
            (
                "FieldValueInvalid",
                'Invalid value: "object": index out of bounds: 3 evaluating rule: self.l[3] == 1',
                "spec",
            ),
        ),
    ),
    "a map key that is not there": SchemaCase(
        schema={
            "type": "object",
            "properties": {"m": {"type": "object", "maxProperties": 3, "additionalProperties": INT}},
            "x-kubernetes-validations": [{"rule": "self.m['b'] == 1"}],
        },
        value={"m": {"a": 1}},
        want=(
            (
                "FieldValueInvalid",
                "Invalid value: \"object\": no such key: b evaluating rule: self.m['b'] == 1",
                "spec",
            ),
        ),
    ),
    "an int-or-string compared as an integer": SchemaCase(
        schema={
            "type": "object",
            "properties": {"p": {"x-kubernetes-int-or-string": True}},
            "x-kubernetes-validations": [{"rule": "self.p > 3"}],
        },
        value={"p": "50%"},
        want=(
            (
                "FieldValueInvalid",
                "Invalid value: \"object\": 'no such overload': call arguments did not match a supported operator, function "
                "or macro signature for rule: self.p > 3",
                "spec",
            ),
        ),
    ),
    "an int-or-string by its type": SchemaCase(
        schema={
            "type": "object",
            "properties": {"p": {"x-kubernetes-int-or-string": True}},
            "x-kubernetes-validations": [{"rule": "type(self.p) == string ? self.p.endsWith('%') : self.p < 10"}],
        },
        value={"p": 11},
        want=(
            (
                "FieldValueInvalid",
                "Invalid value: failed rule: type(self.p) == string ? self.p.endsWith('%') : self.p < 10",
                "spec",
            ),
        ),
    ),
    "a transition rule refuses a change": SchemaCase(
        schema={
            "type": "object",
            "properties": {
                "a": {
                    "type": "string",
                    "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "is immutable"}],
                }
            },
        },
        value={"a": "y"},
        want=(("FieldValueInvalid", 'Invalid value: "y": is immutable', "spec.a"),),
        old={"a": "x"},
    ),
    "a transition rule does not run on create": SchemaCase(
        schema={
            "type": "object",
            "properties": {
                "a": {
                    "type": "string",
                    "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "is immutable"}],
                }
            },
        },
        value={"a": "y"},
    ),
    "a transition rule does not run where there was no value": SchemaCase(
        schema={
            "type": "object",
            "properties": {
                "a": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf"}]},
                "b": INT,
            },
        },
        value={"a": "y", "b": 1},
        old={"b": 1},
    ),
    "a transition rule on an item of a list-map": SchemaCase(
        schema={
            "type": "object",
            "properties": {
                "l": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {"name": {"type": "string", "maxLength": 10}, "n": INT},
                        "x-kubernetes-validations": [{"rule": "self.n >= oldSelf.n", "message": "may not shrink"}],
                    },
                    "maxItems": 5,
                }
            },
        },
        value={"l": [{"name": "b", "n": 1}, {"name": "a", "n": 1}]},
        want=(("FieldValueInvalid", "Invalid value: may not shrink", "spec.l[1]"),),
        old={"l": [{"name": "a", "n": 2}]},
    ),
    "an optional old self on create": SchemaCase(
        schema={
            "type": "object",
            "properties": {
                "a": {
                    "type": "integer",
                    "x-kubernetes-validations": [
                        {"rule": "oldSelf.hasValue() || self == 1", "message": "starts at 1", "optionalOldSelf": True}
                    ],
                }
            },
        },
        value={"a": 2},
        want=(("FieldValueInvalid", "Invalid value: 2: starts at 1", "spec.a"),),
    ),
    "an optional old self on update": SchemaCase(
        schema={
            "type": "object",
            "properties": {
                "a": {
                    "type": "integer",
                    "x-kubernetes-validations": [
                        {"rule": "oldSelf.orValue(0) < self", "message": "must grow", "optionalOldSelf": True}
                    ],
                }
            },
        },
        value={"a": 2},
        want=(("FieldValueInvalid", "Invalid value: 2: must grow", "spec.a"),),
        old={"a": 2},
    ),
    "a failed rule in an unchanged part is let through": SchemaCase(
        schema={
            "type": "object",
            "properties": {
                "a": {"type": "object", "properties": {"n": INT}, "x-kubernetes-validations": [{"rule": "self.n > 5"}]},
                "b": INT,
            },
        },
        value={"a": {"n": 1}, "b": 2},
        old={"a": {"n": 1}, "b": 1},
    ),
    "a missing required field stops the rules": SchemaCase(
        schema={
            "type": "object",
            "required": ["a"],
            "properties": {"a": INT, "b": INT},
            "x-kubernetes-validations": [{"rule": "self.b > 1"}],
        },
        value={"b": 0},
        want=(
            ("FieldValueRequired", "Required value", "spec.a"),
            (
                "FieldValueInvalid",
                "Invalid value: null: some validation rules were not checked because the object was invalid; correct the "
                "existing errors to complete validation",
                "<nil>",
            ),
        ),
    ),
    "a number out of bounds does not stop the rules": SchemaCase(
        schema={
            "type": "object",
            "properties": {"b": {"type": "integer", "minimum": 1}},
            "x-kubernetes-validations": [{"rule": "self.b > 1", "message": "b > 1"}],
        },
        value={"b": 0},
        want=(
            ("FieldValueInvalid", "Invalid value: 0: spec.b in body should be greater than or equal to 1", "spec.b"),
            ("FieldValueInvalid", "Invalid value: b > 1", "spec"),
        ),
    ),
    "sum of a list": SchemaCase(
        schema={
            "type": "object",
            "properties": {"l": {"type": "array", "maxItems": 5, "items": INT}},
            "x-kubernetes-validations": [{"rule": "self.l.sum() <= 5", "message": "sum"}],
        },
        value={"l": [3, 3]},
        want=(("FieldValueInvalid", "Invalid value: sum", "spec"),),
    ),
    "max and min of a list": SchemaCase(
        schema={
            "type": "object",
            "properties": {"l": {"type": "array", "maxItems": 5, "items": INT}},
            "x-kubernetes-validations": [{"rule": "self.l.max() - self.l.min() <= 1", "message": "spread"}],
        },
        value={"l": [3, 5]},
        want=(("FieldValueInvalid", "Invalid value: spread", "spec"),),
    ),
    "a list is sorted": SchemaCase(
        schema={
            "type": "object",
            "properties": {"l": {"type": "array", "maxItems": 5, "items": INT}},
            "x-kubernetes-validations": [{"rule": "self.l.isSorted()", "message": "sort it"}],
        },
        value={"l": [3, 1]},
        want=(("FieldValueInvalid", "Invalid value: sort it", "spec"),),
    ),
    "the keys of a map": SchemaCase(
        schema={
            "type": "object",
            "properties": {"m": {"type": "object", "maxProperties": 3, "additionalProperties": INT}},
            "x-kubernetes-validations": [{"rule": "self.m.all(k, k.size() < 3)", "message": "short names"}],
        },
        value={"m": {"abc": 1}},
        want=(("FieldValueInvalid", "Invalid value: short names", "spec"),),
    ),
    "exactly one item": SchemaCase(
        schema={
            "type": "object",
            "properties": {
                "l": {"type": "array", "maxItems": 5, "items": {"type": "object", "properties": {"master": BOOL}}}
            },
            "x-kubernetes-validations": [{"rule": "self.l.exists_one(x, x.master)", "message": "one master"}],
        },
        value={"l": [{"master": True}, {"master": True}]},
        want=(("FieldValueInvalid", "Invalid value: one master", "spec"),),
    ),
    "map and filter": SchemaCase(
        schema={
            "type": "object",
            "properties": {
                "l": {"type": "array", "maxItems": 5, "items": {"type": "object", "properties": {"n": INT}}}
            },
            "x-kubernetes-validations": [
                {"rule": "self.l.filter(x, x.n > 1).map(x, x.n).sum() < 5", "message": "too much"}
            ],
        },
        value={"l": [{"n": 1}, {"n": 3}, {"n": 4}]},
        want=(("FieldValueInvalid", "Invalid value: too much", "spec"),),
    ),
    "a string of many bytes has few characters": SchemaCase(
        schema={
            "type": "object",
            "properties": {"s": {"type": "string", "maxLength": 10}},
            "x-kubernetes-validations": [{"rule": "size(self.s) == 4"}],
        },
        value={"s": "äöü"},
        want=(("FieldValueInvalid", "Invalid value: failed rule: size(self.s) == 4", "spec"),),
    ),
    "lower case and split": SchemaCase(
        schema={
            "type": "object",
            "properties": {"s": {"type": "string", "maxLength": 20}},
            "x-kubernetes-validations": [
                {"rule": "self.s.lowerAscii().split(',').size() == 2", "message": "two parts"}
            ],
        },
        value={"s": "A,B,C"},
        want=(("FieldValueInvalid", "Invalid value: two parts", "spec"),),
    ),
    "matches": SchemaCase(
        schema={
            "type": "object",
            "properties": {"s": {"type": "string", "maxLength": 20}},
            "x-kubernetes-validations": [{"rule": "self.s.matches('^[a-z]+$')", "message": "letters"}],
        },
        value={"s": "a1"},
        want=(("FieldValueInvalid", "Invalid value: letters", "spec"),),
    ),
    "an optional selection": SchemaCase(
        schema={
            "type": "object",
            "properties": {"a": {"type": "object", "properties": {"b": INT}}},
            "x-kubernetes-validations": [{"rule": "self.?a.?b.orValue(7) < 5", "message": "seven"}],
        },
        value={},
        want=(("FieldValueInvalid", "Invalid value: seven", "spec"),),
    ),
    "an optional selection of a value": SchemaCase(
        schema={
            "type": "object",
            "properties": {"a": {"type": "object", "properties": {"b": INT}}},
            "x-kubernetes-validations": [{"rule": "self.?a.b.orValue(7) < 5", "message": "six"}],
        },
        value={"a": {"b": 6}},
        want=(("FieldValueInvalid", "Invalid value: six", "spec"),),
    ),
    "a quantity": SchemaCase(
        schema={
            "type": "object",
            "properties": {"q": {"type": "string", "maxLength": 10}},
            "x-kubernetes-validations": [
                {"rule": "quantity(self.q).isLessThan(quantity('1Gi'))", "message": "less than 1Gi"}
            ],
        },
        value={"q": "2Gi"},
        want=(("FieldValueInvalid", "Invalid value: less than 1Gi", "spec"),),
    ),
    "a quantity that is none": SchemaCase(
        schema={
            "type": "object",
            "properties": {"q": {"type": "string", "maxLength": 10}},
            "x-kubernetes-validations": [{"rule": "isQuantity(self.q)", "message": "not a quantity"}],
        },
        value={"q": "lots"},
        want=(("FieldValueInvalid", "Invalid value: not a quantity", "spec"),),
    ),
    "a url": SchemaCase(
        schema={
            "type": "object",
            "properties": {"u": {"type": "string", "maxLength": 50}},
            "x-kubernetes-validations": [
                {"rule": "isURL(self.u) && url(self.u).getScheme() == 'https'", "message": "https only"}
            ],
        },
        value={"u": "http://a/b"},
        want=(("FieldValueInvalid", "Invalid value: https only", "spec"),),
    ),
    "a duration in a rule": SchemaCase(
        schema={
            "type": "object",
            "properties": {"d": {"type": "string", "format": "duration", "maxLength": 10}},
            "x-kubernetes-validations": [{"rule": "self.d < duration('1h')", "message": "under an hour"}],
        },
        value={"d": "2h"},
        want=(("FieldValueInvalid", "Invalid value: under an hour", "spec"),),
    ),
    "a field named as a reserved word": SchemaCase(
        schema={
            "type": "object",
            "properties": {"namespace": STR},
            "x-kubernetes-validations": [{"rule": "self.__namespace__ == 'x'", "message": "ns"}],
        },
        value={"namespace": "y"},
        want=(("FieldValueInvalid", "Invalid value: ns", "spec"),),
    ),
    "a field with a dash": SchemaCase(
        schema={
            "type": "object",
            "properties": {"min-instance": INT, "max-instance": INT},
            "x-kubernetes-validations": [
                {"rule": "self.min__dash__instance <= self.max__dash__instance", "message": "min over max"}
            ],
        },
        value={"min-instance": 3, "max-instance": 2},
        want=(("FieldValueInvalid", "Invalid value: min over max", "spec"),),
    ),
    "a field with a dot and a slash": SchemaCase(
        schema={
            "type": "object",
            "properties": {"a.b/c": INT},
            "x-kubernetes-validations": [{"rule": "self.a__dot__b__slash__c == 1", "message": "one"}],
        },
        value={"a.b/c": 2},
        want=(("FieldValueInvalid", "Invalid value: one", "spec"),),
    ),
    "a number compared with an integer": SchemaCase(
        schema={
            "type": "object",
            "properties": {"n": NUM},
            "x-kubernetes-validations": [{"rule": "self.n < 2", "message": "under two"}],
        },
        value={"n": 2},
        want=(("FieldValueInvalid", "Invalid value: under two", "spec"),),
    ),
    "in a list": SchemaCase(
        schema={
            "type": "object",
            "properties": {"s": {"type": "string", "maxLength": 9}},
            "x-kubernetes-validations": [{"rule": "self.s in ['a', 'b']", "message": "a or b"}],
        },
        value={"s": "c"},
        want=(("FieldValueInvalid", "Invalid value: a or b", "spec"),),
    ),
    "the sets library": SchemaCase(
        schema={
            "type": "object",
            "properties": {"l": {"type": "array", "maxItems": 5, "items": {"type": "string", "maxLength": 5}}},
            "x-kubernetes-validations": [{"rule": "sets.contains(['a', 'b'], self.l)", "message": "only a and b"}],
        },
        value={"l": ["a", "c"]},
        want=(("FieldValueInvalid", "Invalid value: only a and b", "spec"),),
    ),
    "replace, join, trim and indexOf": SchemaCase(
        schema={
            "type": "object",
            "properties": {"l": {"type": "array", "maxItems": 5, "items": {"type": "string", "maxLength": 9}}},
            "x-kubernetes-validations": [
                {"rule": "self.l.join('-').replace('-', '').trim().indexOf('c') == 9", "message": "no"}
            ],
        },
        value={"l": ["a ", "bc"]},
        want=(("FieldValueInvalid", "Invalid value: no", "spec"),),
    ),
    "format": SchemaCase(
        schema={
            "type": "object",
            "properties": {"n": INT, "s": {"type": "string", "maxLength": 5}},
            "x-kubernetes-validations": [
                {"rule": "self.n < 1", "messageExpression": "'n=%d s=%s'.format([self.n, self.s])"}
            ],
        },
        value={"n": 3, "s": "x"},
        want=(("FieldValueInvalid", "Invalid value: n=3 s=x", "spec"),),
    ),
    "a rule on the name": SchemaCase(
        schema={
            "type": "object",
            "properties": {"spec": {"type": "object", "properties": {"a": INT}}},
            "x-kubernetes-validations": [{"rule": "self.metadata.name.size() < 3", "message": "name too long"}],
        },
        value={"metadata": {"name": "abcd"}, "spec": {}},
        want=(("FieldValueInvalid", "Invalid value: name too long", "<nil>"),),
        whole_object=True,
    ),
    "spec is required": SchemaCase(
        schema={
            "type": "object",
            "required": ["spec"],
            "properties": {"spec": {"type": "object", "properties": {"a": INT}}},
        },
        value={"metadata": {"name": "a"}},
        want=(("FieldValueRequired", "Required value", "spec"),),
        whole_object=True,
    ),
    "a rule that compares spec and status": SchemaCase(
        schema={
            "type": "object",
            "properties": {
                "spec": {"type": "object", "properties": {"n": INT}},
                "status": {"type": "object", "properties": {"n": INT}},
            },
            "x-kubernetes-validations": [
                {"rule": "!has(self.status) || self.status.n <= self.spec.n", "message": "status ahead of spec"}
            ],
        },
        value={"metadata": {"name": "a"}, "spec": {"n": 1}, "status": {"n": 2}},
        want=(("FieldValueInvalid", "Invalid value: status ahead of spec", "<nil>"),),
        whole_object=True,
    ),
    "an embedded resource without a kind": SchemaCase(
        schema={
            "type": "object",
            "properties": {
                "t": {
                    "type": "object",
                    "x-kubernetes-embedded-resource": True,
                    "x-kubernetes-preserve-unknown-fields": True,
                }
            },
        },
        value={"t": {"apiVersion": "v1"}},
        want=(("FieldValueRequired", "Required value", "spec.t.kind"),),
    ),
    "an embedded resource with a bad kind": SchemaCase(
        schema={
            "type": "object",
            "properties": {
                "t": {
                    "type": "object",
                    "x-kubernetes-embedded-resource": True,
                    "x-kubernetes-preserve-unknown-fields": True,
                }
            },
        },
        value={"t": {"apiVersion": "v1", "kind": "No Kind"}},
        want=(
            (
                "FieldValueInvalid",
                'Invalid value: "No Kind": may have mixed case, but should otherwise match: a DNS-1035 label must consist '
                "of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an "
                "alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
                "'[a-z]([-a-z0-9]*[a-z0-9])?')",
                "spec.t.kind",
            ),
        ),
    ),
}

CHECK_CASES: dict[str, CheckCase] = {
    "a schema without a type at the root": CheckCase(
        schema={"properties": {"spec": {"type": "object", "properties": {"a": INT}}}},
        want=(
            (
                "FieldValueRequired",
                "Required value: must not be empty at the root",
                "spec.validation.openAPIV3Schema.type",
            ),
        ),
    ),
    "a root that is no object": CheckCase(
        schema={"type": "array", "items": INT},
        want=(
            (
                "FieldValueInvalid",
                'Invalid value: "array": must be object at the root',
                "spec.validation.openAPIV3Schema.type",
            ),
        ),
    ),
    "a property without a type": CheckCase(
        schema={"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": {"minimum": 1}}}}},
        want=(
            (
                "FieldValueRequired",
                "Required value: must not be empty for specified object fields",
                "spec.validation.openAPIV3Schema.properties[spec].properties[a].type",
            ),
        ),
    ),
    "list items without a type": CheckCase(
        schema={
            "type": "object",
            "properties": {"spec": {"type": "object", "properties": {"a": {"type": "array", "items": {"minimum": 1}}}}},
        },
        want=(
            (
                "FieldValueRequired",
                "Required value: must not be empty for specified array items",
                "spec.validation.openAPIV3Schema.properties[spec].properties[a].items.type",
            ),
        ),
    ),
    "a list without items": CheckCase(
        schema={"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": {"type": "array"}}}}},
        want=(
            (
                "FieldValueRequired",
                "Required value: must be specified",
                "spec.validation.openAPIV3Schema.properties[spec].properties[a].items",
            ),
        ),
    ),
    "a type under anyOf": CheckCase(
        schema={
            "type": "object",
            "properties": {"spec": {"type": "object", "properties": {"a": {"type": "string", "anyOf": [STR]}}}},
        },
        want=(
            (
                "FieldValueForbidden",
                "Forbidden: must be empty to be structural",
                "spec.validation.openAPIV3Schema.properties[spec].properties[a].anyOf[0].type",
            ),
        ),
    ),
    "a description under oneOf": CheckCase(
        schema={
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {"a": {"type": "string", "oneOf": [{"description": "x", "pattern": "a"}]}},
                }
            },
        },
        want=(
            (
                "FieldValueForbidden",
                "Forbidden: must be empty to be structural",
                "spec.validation.openAPIV3Schema.properties[spec].properties[a].oneOf[0].description",
            ),
        ),
    ),
    "a default under allOf": CheckCase(
        schema={
            "type": "object",
            "properties": {
                "spec": {"type": "object", "properties": {"a": {"type": "string", "allOf": [{"default": "x"}]}}}
            },
        },
        want=(
            (
                "FieldValueForbidden",
                "Forbidden: must be undefined to be structural",
                "spec.validation.openAPIV3Schema.properties[spec].properties[a].allOf[0].default",
            ),
        ),
    ),
    "a field that only anyOf knows": CheckCase(
        schema={
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {"a": INT},
                    "anyOf": [{"required": ["b"], "properties": {"b": {"minimum": 1}}}],
                }
            },
        }
    ),
    "properties and additionalProperties together": CheckCase(
        schema={
            "type": "object",
            "properties": {"spec": {"type": "object", "properties": {"a": INT}, "additionalProperties": INT}},
        },
        want=(
            (
                "FieldValueForbidden",
                "Forbidden: additionalProperties and properties are mutual exclusive",
                "spec.validation.openAPIV3Schema.properties[spec].additionalProperties",
            ),
        ),
    ),
    "additionalProperties at the root": CheckCase(
        schema={"type": "object", "additionalProperties": STR},
        want=(
            (
                "FieldValueForbidden",
                "Forbidden: must not be used at the root",
                "spec.validation.openAPIV3Schema.additionalProperties",
            ),
        ),
    ),
    "an unknown type": CheckCase(
        schema={"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": {"type": "float"}}}}},
        want=(
            (
                "FieldValueNotSupported",
                'Unsupported value: "float": supported values: "array", "boolean", "integer", "number", "object", "string"',
                "spec.validation.openAPIV3Schema.properties[spec].properties[a].type",
            ),
        ),
    ),
    "the type null": CheckCase(
        schema={"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": {"type": "null"}}}}},
        want=(
            (
                "FieldValueNotSupported",
                'Unsupported value: "null": supported values: "array", "boolean", "integer", "number", "object", "string"',
                "spec.validation.openAPIV3Schema.properties[spec].properties[a].type",
            ),
            (
                "FieldValueForbidden",
                "Forbidden: type cannot be set to null, use nullable as an alternative",
                "spec.validation.openAPIV3Schema.properties[spec].properties[a].type",
            ),
        ),
    ),
    "uniqueItems": CheckCase(
        schema={
            "type": "object",
            "properties": {
                "spec": {"type": "object", "properties": {"a": {"type": "array", "items": INT, "uniqueItems": True}}}
            },
        },
        want=(
            (
                "FieldValueForbidden",
                "Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
                "spec.validation.openAPIV3Schema.properties[spec].properties[a].uniqueItems",
            ),
        ),
    ),
    "preserve-unknown-fields false": CheckCase(
        schema={
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {"a": {"type": "object", "x-kubernetes-preserve-unknown-fields": False}},
                }
            },
        },
        want=(
            (
                "FieldValueInvalid",
                "Invalid value: false: must be true or undefined",
                "spec.validation.openAPIV3Schema.properties[spec].properties[a].x-kubernetes-preserve-unknown-fields",
            ),
        ),
    ),
    "int-or-string with preserve-unknown-fields": CheckCase(
        schema={
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {
                        "a": {"x-kubernetes-int-or-string": True, "x-kubernetes-preserve-unknown-fields": True}
                    },
                }
            },
        },
        want=(
            (
                "FieldValueInvalid",
                "Invalid value: true: must be false if x-kubernetes-int-or-string is true",
                "spec.validation.openAPIV3Schema.properties[spec].properties[a].x-kubernetes-preserve-unknown-fields",
            ),
        ),
    ),
    "an embedded resource that is no object": CheckCase(
        schema={
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {"a": {"type": "string", "x-kubernetes-embedded-resource": True}},
                }
            },
        },
        want=(
            (
                "FieldValueRequired",
                "Required value: must not be empty if x-kubernetes-embedded-resource is true without "
                "x-kubernetes-preserve-unknown-fields",
                "spec.validation.openAPIV3Schema.properties[spec].properties[a].properties",
            ),
            (
                "FieldValueInvalid",
                'Invalid value: "string": must be object if x-kubernetes-embedded-resource is true',
                "spec.validation.openAPIV3Schema.properties[spec].properties[a].type",
            ),
        ),
    ),
    "an embedded resource without properties": CheckCase(
        schema={
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {"a": {"type": "object", "x-kubernetes-embedded-resource": True}},
                }
            },
        },
        want=(
            (
                "FieldValueRequired",
                "Required value: must not be empty if x-kubernetes-embedded-resource is true without "
                "x-kubernetes-preserve-unknown-fields",
                "spec.validation.openAPIV3Schema.properties[spec].properties[a].properties",
            ),
        ),
    ),
    "a pattern that is no regular expression": CheckCase(
        schema={
            "type": "object",
            "properties": {"spec": {"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}}},
        },
        want=(
            (
                "FieldValueInvalid",
                'Invalid value: "(": must be a valid regular expression, but isn\'t: error parsing regexp: missing closing '
                "): `(`",
                "spec.validation.openAPIV3Schema.properties[spec].properties[a].pattern",
            ),
        ),
    ),
    "a pattern with a look-ahead": CheckCase(
        schema={
            "type": "object",
            "properties": {"spec": {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(?!x)"}}}},
        },
        want=(
            (
                "FieldValueInvalid",
                'Invalid value: "^(?!x)": must be a valid regular expression, but isn\'t: error parsing regexp: invalid or '
                "unsupported Perl syntax: `(?!`",
                "spec.validation.openAPIV3Schema.properties[spec].properties[a].pattern",
            ),
        ),
    ),
    "a list-map without keys": CheckCase(
        schema={
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {
                        "a": {
                            "type": "array",
                            "x-kubernetes-list-type": "map",
                            "items": {"type": "object", "properties": {"n": STR}},
                        }
                    },
                }
            },
        },
        want=(
            (
                "FieldValueRequired",
                "Required value: must not be empty if x-kubernetes-list-type is map",
                "spec.validation.openAPIV3Schema.properties[spec].properties[a].x-kubernetes-list-map-keys",
            ),
        ),
    ),
    "keys without a list-map": CheckCase(
        schema={
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {
                        "a": {
                            "type": "array",
                            "x-kubernetes-list-map-keys": ["n"],
                            "items": {"type": "object", "properties": {"n": STR}},
                        }
                    },
                }
            },
        },
        want=(
            (
                "FieldValueRequired",
                "Required value: must be map if x-kubernetes-list-map-keys is non-empty",
                "spec.validation.openAPIV3Schema.properties[spec].properties[a].x-kubernetes-list-type",
            ),
        ),
    ),
    "keys of a set": CheckCase(
        schema={
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {
                        "a": {
                            "type": "array",
                            "x-kubernetes-list-type": "set",
                            "x-kubernetes-list-map-keys": ["n"],
                            "items": STR,
                        }
                    },
                }
            },
        },
        want=(
            (
                "FieldValueInvalid",
                'Invalid value: "set": must be map if x-kubernetes-list-map-keys is non-empty',
                "spec.validation.openAPIV3Schema.properties[spec].properties[a].x-kubernetes-list-type",
            ),
        ),
    ),
    "a list-map key that is not required": CheckCase(
        schema={
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {
                        "a": {
                            "type": "array",
                            "x-kubernetes-list-type": "map",
                            "x-kubernetes-list-map-keys": ["n"],
                            "items": {"type": "object", "properties": {"n": STR}},
                        }
                    },
                }
            },
        },
        want=(
            (
                "FieldValueRequired",
                "Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be a required "
                "property",
                "spec.validation.openAPIV3Schema.properties[spec].properties[a].items.properties[n].default",
            ),
        ),
    ),
    "a list-map key that is no property": CheckCase(
        schema={
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {
                        "a": {
                            "type": "array",
                            "x-kubernetes-list-type": "map",
                            "x-kubernetes-list-map-keys": ["q"],
                            "items": {"type": "object", "properties": {"n": STR}},
                        }
                    },
                }
            },
        },
        want=(
            (
                "FieldValueInvalid",
                'Invalid value: ["q"]: entries must all be names of item properties',
                "spec.validation.openAPIV3Schema.properties[spec].properties[a].x-kubernetes-list-map-keys",
            ),
        ),
    ),
    "a list-map of strings": CheckCase(
        schema={
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {
                        "a": {
                            "type": "array",
                            "x-kubernetes-list-type": "map",
                            "x-kubernetes-list-map-keys": ["q"],
                            "items": STR,
                        }
                    },
                }
            },
        },
        want=(
            (
                "FieldValueInvalid",
                'Invalid value: "string": must be object if parent array\'s x-kubernetes-list-type is map',
                "spec.validation.openAPIV3Schema.properties[spec].properties[a].items.type",
            ),
        ),
    ),
    "a list-map key that is an object": CheckCase(
        schema={
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {
                        "a": {
                            "type": "array",
                            "x-kubernetes-list-type": "map",
                            "x-kubernetes-list-map-keys": ["q"],
                            "items": {
                                "type": "object",
                                "required": ["q"],
                                "properties": {"q": {"type": "object", "properties": {"a": INT}}},
                            },
                        }
                    },
                }
            },
        },
        want=(
            (
                "FieldValueInvalid",
                'Invalid value: "object": must be a scalar type if parent array\'s x-kubernetes-list-type is map',
                "spec.validation.openAPIV3Schema.properties[spec].properties[a].items.properties[q].type",
            ),
        ),
    ),
    "a list-map of nullable items": CheckCase(
        schema={
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {
                        "a": {
                            "type": "array",
                            "x-kubernetes-list-type": "map",
                            "x-kubernetes-list-map-keys": ["q"],
                            "items": {"type": "object", "required": ["q"], "properties": {"q": STR}, "nullable": True},
                        }
                    },
                }
            },
        },
        want=(
            (
                "FieldValueForbidden",
                "Forbidden: cannot be nullable when x-kubernetes-list-type is map",
                "spec.validation.openAPIV3Schema.properties[spec].properties[a].items.nullable",
            ),
        ),
    ),
    "a set of granular objects": CheckCase(
        schema={
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {
                        "a": {
                            "type": "array",
                            "x-kubernetes-list-type": "set",
                            "items": {"type": "object", "properties": {"a": INT}},
                        }
                    },
                }
            },
        },
        want=(
            (
                "FieldValueInvalid",
                "Invalid value: null: must be atomic as item of a list with x-kubernetes-list-type=set",
                "spec.validation.openAPIV3Schema.properties[spec].properties[a].items.x-kubernetes-map-type",
            ),
        ),
    ),
    "an unknown list type": CheckCase(
        schema={
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {"a": {"type": "array", "x-kubernetes-list-type": "bag", "items": INT}},
                }
            },
        },
        want=(
            (
                "FieldValueNotSupported",
                'Unsupported value: "bag": supported values: "atomic", "set", "map"',
                "spec.validation.openAPIV3Schema.properties[spec].properties[a].x-kubernetes-list-type",
            ),
        ),
    ),
    "a list type on a string": CheckCase(
        schema={
            "type": "object",
            "properties": {
                "spec": {"type": "object", "properties": {"a": {"type": "string", "x-kubernetes-list-type": "set"}}}
            },
        },
        want=(
            (
                "FieldValueInvalid",
                'Invalid value: "string": must be array if x-kubernetes-list-type is specified',
                "spec.validation.openAPIV3Schema.properties[spec].properties[a].type",
            ),
        ),
    ),
    "an unknown map type": CheckCase(
        schema={
            "type": "object",
            "properties": {"spec": {"type": "object", "properties": {"a": INT}, "x-kubernetes-map-type": "loose"}},
        },
        want=(
            (
                "FieldValueNotSupported",
                'Unsupported value: "loose": supported values: "atomic", "granular"',
                "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-map-type",
            ),
        ),
    ),
    "a map type on a list": CheckCase(
        schema={
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {"a": {"type": "array", "items": INT, "x-kubernetes-map-type": "atomic"}},
                }
            },
        },
        want=(
            (
                "FieldValueInvalid",
                'Invalid value: "array": must be object if x-kubernetes-map-type is specified',
                "spec.validation.openAPIV3Schema.properties[spec].properties[a].type",
            ),
        ),
    ),
    "a default of the wrong type": CheckCase(
        schema={
            "type": "object",
            "properties": {"spec": {"type": "object", "properties": {"a": {"type": "integer", "default": "x"}}}},
        },
        want=(
            (
                "FieldValueTypeInvalid",
                'Invalid value: "string":  in body must be of type integer: "string"',
                "spec.validation.openAPIV3Schema.properties[spec].properties[a].default",
            ),
        ),
    ),
    "a default outside its bounds": CheckCase(
        schema={
            "type": "object",
            "properties": {
                "spec": {"type": "object", "properties": {"a": {"type": "integer", "minimum": 5, "default": 1}}}
            },
        },
        want=(
            (
                "FieldValueInvalid",
                "Invalid value: 1:  in body should be greater than or equal to 5",
                "spec.validation.openAPIV3Schema.properties[spec].properties[a].default",
            ),
        ),
    ),
    "a default with an unknown field": CheckCase(
        schema={
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {"a": {"type": "object", "properties": {"b": INT}, "default": {"b": 1, "c": 2}}},
                }
            },
        },
        want=(
            (
                "FieldValueInvalid",
                'Invalid value: {"b":1,"c":2}: must not have unknown fields',
                "spec.validation.openAPIV3Schema.properties[spec].properties[a].default",
            ),
        ),
    ),
    "a default that lacks a required field": CheckCase(
        schema={
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {"a": {"type": "object", "required": ["b"], "properties": {"b": INT}, "default": {}}},
                }
            },
        },
        want=(
            (
                "FieldValueRequired",
                "Required value",
                "spec.validation.openAPIV3Schema.properties[spec].properties[a].default.b",
            ),
        ),
    ),
    "a default that breaks a rule": CheckCase(
        schema={
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {
                        "a": {
                            "type": "integer",
                            "x-kubernetes-validations": [{"rule": "self > 5", "message": "above five"}],
                            "default": 1,
                        }
                    },
                }
            },
        },
        want=(
            (
                "FieldValueInvalid",
                "Invalid value: 1: above five",
                "spec.validation.openAPIV3Schema.properties[spec].properties[a].default",
            ),
        ),
    ),
    "a default in the metadata": CheckCase(
        schema={
            "type": "object",
            "properties": {
                "metadata": {"type": "object", "properties": {"name": {"type": "string", "default": "x"}}},
                "spec": {"type": "object", "properties": {"a": INT}},
            },
        },
        want=(
            (
                "FieldValueForbidden",
                "Forbidden: must not be set in top-level metadata",
                "spec.validation.openAPIV3Schema.properties[metadata].properties[name].default",
            ),
        ),
    ),
    "labels in the metadata": CheckCase(
        schema={
            "type": "object",
            "properties": {
                "metadata": {"type": "object", "properties": {"labels": {"type": "object"}}},
                "spec": {"type": "object", "properties": {"a": INT}},
            },
        },
        want=(
            (
                "FieldValueForbidden",
                "Forbidden: must not specify anything other than name and generateName, but metadata is implicitly "
                "specified",
                "spec.validation.openAPIV3Schema.properties[metadata]",
            ),
        ),
    ),
    "a pattern for the name": CheckCase(
        schema={
            "type": "object",
            "properties": {
                "metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 10}}},
                "spec": {"type": "object", "properties": {"a": INT}},
            },
        }
    ),
    "kind as an integer": CheckCase(
        schema={"type": "object", "properties": {"kind": INT, "spec": {"type": "object", "properties": {"a": INT}}}},
        want=(
            (
                "FieldValueInvalid",
                'Invalid value: "integer": must be string',
                "spec.validation.openAPIV3Schema.properties[kind].type",
            ),
        ),
    ),
    "nullable at the root": CheckCase(
        schema={
            "type": "object",
            "nullable": True,
            "properties": {"spec": {"type": "object", "properties": {"a": INT}}},
        },
        want=(
            (
                "FieldValueForbidden",
                "Forbidden: nullable cannot be true at the root",
                "spec.validation.openAPIV3Schema.nullable",
            ),
        ),
    ),
    "a rule with a syntax error": CheckCase(
        schema={
            "type": "object",
            "properties": {
                "spec": {"type": "object", "properties": {"a": INT}, "x-kubernetes-validations": [{"rule": "self.a <"}]}
            },
        },
        want=(
            (
                "FieldValueInvalid",
                'Invalid value: {"Rule":"self.a '
                '\\u003c","Message":"","MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}: '
                "compilation failed: ERROR: <input>:1:9: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', "
                "'.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}\n"
                " | self.a <\n"
                " | ........^",
                "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule",
            ),
        ),
    ),
    "a rule about a field that is not there": CheckCase(
        schema={
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {"a": INT},
                    "x-kubernetes-validations": [{"rule": "self.b > 1"}],
                }
            },
        },
        want=(
            (
                "FieldValueInvalid",
                'Invalid value: {"Rule":"self.b \\u003e '
                '1","Message":"","MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}: compilation '
                "failed: ERROR: <input>:1:5: undefined field 'b'\n"
                " | self.b > 1\n"
                " | ....^",
                "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule",
            ),
        ),
    ),
    "a rule about a nested field that is not there": CheckCase(
        schema={
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {"a": {"type": "object", "properties": {"b": INT}}},
                    "x-kubernetes-validations": [{"rule": "self.a.c > 1"}],
                }
            },
        },
        want=(
            (
                "FieldValueInvalid",
                'Invalid value: {"Rule":"self.a.c \\u003e '
                '1","Message":"","MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}: compilation '
                "failed: ERROR: <input>:1:7: undefined field 'c'\n"
                " | self.a.c > 1\n"
                " | ......^",
                "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule",
            ),
        ),
    ),
    "a rule about a field of list items that is not there": CheckCase(
        schema={
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {
                        "l": {"type": "array", "maxItems": 3, "items": {"type": "object", "properties": {"a": INT}}}
                    },
                    "x-kubernetes-validations": [{"rule": "self.l.all(x, x.b > 1)"}],
                }
            },
        },
        want=(
            (
                "FieldValueInvalid",
                'Invalid value: {"Rule":"self.l.all(x, x.b \\u003e '
                '1)","Message":"","MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}: compilation '
                "failed: ERROR: <input>:1:16: undefined field 'b'\n"
                " | self.l.all(x, x.b > 1)\n"
                " | ...............^",
                "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule",
            ),
        ),
    ),
    "a rule about a name that is not there": CheckCase(
        schema={
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {"a": INT},
                    "x-kubernetes-validations": [{"rule": "selff.a > 1"}],
                }
            },
        },
        want=(
            (
                "FieldValueInvalid",
                'Invalid value: {"Rule":"selff.a \\u003e '
                '1","Message":"","MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}: compilation '
                "failed: ERROR: <input>:1:1: undeclared reference to 'selff' (in container '')\n"
                " | selff.a > 1\n"
                " | ^",
                "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule",
            ),
        ),
    ),
    "a rule with an unknown function": CheckCase(
        schema={
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {"a": INT},
                    "x-kubernetes-validations": [{"rule": "frobnicate(self.a)"}],
                }
            },
        },
        want=(
            (
                "FieldValueInvalid",
                "Invalid value: "
                '{"Rule":"frobnicate(self.a)","Message":"","MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}: '
                "compilation failed: ERROR: <input>:1:11: undeclared reference to 'frobnicate' (in container '')\n"
                " | frobnicate(self.a)\n"
                " | ..........^",
                "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule",
            ),
        ),
    ),
    "a rule with an unknown method": CheckCase(
        schema={
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {"a": INT},
                    "x-kubernetes-validations": [{"rule": "self.a.frobnicate()"}],
                }
            },
        },
        want=(
            (
                "FieldValueInvalid",
                "Invalid value: "
                '{"Rule":"self.a.frobnicate()","Message":"","MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}: '
                "compilation failed: ERROR: <input>:1:18: undeclared reference to 'frobnicate' (in container '')\n"
                " | self.a.frobnicate()\n"
                " | .................^",
                "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule",
            ),
        ),
    ),
    "an empty rule": CheckCase(
        schema={
            "type": "object",
            "properties": {
                "spec": {"type": "object", "properties": {"a": INT}, "x-kubernetes-validations": [{"rule": " "}]}
            },
        },
        want=(
            (
                "FieldValueRequired",
                "Required value: rule is not specified",
                "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule",
            ),
        ),
    ),
    "a blank message": CheckCase(
        schema={
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {"a": INT},
                    "x-kubernetes-validations": [{"rule": "self.a > 1", "message": " "}],
                }
            },
        },
        want=(
            (
                "FieldValueInvalid",
                'Invalid value: " ": must be non-empty if specified',
                "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].message",
            ),
        ),
    ),
    "a message with a line break": CheckCase(
        schema={
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {"a": INT},
                    "x-kubernetes-validations": [{"rule": "self.a > 1", "message": "a\nb"}],
                }
            },
        },
        want=(
            (
                "FieldValueInvalid",
                'Invalid value: "a\\nb": must not contain line breaks',
                "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].message",
            ),
        ),
    ),
    "a rule with a line break and no message": CheckCase(
        schema={
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {"a": INT},
                    "x-kubernetes-validations": [{"rule": "self.a > 1 &&\nself.a < 5"}],
                }
            },
        },
        want=(
            (
                "FieldValueRequired",
                "Required value: message must be specified if rule contains line breaks",
                "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].message",
            ),
        ),
    ),
    "a rule with a bad reason": CheckCase(
        schema={
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {"a": INT},
                    "x-kubernetes-validations": [{"rule": "self.a > 1", "reason": "Whatever"}],
                }
            },
        },
        want=(
            (
                "FieldValueNotSupported",
                'Unsupported value: "Whatever": supported values: "FieldValueDuplicate", "FieldValueForbidden", '
                '"FieldValueInvalid", "FieldValueRequired"',
                "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].reason",
            ),
        ),
    ),
    "a fieldPath that is not there": CheckCase(
        schema={
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {"a": INT},
                    "x-kubernetes-validations": [{"rule": "self.a > 1", "fieldPath": ".b"}],
                }
            },
        },
        want=(
            (
                "FieldValueInvalid",
                'Invalid value: ".b": must be a valid path',
                "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].fieldPath",
            ),
        ),
    ),
    "oldSelf in the items of an atomic list": CheckCase(
        schema={
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {
                        "l": {
                            "type": "array",
                            "maxItems": 3,
                            "items": {
                                "type": "object",
                                "properties": {"a": INT},
                                "x-kubernetes-validations": [{"rule": "self.a == oldSelf.a"}],
                            },
                        }
                    },
                }
            },
        },
        want=(
            (
                "FieldValueInvalid",
                'Invalid value: "self.a == oldSelf.a": oldSelf cannot be used on the uncorrelatable portion of the schema '
                "within spec.validation.openAPIV3Schema.properties[spec].properties[l]",
                "spec.validation.openAPIV3Schema.properties[spec].properties[l].items.x-kubernetes-validations[0].rule",
            ),
        ),
    ),
    "optionalOldSelf without oldSelf": CheckCase(
        schema={
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {"a": INT},
                    "x-kubernetes-validations": [{"rule": "self.a > 1", "optionalOldSelf": True}],
                }
            },
        },
        want=(
            (
                "FieldValueInvalid",
                "Invalid value: true: may not be set if oldSelf is not used in rule",
                "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].optionalOldSelf",
            ),
        ),
    ),
    "a rule under allOf": CheckCase(
        schema={
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {
                        "a": {"type": "integer", "allOf": [{"x-kubernetes-validations": [{"rule": "self > 1"}]}]}
                    },
                }
            },
        },
        want=(
            (
                "FieldValueForbidden",
                "Forbidden: must be empty to be structural",
                "spec.validation.openAPIV3Schema.properties[spec].properties[a].allOf[0].x-kubernetes-validations",
            ),
        ),
    ),
    "a message expression with a syntax error": CheckCase(
        schema={
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {"a": INT},
                    "x-kubernetes-validations": [{"rule": "self.a > 1", "messageExpression": "'a' +"}],
                }
            },
        },
        want=(
            (
                "FieldValueInvalid",
                'Invalid value: {"Rule":"self.a \\u003e 1","Message":"","MessageExpression":"\'a\' '
                '+","Reason":null,"FieldPath":"","OptionalOldSelf":null}: messageExpression compilation failed: ERROR: '
                "<input>:1:6: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', "
                "'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}\n"
                " | 'a' +\n"
                " | .....^",
                "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].messageExpression",
            ),
        ),
    ),
    "a sound schema": CheckCase(
        schema={
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {
                        "a": {"type": "integer", "default": 3, "minimum": 1},
                        "m": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                    },
                    "x-kubernetes-validations": [{"rule": "self.a > 0"}],
                }
            },
        }
    ),
}
