"""NormalParts: what is left out is what the step would have left as it is, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from localcluster.schema import StructuralSchema
from localcluster.schema.normal import LARGEST_BYTES, MOST_PARTS, NormalParts

Json = dict[str, Any]


class Step:
    """Takes `bad` out of the spec and tells of it, tells of `wrong` and leaves it; notes whether it was shown the spec."""

    def __init__(self) -> None:
        self.shown: list[Any] = []

    def __call__(self, obj: Json) -> list[str]:
        self.shown.append(dict(obj["spec"]) if isinstance(obj.get("spec"), dict) else obj.get("spec"))
        if isinstance(obj.get("spec"), dict) and obj["spec"].pop("bad", None) is not None:
            return ["bad"]
        if isinstance(obj.get("spec"), dict) and "wrong" in obj["spec"]:
            return ["wrong"]
        if obj.get("status") == "strange":
            raise ValueError
        return []


@dataclass(frozen=True)
class Case:
    first: Json
    then: Json
    want_shown: Any
    """What the step gets to see of the second object's spec."""
    want: Json = field(default_factory=dict)
    """The second object afterwards, when it is not as before."""


CASES: dict[str, Case] = {
    "the same spec is left out": Case({"spec": {"a": 1}}, {"spec": {"a": 1}}, {}),
    "it is left out of another object, too": Case({"spec": {"a": 1}}, {"status": 7, "spec": {"a": 1}}, {}),
    "another spec is not": Case({"spec": {"a": 1}}, {"spec": {"a": 2}}, {"a": 2}),
    "a number of another type is another": Case({"spec": {"a": 1}}, {"spec": {"a": 1.0}}, {"a": 1.0}),
    "true is not 1": Case({"spec": {"a": 1}}, {"spec": {"a": True}}, {"a": True}),
    "what was told of is told of again": Case({"spec": {"bad": 1}}, {"spec": {"bad": 1}}, {"bad": 1}, {"spec": {}}),
    "what was told of and left is told of again": Case({"spec": {"wrong": 1}}, {"spec": {"wrong": 1}}, {"wrong": 1}),
    "what is no object is shown": Case({"spec": [1]}, {"spec": [1]}, [1]),
    "what no JSON holds is shown": Case({"spec": {"a": b"1"}}, {"spec": {"a": b"1"}}, {"a": b"1"}),
    "what is very large is not kept": Case(
        {"spec": {"a": "x" * LARGEST_BYTES}}, {"spec": {"a": "x" * LARGEST_BYTES}}, {"a": "x" * LARGEST_BYTES}
    ),
}


@pytest.mark.parametrize("sentence", CASES)
def test_a_part_that_was_normal_is_not_shown_again(sentence: str) -> None:
    case = CASES[sentence]
    parts, step = NormalParts(), Step()
    parts.through(case.first, step)
    want = case.want or dict(case.then)
    order = list(case.then)
    parts.through(case.then, step)
    assert step.shown[1] == case.want_shown
    assert case.then == want
    assert list(case.then) == order


def test_a_step_that_raises_leaves_the_object_whole() -> None:
    parts, step = NormalParts(), Step()
    parts.through({"spec": {"a": 1}}, step)
    obj = {"spec": {"a": 1}, "status": "strange"}
    with pytest.raises(ValueError):  # noqa: PT011  the step's own
        parts.through(obj, step)
    assert obj["spec"] == {"a": 1}


def test_the_least_recently_used_part_is_forgotten_first() -> None:
    parts, step = NormalParts(), Step()
    for number in range(MOST_PARTS):
        parts.through({"spec": {"a": number}}, step)
    parts.through({"spec": {"a": 0}}, step)
    parts.through({"spec": {"a": MOST_PARTS}}, step)
    step.shown.clear()
    for number in (0, 1):
        parts.through({"spec": {"a": number}}, step)
    assert step.shown == [{}, {"a": 1}]


def test_a_schema_prunes_and_defaults_the_second_object_as_the_first() -> None:
    schema = StructuralSchema(
        {
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {"a": {"type": "integer"}, "b": {"type": "integer", "default": 7}},
                },
                "status": {"type": "object", "properties": {"c": {"type": "integer", "default": 8}}},
            },
        }
    )
    for _ in range(3):
        obj: Json = {"spec": {"a": 1, "b": 2}, "status": {"x": 1}}
        assert schema.prune(obj) == ['unknown field "status.x"']
        schema.default(obj)
        assert obj == {"spec": {"a": 1, "b": 2}, "status": {"c": 8}}
        unknown: Json = {"spec": {"a": 1, "x": 2}}
        assert schema.prune(unknown) == ['unknown field "spec.x"']
        schema.default(unknown)
        assert unknown == {"spec": {"a": 1, "b": 7}}


def test_a_schema_refuses_a_list_with_an_item_twice_each_time() -> None:
    schema = StructuralSchema(
        {
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {
                        "names": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}
                    },
                }
            },
        }
    )
    for _ in range(2):
        assert [cause.field for cause in schema.validate({"spec": {"names": ["a", "a"]}})] == ["spec.names[1]"]
        assert schema.validate({"spec": {"names": ["a", "b"]}}) == []
