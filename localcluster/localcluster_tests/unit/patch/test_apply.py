"""Server-side apply: who owns what, what goes when it is no longer applied, and how a conflict reads."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localcluster.patch import ApplyConflict, crd_shape, server_side_apply, track_update

Json = dict[str, Any]
T0, T1 = "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"


def _config(**data: str) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data}


def _apply(
    live: Json | None, applied: Json, manager: str = "ana", *, force: bool = False, now: str = T0, **more: Any
) -> Json:
    before = copy.deepcopy((live, applied))
    result = server_side_apply(live, applied, manager, force, now, applied["apiVersion"], **more)
    assert (live, applied) == before, "apply changes neither of its arguments"
    return result


def _owned(obj: Json) -> dict[tuple[str, str], Json]:
    return {(e["manager"], e["operation"]): e["fieldsV1"] for e in obj["metadata"].get("managedFields", [])}


def test_an_item_may_not_be_applied_twice() -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "d"},
        "spec": {"containers": [{"name": "a"}, {"name": "a"}]},
    }
    with pytest.raises(
        ValueError,
        match=r"failed to create typed patch object \(d/p; /v1, Kind=Pod\): "
        r'.spec.containers: duplicate entries for key \[name="a"\]',
    ):
        _apply(None, pod)


def test_a_custom_resource_merges_as_its_schema_says() -> None:
    shape = crd_shape(
        {
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {
                        "roles": {
                            "type": "array",
                            "x-kubernetes-list-type": "map",
                            "x-kubernetes-list-map-keys": ["name"],
                            "items": {"type": "object"},
                        },
                        "list": {"type": "array", "items": {"type": "string"}},
                        "replicaSpecs": {
                            "type": "object",
                            "additionalProperties": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
                        },
                    },
                }
            },
        }
    )

    def job(**spec: Any) -> Json:
        return {"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "f"}, "spec": spec}

    made = _apply(
        None, job(roles=[{"name": "a", "n": 1}], list=["x"], replicaSpecs={"w": {"replicas": 1}}), shape=shape
    )
    assert _owned(made)["ana", "Apply"]["f:spec"] == {
        "f:list": {},
        "f:replicaSpecs": {"f:w": {".": {}, "f:replicas": {}}},
        "f:roles": {'k:{"name":"a"}': {".": {}, "f:n": {}, "f:name": {}}},
    }
    both = _apply(made, job(roles=[{"name": "b"}]), "bob", shape=shape)
    assert both["spec"]["roles"] == [{"name": "a", "n": 1}, {"name": "b"}]
    with pytest.raises(ApplyConflict, match=r".spec.list"):
        _apply(both, job(list=["y"]), "bob", shape=shape)


def test_kubectl_takes_over_what_it_applied_from_its_own_side() -> None:
    import json

    last = json.dumps(_config(a="1"))
    live = {
        **_config(a="1"),
        "metadata": {"name": "c", "annotations": {"kubectl.kubernetes.io/last-applied-configuration": last}},
    }
    live = track_update(None, live, "kubectl-client-side-apply", "Update", T0)
    taken = _apply(live, _config(a="2"), "kubectl")
    assert taken["data"] == {"a": "2"}
    assert '"a":"2"' in taken["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"]
    with pytest.raises(ApplyConflict):
        _apply(live, _config(a="2"), "somebody-else")


class TestTrackUpdate:
    def test_an_update_takes_what_it_changes_and_drops_what_is_gone(self) -> None:
        made = track_update(None, _config(a="1", b="1"), "one", "Update", T0)
        changed = track_update(made, {**made, "data": {"a": "2"}}, "two", "Update", T1)
        assert _owned(changed) == {("one", "Update"): {"f:data": {}}, ("two", "Update"): {"f:data": {"f:a": {}}}}

    def test_a_writer_that_does_not_know_managed_fields_keeps_them(self) -> None:
        made = track_update(None, _config(a="1"), "one", "Update", T0)
        kept = track_update(made, _config(a="1"), "two", "Update", T1)
        assert kept["metadata"]["managedFields"] == made["metadata"]["managedFields"]

    def test_at_most_ten_updaters_are_told_apart(self) -> None:
        obj = track_update(None, _config(base="0"), "m00", "Update", "2026-01-01T00:00:00Z")
        for index in range(1, 15):
            data = {**obj["data"], f"k{index:02}": "1"}
            obj = track_update(obj, {**obj, "data": data}, f"m{index:02}", "Update", f"2026-01-01T00:00:{index:02}Z")
        managers = [entry["manager"] for entry in obj["metadata"]["managedFields"]]
        assert len(managers) == 10
        assert "ancient-changes" in managers
        assert "m14" in managers


_data = st.dictionaries(st.sampled_from("abcd"), st.sampled_from(["1", "2"]), max_size=4)


@settings(max_examples=150, deadline=None)
@given(steps=st.lists(st.tuples(st.sampled_from(["ana", "bob"]), _data), min_size=1, max_size=5))
def test_forced_applies_end_with_what_was_applied_and_every_field_owned(
    steps: list[tuple[str, dict[str, str]]],
) -> None:
    live: Json | None = None
    last: dict[str, dict[str, str]] = {}
    for manager, data in steps:
        live = _apply(live, _config(**data), manager, force=True)
        # A value that another has taken by force is no longer the first one's to remove, only its own are.
        last = {other: {k: v for k, v in held.items() if data.get(k, v) == v} for other, held in last.items()}
        last[manager] = data
        wanted: dict[str, str] = {}
        for held in last.values():
            wanted.update(held)
        assert live.get("data", {}) == wanted
        owned = {field for fields in _owned(live).values() for field in fields.get("f:data", {})}
        assert {f"f:{key}" for key in wanted} <= owned


@settings(max_examples=100, deadline=None)
@given(first=_data, second=_data)
def test_tracking_agrees_with_what_changed(first: dict[str, str], second: dict[str, str]) -> None:
    made = track_update(None, _config(**first), "one", "Update", T0)
    changed = track_update(made, {**made, "data": second}, "two", "Update", T1)
    mine = _owned(changed).get(("two", "Update"), {}).get("f:data", {})
    assert {k for k in mine if k != "."} == {f"f:{k}" for k, v in second.items() if first.get(k) != v}
