"""JSON patch, JSON merge patch and strategic merge patch: results and errors of the API server's own libraries."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localcluster.patch import json_patch, merge_patch, strategic_merge_patch

Json = dict[str, Any]


@dataclass(frozen=True)
class Case:
    obj: Json
    patch: Any
    want: Json | None = None
    want_error: str = ""


_DOC: Json = {"a": {"b": 1}, "l": [1, 2, 3], "n": None}


def _op(op: str, path: str, **rest: Any) -> Json:
    return {"op": op, "path": path, **rest}


JSON_PATCH: dict[str, Case] = {
    "add a field": Case(_DOC, [_op("add", "/a/c", value=2)], {**_DOC, "a": {"b": 1, "c": 2}}),
    "add at an index, and at the end": Case(
        _DOC, [_op("add", "/l/1", value=9), _op("add", "/l/-", value=8)], {**_DOC, "l": [1, 9, 2, 3, 8]}
    ),
    "a negative index counts from the end": Case(_DOC, [_op("remove", "/l/-1")], {**_DOC, "l": [1, 2]}),
    "remove": Case(_DOC, [_op("remove", "/a/b")], {**_DOC, "a": {}}),
    "replace a field that is not there": Case(_DOC, [_op("replace", "/a/z", value=2)], {**_DOC, "a": {"b": 1, "z": 2}}),
    "move": Case(_DOC, [_op("move", "/x", **{"from": "/a/b"})], {"a": {}, "l": [1, 2, 3], "n": None, "x": 1}),
    "copy": Case(_DOC, [_op("copy", "/x", **{"from": "/l"})], {**_DOC, "x": [1, 2, 3]}),
    "escaped names": Case({"a/b": 1, "c~d": 2}, [_op("remove", "/a~1b"), _op("remove", "/c~0d")], {}),
    "a test that holds": Case(_DOC, [_op("test", "/a/b", value=1), _op("test", "/absent", value=None)], _DOC),
    "a test that fails": Case(
        _DOC, [_op("test", "/a/b", value=2)], want_error="testing value /a/b failed: test failed"
    ),
    "true is not one": Case(
        _DOC, [_op("test", "/a/b", value=True)], want_error="testing value /a/b failed: test failed"
    ),
    "remove what is not there": Case(
        _DOC,
        [_op("remove", "/z")],
        want_error="error in remove for path: '/z': Unable to remove nonexistent key: z: missing value",
    ),
    "add below what is not there": Case(
        _DOC,
        [_op("add", "/z/y", value=1)],
        want_error='add operation does not apply: doc is missing path: "/z/y": missing value',
    ),
    "an index out of range": Case(
        _DOC,
        [_op("add", "/l/9", value=1)],
        want_error="error in add for path: '/l/9': Unable to access invalid index: 9: invalid index referenced",
    ),
    "no such operation": Case(_DOC, [_op("bump", "/a")], want_error="Unexpected kind: bump"),
    "an operation without a path": Case(
        _DOC, [{"op": "remove"}], want_error="remove operation failed to decode path: missing value"
    ),
    "operations are a list": Case(
        _DOC, {"op": "remove"}, want_error="json: cannot unmarshal object into Go value of type jsonpatch.Patch"
    ),
    "all or nothing": Case(
        _DOC, [_op("remove", "/a"), _op("test", "/l", value=0)], want_error="testing value /l failed: test failed"
    ),
}

MERGE_PATCH: dict[str, Case] = {
    "objects merge": Case({"a": {"b": 1, "c": 2}}, {"a": {"c": 3}}, {"a": {"b": 1, "c": 3}}),
    "null removes": Case({"a": {"b": 1}, "c": 1}, {"a": {"b": None}, "c": None}, {"a": {}}),
    "lists are replaced": Case({"l": [1, 2]}, {"l": [3]}, {"l": [3]}),
    "an object takes the place of a scalar, without its nulls": Case(
        {"a": 1}, {"a": {"b": None, "c": 2}}, {"a": {"c": 2}}
    ),
    "nulls in what is new go, inside lists too": Case({}, {"l": [{"a": None, "b": 1}, None]}, {"l": [{"b": 1}, None]}),
    "a patch is an object": Case({"a": 1}, [1], want_error="Invalid JSON Patch"),
}


def _pod(**spec: Any) -> Json:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "finalizers": ["x/a", "x/b"]}, "spec": spec}


_TWO: Json = _pod(
    containers=[{"name": "a", "image": "1", "env": [{"name": "E", "value": "1"}]}, {"name": "b", "image": "2"}]
)

STRATEGIC: dict[str, Case] = {
    "containers merge by name, new ones come first in the patch's order": Case(
        _TWO,
        {"spec": {"containers": [{"name": "c", "image": "3"}, {"name": "b", "image": "9"}]}},
        _pod(containers=[{"name": "c", "image": "3"}, _TWO["spec"]["containers"][0], {"name": "b", "image": "9"}]),
    ),
    "an item is deleted by its key": Case(
        _TWO,
        {"spec": {"containers": [{"name": "a", "$patch": "delete"}]}},
        _pod(containers=[{"name": "b", "image": "2"}]),
    ),
    "a list is replaced": Case(
        _TWO, {"spec": {"containers": [{"name": "z"}, {"$patch": "replace"}]}}, _pod(containers=[{"name": "z"}])
    ),
    "a map is replaced": Case(
        _pod(securityContext={"a": 1}),
        {"spec": {"securityContext": {"$patch": "replace", "b": 2}}},
        _pod(securityContext={"b": 2}),
    ),
    "null removes a field": Case(_pod(priority=1), {"spec": {"priority": None}}, _pod()),
    "env merges inside containers": Case(
        _TWO,
        {"spec": {"containers": [{"name": "a", "env": [{"name": "F", "value": "2"}]}]}},
        _pod(
            containers=[
                {"name": "a", "image": "1", "env": [{"name": "F", "value": "2"}, {"name": "E", "value": "1"}]},
                {"name": "b", "image": "2"},
            ]
        ),
    ),
    "the order is set": Case(
        _TWO,
        {"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}},
        _pod(containers=[_TWO["spec"]["containers"][1], _TWO["spec"]["containers"][0]]),
    ),
    "finalizers are a set": Case(
        _pod(),
        {"metadata": {"finalizers": ["x/c"], "$deleteFromPrimitiveList/finalizers": ["x/a"]}},
        {**_pod(), "metadata": {"name": "a", "finalizers": ["x/c", "x/b"]}},
    ),
    "a volume keeps only the keys that it retains": Case(
        _pod(volumes=[{"name": "v", "emptyDir": {}}]),
        {"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]}},
        _pod(volumes=[{"name": "v", "hostPath": {"path": "/x"}}]),
    ),
    "tolerations have no key and are replaced": Case(
        _pod(tolerations=[{"key": "a"}]), {"spec": {"tolerations": [{"key": "b"}]}}, _pod(tolerations=[{"key": "b"}])
    ),
    "an item without its key": Case(
        _TWO,
        {"spec": {"containers": [{"image": "x"}]}},
        want_error="map: map[image:x] does not contain declared merge key: name",
    ),
    "an unknown directive": Case(
        _TWO, {"spec": {"$patch": "explode"}}, want_error="unknown patch type: explode in map: map[$patch:explode]"
    ),
    "keys to retain that the patch goes beyond": Case(
        _pod(), {"spec": {"$retainKeys": ["a"], "b": 1}}, want_error="invalid patch format of retainKeys"
    ),
    "an order that the patch does not keep": Case(
        _TWO,
        {
            "spec": {
                "$setElementOrder/containers": [{"name": "b"}, {"name": "a"}],
                "containers": [{"name": "a"}, {"name": "b"}],
            }
        },
        want_error="The order in patch list:\n[map[name:a] map[name:b]]\n"
        " doesn't match $setElementOrder list:\n[map[name:b] map[name:a]]\n",
    ),
}


def _check(case: Case, apply: Any) -> None:
    obj, patch = copy.deepcopy(case.obj), copy.deepcopy(case.patch)
    if case.want_error:
        with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole text is compared
            apply(obj, patch)
        assert str(caught.value) == case.want_error
    else:
        assert apply(obj, patch) == case.want
    assert (obj, patch) == (case.obj, case.patch), "a patch changes neither of its arguments"


@pytest.mark.parametrize("case", JSON_PATCH.values(), ids=JSON_PATCH.keys())
def test_json_patch(case: Case) -> None:
    _check(case, json_patch)


@pytest.mark.parametrize("case", MERGE_PATCH.values(), ids=MERGE_PATCH.keys())
def test_merge_patch(case: Case) -> None:
    _check(case, merge_patch)


@pytest.mark.parametrize("case", STRATEGIC.values(), ids=STRATEGIC.keys())
def test_strategic_merge_patch_of_a_pod(case: Case) -> None:
    _check(case, lambda obj, patch: strategic_merge_patch(obj, patch, "Pod"))


def test_strategic_merge_goes_by_the_kind() -> None:
    conditions = {"status": {"conditions": [{"type": "Ready", "status": "False"}, {"type": "Disk", "status": "True"}]}}
    patch = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    merged = strategic_merge_patch(conditions, patch, "Node")
    assert merged["status"]["conditions"] == [{"type": "Ready", "status": "True"}, {"type": "Disk", "status": "True"}]
    taints = strategic_merge_patch({"spec": {"taints": [{"key": "a"}]}}, {"spec": {"taints": [{"key": "b"}]}}, "Node")
    assert taints["spec"]["taints"] == [{"key": "b"}]
    ports = strategic_merge_patch(
        {"spec": {"ports": [{"port": 80, "name": "a"}]}}, {"spec": {"ports": [{"port": 80, "name": "b"}]}}, "Service"
    )
    assert ports["spec"]["ports"] == [{"port": 80, "name": "b"}]


_values = st.recursive(
    st.one_of(st.booleans(), st.integers(-3, 3), st.text(max_size=3)),
    lambda child: st.one_of(st.lists(child, max_size=3), st.dictionaries(st.sampled_from("abcd"), child, max_size=4)),
    max_leaves=10,
)
_objects = st.dictionaries(st.sampled_from("abcd"), _values, max_size=4)


def _difference(old: Json, new: Json) -> Json:
    patch: Json = {key: None for key in old if key not in new}
    for key, value in new.items():
        if key not in old:
            patch[key] = value
        elif isinstance(value, dict) and isinstance(old[key], dict):
            patch[key] = _difference(old[key], value)
        elif type(value) is not type(old[key]) or value != old[key]:
            patch[key] = value
    return patch


@settings(max_examples=300, deadline=None)
@given(old=_objects, new=_objects)
def test_a_merge_patch_of_the_difference_gives_the_new_object(old: Json, new: Json) -> None:
    patch = _difference(old, new)
    assert merge_patch(old, patch) == new
    assert merge_patch(new, patch) == new, "and once more changes nothing"


@settings(max_examples=200, deadline=None)
@given(obj=_objects, patch=_objects)
def test_a_strategic_patch_of_a_plain_object_is_a_merge_patch(obj: Json, patch: Json) -> None:
    assert strategic_merge_patch({"data": obj}, {"data": patch}, "ConfigMap") == merge_patch(
        {"data": obj}, {"data": patch}
    )


_operations = st.lists(
    st.fixed_dictionaries(
        {
            "op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test", "bogus"]),
            "path": st.sampled_from(["/a", "/a/b", "/b/0", "/b/-", "/b/-1", "", "/c/d/e", "x"]),
        },
        optional={"value": _values, "from": st.sampled_from(["/a", "/b/0", "/c"])},
    ),
    max_size=4,
)


@settings(max_examples=300, deadline=None)
@given(obj=_objects, operations=_operations)
def test_a_json_patch_works_or_raises_value_error(obj: Json, operations: list[Json]) -> None:
    before = copy.deepcopy((obj, operations))
    told = "it worked"
    try:
        json_patch(obj, operations)
    except ValueError as error:
        told = str(error)
    assert told, "an error says something"
    assert (obj, operations) == before
