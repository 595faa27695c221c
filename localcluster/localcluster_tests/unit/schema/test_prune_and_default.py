"""Unknown fields go and are named; defaults and nulls are treated as the API server treats them."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from localcluster.schema import StructuralSchema

Json = dict[str, Any]
_META: Json = {"name": "a"}


def _object(**fields: Any) -> Json:
    return {"apiVersion": "example.com/v1", "kind": "Foo", "metadata": dict(_META), **fields}


_INT: Json = {"type": "integer"}


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


@settings(max_examples=60, deadline=None)
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


@settings(max_examples=60, deadline=None)
@given(schema=_json)
def test_no_schema_makes_the_check_raise(schema: Any) -> None:
    root = (
        {"type": "object", "properties": {"spec": schema}}
        if isinstance(schema, dict)
        else {"type": "object", "properties": schema}
    )
    StructuralSchema(root).check()
