"""Unknown fields go and are named; defaults and nulls are treated as the API server treats them."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localcluster.schema import StructuralSchema

Json = dict[str, Any]
_META: Json = {"name": "a"}


def _object(**fields: Any) -> Json:
    return {"apiVersion": "example.com/v1", "kind": "Foo", "metadata": dict(_META), **fields}


@dataclass(frozen=True)
class PruneCase:
    spec: Json
    value: Any
    want: Any
    want_unknown: list[str] = field(default_factory=list)


_INT: Json = {"type": "integer"}

PRUNE: dict[str, PruneCase] = {
    "a field that the schema does not know goes": PruneCase(
        {"type": "object", "properties": {"a": _INT}}, {"a": 1, "b": 2}, {"a": 1}, ["spec.b"]
    ),
    "fields of list items are named with their index": PruneCase(
        {
            "type": "object",
            "properties": {"l": {"type": "array", "items": {"type": "object", "properties": {"a": _INT}}}},
        },
        {"l": [{"a": 1}, {"b": 1}]},
        {"l": [{"a": 1}, {}]},
        ["spec.l[1].b"],
    ),
    "entries of a map stay, what is unknown in them goes": PruneCase(
        {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": _INT}}},
        {"x": {"a": 1, "b": 1}},
        {"x": {"a": 1}},
        ["spec.x.b"],
    ),
    "additionalProperties true keeps scalars, but of objects only the shell": PruneCase(
        {"type": "object", "additionalProperties": True}, {"x": 1, "y": {"z": 1}}, {"x": 1, "y": {}}, ["spec.y.z"]
    ),
    "everything stays where unknown fields are preserved": PruneCase(
        {"type": "object", "x-kubernetes-preserve-unknown-fields": True}, {"x": {"y": [1]}}, {"x": {"y": [1]}}
    ),
    "a property with a schema is pruned though its parent preserves": PruneCase(
        {
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": True,
            "properties": {"a": {"type": "object", "properties": {"b": _INT}}},
        },
        {"z": 1, "a": {"b": 1, "c": 1}},
        {"z": 1, "a": {"b": 1}},
        ["spec.a.c"],
    ),
    "an embedded resource keeps its type and loses unknown metadata": PruneCase(
        {
            "type": "object",
            "x-kubernetes-embedded-resource": True,
            "properties": {"spec": {"type": "object", "properties": {"a": _INT}}},
        },
        {
            "apiVersion": "v1",
            "kind": "X",
            "metadata": {"name": "x", "color": "red"},
            "spec": {"a": 1, "b": 2},
            "status": {},
        },
        {"apiVersion": "v1", "kind": "X", "metadata": {"name": "x"}, "spec": {"a": 1}},
        ["spec.spec.b", "spec.status", "spec.metadata.color"],
    ),
    "a null that may not be and has no default goes, and is not told": PruneCase(
        {"type": "object", "properties": {"a": _INT, "b": {**_INT, "nullable": True}}},
        {"a": None, "b": None},
        {"b": None},
    ),
}


@pytest.mark.parametrize("case", PRUNE.values(), ids=PRUNE.keys())
def test_pruning(case: PruneCase) -> None:
    schema = StructuralSchema({"type": "object", "properties": {"spec": case.spec}})
    obj = _object(spec=copy.deepcopy(case.value))
    assert schema.prune(obj) == [f'unknown field "{path}"' for path in case.want_unknown]
    assert obj == _object(spec=case.want)
    assert schema.prune(obj) == [], "a second run finds nothing"
    assert obj == _object(spec=case.want)


def test_unknown_metadata_is_told_before_unknown_fields_at_the_root() -> None:
    obj = {
        **_object(spec={"a": 1}, zzz=1),
        "metadata": {"name": "a", "foo": 1, "ownerReferences": [{"uid": "u", "bar": 1}]},
    }
    unknown = StructuralSchema(
        {"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": _INT}}}}
    ).prune(obj)
    assert unknown == [
        'unknown field "metadata.foo"',
        'unknown field "metadata.ownerReferences[0].bar"',
        'unknown field "zzz"',
    ]
    assert obj["metadata"] == {"name": "a", "ownerReferences": [{"uid": "u"}]}


@dataclass(frozen=True)
class DefaultCase:
    spec: Json
    value: Any
    want: Any


DEFAULT: dict[str, DefaultCase] = {
    "an absent field gets its default": DefaultCase(
        {"type": "object", "properties": {"a": {**_INT, "default": 3}}}, {}, {"a": 3}
    ),
    "a field that is set keeps its value": DefaultCase(
        {"type": "object", "properties": {"a": {**_INT, "default": 3}}}, {"a": 0}, {"a": 0}
    ),
    "a null that may not be gets the default": DefaultCase(
        {"type": "object", "properties": {"a": {**_INT, "default": 3}}}, {"a": None}, {"a": 3}
    ),
    "a null that may be stays": DefaultCase(
        {"type": "object", "properties": {"a": {**_INT, "default": 3, "nullable": True}}}, {"a": None}, {"a": None}
    ),
    "defaults inside an absent object do not make the object": DefaultCase(
        {"type": "object", "properties": {"o": {"type": "object", "properties": {"a": {**_INT, "default": 3}}}}}, {}, {}
    ),
    "defaults inside a defaulted object apply": DefaultCase(
        {
            "type": "object",
            "properties": {"o": {"type": "object", "default": {}, "properties": {"a": {**_INT, "default": 3}}}},
        },
        {},
        {"o": {"a": 3}},
    ),
    "items of a list and entries of a map get theirs": DefaultCase(
        {
            "type": "object",
            "properties": {
                "l": {"type": "array", "items": {"type": "object", "properties": {"a": {**_INT, "default": 3}}}},
                "m": {
                    "type": "object",
                    "additionalProperties": {"type": "object", "properties": {"a": {**_INT, "default": 4}}},
                },
            },
        },
        {"l": [{}, {"a": 1}], "m": {"x": {}}},
        {"l": [{"a": 3}, {"a": 1}], "m": {"x": {"a": 4}}},
    ),
}


@pytest.mark.parametrize("case", DEFAULT.values(), ids=DEFAULT.keys())
def test_defaulting(case: DefaultCase) -> None:
    schema = StructuralSchema({"type": "object", "properties": {"spec": case.spec}})
    obj = _object(spec=copy.deepcopy(case.value))
    schema.default(obj)
    assert obj == _object(spec=case.want)
    schema.default(obj)
    assert obj == _object(spec=case.want), "a second run changes nothing"


def test_a_default_is_copied_not_shared() -> None:
    schema = StructuralSchema(
        {
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "default": {},
                    "properties": {"l": {"type": "array", "items": _INT, "default": [1]}},
                }
            },
        }
    )
    first, second = _object(), _object()
    schema.default(first)
    first["spec"]["l"].append(2)
    schema.default(second)
    assert second["spec"] == {"l": [1]}


_scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=5))
_json = st.recursive(
    _scalars,
    lambda c: st.one_of(st.lists(c, max_size=3), st.dictionaries(st.sampled_from("abcdz"), c, max_size=4)),
    max_leaves=12,
)
_bounds = st.fixed_dictionaries(
    {},
    optional={
        "minimum": st.integers(-3, 3),
        "maxLength": st.integers(0, 3),
        "pattern": st.sampled_from(["^a", "b$"]),
        "enum": st.just([1, "a"]),
        "maxItems": st.integers(0, 2),
        "nullable": st.booleans(),
        "multipleOf": st.sampled_from([2, 0.5]),
        "format": st.sampled_from(["date-time", "int32", "byte"]),
    },
)
_leaf = st.tuples(st.sampled_from(["integer", "number", "string", "boolean"]), _bounds).map(
    lambda p: {"type": p[0], **p[1]}
)


def _composite(child: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    return st.one_of(
        st.dictionaries(st.sampled_from("abcd"), child, min_size=1, max_size=3).map(
            lambda p: {"type": "object", "properties": p}
        ),
        child.map(lambda c: {"type": "object", "additionalProperties": c}),
        child.map(lambda c: {"type": "array", "items": c}),
        child.map(lambda c: {"type": "array", "items": c, "x-kubernetes-list-type": "set"}),
        st.tuples(child, child).map(
            lambda p: {
                **p[0],
                "anyOf": [{k: v for k, v in p[1].items() if k in ("minimum", "pattern", "enum")}, {"maxLength": 1}],
            }
        ),
        st.just({"x-kubernetes-int-or-string": True}),
        st.just({"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
    )


_schemas = st.recursive(_leaf, _composite, max_leaves=8)


@settings(max_examples=200, deadline=None)
@given(spec=_schemas, value=_json, old=_json)
def test_no_json_makes_it_raise_and_a_second_run_changes_nothing(spec: Json, value: Any, old: Any) -> None:
    schema = StructuralSchema({"type": "object", "properties": {"spec": spec}})
    obj, before = _object(spec=copy.deepcopy(value)), _object(spec=old)
    schema.prune(obj)
    schema.default(obj)
    once = copy.deepcopy(obj)
    assert schema.prune(obj) == []
    schema.default(obj)
    assert obj == once
    schema.validate(obj)
    schema.validate(obj, before)
    assert obj == once


@settings(max_examples=100, deadline=None)
@given(spec=_schemas, value=_json)
def test_an_update_that_changes_nothing_is_let_through(spec: Json, value: Any) -> None:
    """Ratcheting, where it can be told that nothing changed: an object whose every field has a schema."""
    schema = StructuralSchema({"type": "object", "properties": {"spec": spec}})
    obj = _object(spec=value)
    schema.prune(obj)
    schema.default(obj)
    if isinstance(obj.get("spec"), str | int | float | bool):
        assert schema.validate(obj, copy.deepcopy(obj)) == []


@settings(max_examples=150, deadline=None)
@given(schema=_json)
def test_no_schema_makes_the_check_raise(schema: Any) -> None:
    root = (
        {"type": "object", "properties": {"spec": schema}}
        if isinstance(schema, dict)
        else {"type": "object", "properties": schema}
    )
    StructuralSchema(root).check()
