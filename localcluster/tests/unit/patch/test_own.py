"""A patched object is the writer's own, to be changed in place: it has no part in common with the stored one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from localcluster import patch
from localcluster.wire import Json

POD: Json = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a", "labels": {"x": "1"}, "finalizers": ["a/b"]},
    "spec": {
        "containers": [
            {"name": "c", "image": "i", "env": [{"name": "E", "value": "1"}], "ports": [{"containerPort": 1}]}
        ],
        "tolerations": [{"key": "k"}],
        "nodeSelector": {"n": "1"},
    },
    "status": {"conditions": [{"type": "Ready", "status": "True"}]},
}
PATCHES: dict[str, Callable[[Json], Json]] = {
    "a merge patch of a field": lambda pod: patch.merge_patch(pod, {"metadata": {"labels": {"y": "2"}}}),
    "a merge patch of nothing": lambda pod: patch.merge_patch(pod, {}),
    "a merge patch of a list": lambda pod: patch.merge_patch(pod, {"spec": {"tolerations": [{"key": "l"}]}}),
    "a strategic patch of an item": lambda pod: patch.strategic_merge_patch(
        pod, {"spec": {"containers": [{"name": "c", "image": "j"}]}}, "Pod"
    ),
    "a strategic patch of a new item": lambda pod: patch.strategic_merge_patch(
        pod, {"spec": {"containers": [{"name": "d", "image": "j"}]}}, "Pod"
    ),
    "a strategic patch of a condition": lambda pod: patch.strategic_merge_patch(
        pod, {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}, "Pod"
    ),
    "a JSON patch that adds": lambda pod: patch.json_patch(
        pod, [{"op": "add", "path": "/spec/hostname", "value": "h"}]
    ),
    "a JSON patch that copies": lambda pod: patch.json_patch(
        pod, [{"op": "copy", "from": "/metadata/labels", "path": "/x"}]
    ),
    "a JSON patch that only tests": lambda pod: patch.json_patch(
        pod, [{"op": "test", "path": "/kind", "value": "Pod"}]
    ),
}


def _containers(value: Any) -> Iterator[int]:
    if isinstance(value, dict | list):
        yield id(value)
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _containers(inner)


@pytest.mark.parametrize("apply", PATCHES.values(), ids=PATCHES)
def test_a_patched_object_has_no_part_of_the_stored_one(apply: Callable[[Json], Json]) -> None:
    new = apply(POD)
    assert new["metadata"]["name"] == "a"
    assert not {*_containers(new)} & {*_containers(POD)}
