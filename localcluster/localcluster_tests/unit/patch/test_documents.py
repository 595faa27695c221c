"""Patches, by the examples of the documents that define them: RFC 6902 and RFC 7386, appendix A of both, and
Kubernetes' own page on strategic merge patches. Where the API server's library reads an RFC in its own way, the word is
said.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from localcluster.patch import json_patch, merge_patch, strategic_merge_patch
from localcluster.patch.merge_patch import merge

Json = Any


def op(kind: str, path: str, value: Json = ..., **more: Json) -> dict[str, Json]:
    return {"op": kind, "path": path, **({} if value is ... else {"value": value}), **more}


RFC_6902: dict[str, tuple[Json, list[Json], Json]] = {
    "A.1 adding an object member": ({"foo": "bar"}, [op("add", "/baz", "qux")], {"baz": "qux", "foo": "bar"}),
    "A.2 adding an array element": (
        {"foo": ["bar", "baz"]},
        [op("add", "/foo/1", "qux")],
        {"foo": ["bar", "qux", "baz"]},
    ),
    "A.3 removing an object member": ({"baz": "qux", "foo": "bar"}, [op("remove", "/baz")], {"foo": "bar"}),
    "A.4 removing an array element": (
        {"foo": ["bar", "qux", "baz"]},
        [op("remove", "/foo/1")],
        {"foo": ["bar", "baz"]},
    ),
    "A.5 replacing a value": (
        {"baz": "qux", "foo": "bar"},
        [op("replace", "/baz", "boo")],
        {"baz": "boo", "foo": "bar"},
    ),
    "A.6 moving a value": (
        {"foo": {"bar": "baz", "waldo": "fred"}, "qux": {"corge": "grault"}},
        [op("move", "/qux/thud", **{"from": "/foo/waldo"})],
        {"foo": {"bar": "baz"}, "qux": {"corge": "grault", "thud": "fred"}},
    ),
    "A.7 moving an array element": (
        {"foo": ["all", "grass", "cows", "eat"]},
        [op("move", "/foo/3", **{"from": "/foo/1"})],
        {"foo": ["all", "cows", "eat", "grass"]},
    ),
    "A.8 testing a value: success": (
        {"baz": "qux", "foo": ["a", 2, "c"]},
        [op("test", "/baz", "qux"), op("test", "/foo/1", 2)],
        {"baz": "qux", "foo": ["a", 2, "c"]},
    ),
    "A.10 adding a nested member object": (
        {"foo": "bar"},
        [op("add", "/child", {"grandchild": {}})],
        {"foo": "bar", "child": {"grandchild": {}}},
    ),
    "A.11 ignoring unrecognized elements": (
        {"foo": "bar"},
        [op("add", "/baz", "qux", xyz=123)],
        {"foo": "bar", "baz": "qux"},
    ),
    "A.14 escape ordering": ({"/": 9, "~1": 10}, [op("test", "/~01", 10)], {"/": 9, "~1": 10}),
    "A.16 adding an array value": (
        {"foo": ["bar"]},
        [op("add", "/foo/-", ["abc", "def"])],
        {"foo": ["bar", ["abc", "def"]]},
    ),
    "adding what is there replaces it": ({"a": 1}, [op("add", "/a", 2)], {"a": 2}),
    "adding at the end": ({"a": [1, 2]}, [op("add", "/a/2", 3)], {"a": [1, 2, 3]}),
    "a slash in a name": ({"a/b": 1}, [op("replace", "/a~1b", 2)], {"a/b": 2}),
    "copying": ({"a": {"x": [1]}}, [op("copy", "/b", **{"from": "/a/x"})], {"a": {"x": [1]}, "b": [1]}),
    "one after another": ({"a": [1, 2, 3]}, [op("remove", "/a/0"), op("remove", "/a/0")], {"a": [3]}),
    "a negative index counts from the end, as in the API server": ({"a": [1, 2]}, [op("remove", "/a/-1")], {"a": [1]}),
}


@pytest.mark.parametrize("name", RFC_6902)
def test_json_patch(name: str) -> None:
    before, operations, want = RFC_6902[name]
    kept = deepcopy(before)
    assert json_patch(before, operations) == want
    assert before == kept, "the object itself stays as it is"


REFUSED: dict[str, tuple[Json, list[Json], str]] = {
    "A.9 testing a value: error": ({"baz": "qux"}, [op("test", "/baz", "bar")], "testing value /baz failed"),
    "A.12 adding to a nonexistent target": ({"foo": "bar"}, [op("add", "/baz/bat", "qux")], "doc is missing path"),
    "A.13 an operation that there is not": ({"foo": "bar"}, [op("subtract", "/foo", 1)], "Unexpected kind: subtract"),
    "A.15 comparing strings and numbers": ({"/": 9, "~1": 10}, [op("test", "/~01", "10")], "failed"),
    "removing what is not there": ({"a": 1}, [op("remove", "/b")], "Unable to remove nonexistent key: b"),
    "replacing beyond the end": ({"a": [1]}, [op("replace", "/a/1", 2)], "doc is missing key: /a/1"),
    "adding beyond the end": ({"a": [1]}, [op("add", "/a/3", 2)], "invalid index"),
    "an index that is none": ({"a": [1]}, [op("add", "/a/x", 2)], "not a proper array index"),
    "moving from nowhere": ({"a": 1}, [op("move", "/c", **{"from": "/x/y"})], "missing from path"),
    "removing an index that is not there": ({"a": [1]}, [op("remove", "/a/1")], "invalid index"),
    "all or none": ({"a": 1}, [op("add", "/b", 2), op("test", "/a", 2)], "failed"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_json_patch_refuses(name: str) -> None:
    before, operations, words = REFUSED[name]
    kept = deepcopy(before)
    with pytest.raises(ValueError, match=words):
        json_patch(before, operations)
    assert before == kept


RFC_7386: list[tuple[Json, Json, Json]] = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    (["a", "b"], ["c", "d"], ["c", "d"]),
    ({"a": "b"}, ["c"], ["c"]),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]


@pytest.mark.parametrize("number", range(len(RFC_7386)))
def test_merge_patch(number: int) -> None:
    before, patch, want = RFC_7386[number]
    kept, kept_patch = deepcopy(before), deepcopy(patch)
    found = merge(before, patch)
    assert found == want
    assert (before, patch) == (kept, kept_patch)


def test_a_merge_patch_is_an_object() -> None:
    with pytest.raises(ValueError, match="Invalid JSON Patch"):
        merge_patch({"a": 1}, [])  # type: ignore[arg-type]


# -- strategic merge patches, beyond those of contract/api/cases/05_patching.txt -----------------
def container(name: str, **more: Json) -> Json:
    return {"name": name, **more}


def spec(*containers: Json, **more: Json) -> Json:
    return {"spec": {"containers": list(containers), **more}}


TOLERATED, OTHER = {"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Exists"}
STRATEGIC: dict[str, tuple[Json, Json, Json]] = {
    "a list without a merge key is replaced": (
        spec(container("a"), tolerations=[TOLERATED]),
        {"spec": {"tolerations": [OTHER]}},
        spec(container("a"), tolerations=[OTHER]),
    ),
    "$patch: delete empties a map": (
        {"metadata": {"labels": {"a": "1"}}},
        {"metadata": {"labels": {"$patch": "delete"}}},
        {"metadata": {"labels": {}}},
    ),
    "null takes a field away": (
        {"metadata": {"labels": {"a": "1", "b": "2"}}},
        {"metadata": {"labels": {"a": None}}},
        {"metadata": {"labels": {"b": "2"}}},
    ),
    "a null that meets nothing is dropped": (
        {"metadata": {}},
        {"metadata": {"labels": {"a": None}}},
        {"metadata": {"labels": {}}},
    ),
    "$retainKeys takes away what it does not name": (
        {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}},
        {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}},
        {"spec": {"strategy": {"type": "Recreate"}}},
    ),
    "owners are merged by their uid": (
        {"metadata": {"ownerReferences": [{"uid": "1", "name": "a"}, {"uid": "2", "name": "b"}]}},
        {"metadata": {"ownerReferences": [{"$patch": "delete", "uid": "1"}]}},
        {"metadata": {"ownerReferences": [{"uid": "2", "name": "b"}]}},
    ),
}


@pytest.mark.parametrize("name", STRATEGIC)
def test_strategic_merge_patch(name: str) -> None:
    before, patch, want = STRATEGIC[name]
    kept = deepcopy(before)
    found = strategic_merge_patch(before, patch, "Deployment" if "strategy" in str(before) else "Pod")
    assert found == want
    assert before == kept


STRATEGIC_REFUSED: dict[str, tuple[Json, Json, str]] = {
    "merging a whole list": (spec(container("a")), spec({"$patch": "merge"}), "merging lists cannot yet be specified"),
    "keys to retain that are no list": ({"spec": {"a": {"b": 1}}}, {"spec": {"a": {"$retainKeys": "x"}}}, "retainKeys"),
    "a field that is not retained": (
        {"spec": {"a": {"b": 1}}},
        {"spec": {"a": {"$retainKeys": ["c"], "b": 2}}},
        "retainKeys",
    ),
}


@pytest.mark.parametrize("name", STRATEGIC_REFUSED)
def test_what_a_strategic_merge_patch_may_not_say(name: str) -> None:
    before, patch, words = STRATEGIC_REFUSED[name]
    with pytest.raises(ValueError, match=words):
        strategic_merge_patch(before, patch, "Pod")
