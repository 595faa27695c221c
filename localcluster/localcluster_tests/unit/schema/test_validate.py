"""What the API server passes to validation besides an object: a subresource, errors found before, and how it sums
up."""

from __future__ import annotations

from typing import Any

from localcluster.schema import FieldCause, StructuralSchema, aggregate
from localcluster.schema.gotext import go_float, go_json, go_quote, go_value

_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "spec": {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}},
        "status": {
            "type": "object",
            "required": ["phase"],
            "properties": {
                "phase": {"type": "string", "enum": ["A"]},
                "count": {"type": "integer", "anyOf": [{"minimum": 5}]},
            },
        },
    },
    "x-kubernetes-validations": [{"rule": "!has(self.spec) || self.spec.n != 7", "message": "not seven"}],
}


def _object(**fields: Any) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "a"}, **fields}


def test_a_status_write_is_checked_for_its_status_alone() -> None:
    schema = StructuralSchema(_SCHEMA)
    causes = schema.validate(_object(spec={"n": 0}, status={"phase": "B", "count": 1}), _object(), subresource="status")
    assert [str(cause) for cause in causes] == [
        'status.phase: Unsupported value: "B": supported values: "A"',
        'status: Invalid value: "": "count" must validate at least one schema (anyOf)',
        "status.count: Invalid value: 1: count in body should be greater than or equal to 5",
        "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; "
        "correct the existing errors to complete validation",
    ]
    assert schema.validate(_object(spec={"n": 0}), _object(), subresource="status") == []


def test_errors_found_before_stop_the_rules_and_are_not_repeated() -> None:
    schema = StructuralSchema(_SCHEMA)
    before = [FieldCause("FieldValueRequired", "Required value", "metadata.name")]
    assert [cause.field for cause in schema.validate(_object(spec={"n": 7}))] == ["<nil>"]
    causes = schema.validate(_object(spec={"n": 7}), prior=before)
    assert len(causes) == 1
    assert "some validation rules were not checked" in causes[0].message


def test_one_cause_stands_alone_and_several_in_brackets_each_once() -> None:
    one, two = (
        FieldCause("FieldValueRequired", "Required value", "a"),
        FieldCause("FieldValueRequired", "Required value", "b"),
    )
    assert aggregate([one]) == "a: Required value"
    assert aggregate([one, two, one]) == "[a: Required value, b: Required value]"


def test_values_are_printed_as_go_prints_them() -> None:
    numbers = {
        1.0: "1",
        0.5: "0.5",
        1e20: "100000000000000000000",
        1e21: "1e+21",
        1e-5: "1e-05",
        -0.0001: "-0.0001",
        123456789.25: "123456789.25",
    }
    assert {number: go_float(number) for number in numbers} == numbers
    assert go_json({"b": 1e-7, "a": ["<x>", None, True]}) == '{"a":["\\u003cx\\u003e",null,true],"b":1e-7}'
    assert go_quote('a"\\\n\t\x01é\u200b') == '"a\\"\\\\\\n\\t\\x01é\\u200b"'
    assert go_value(True) == "true"
    assert go_value(3) == "3"
