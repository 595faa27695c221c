"""Patches as kube-apiserver 1.36 applies them, and who owns which field.

Pure: nothing here changes its arguments. A patch that cannot be read or applied raises ValueError with the API server's
words; a server-side apply that meets another owner raises ApplyConflict.

Serves: `kubectl apply|patch|edit|label|annotate`, `apply --server-side`, and the operator's status patches.
"""

from __future__ import annotations

from localcluster.patch import json_patch as _json_patch
from localcluster.patch.apply import ApplyConflict, server_side_apply, track_update
from localcluster.patch.merge_patch import merge
from localcluster.patch.shapes import Shape, built_in_shape, crd_shape
from localcluster.patch.strategic import strategic_merge
from localcluster.schema.causes import FieldCause
from localcluster.wire import Json

__all__ = [
    "ApplyConflict",
    "FieldCause",
    "Shape",
    "built_in_shape",
    "crd_shape",
    "json_patch",
    "merge_patch",
    "server_side_apply",
    "strategic_merge_patch",
    "track_update",
]


def json_patch(obj: Json, ops: list[Json]) -> Json:
    """RFC 6902, all operations or none."""
    result = _json_patch.apply(obj, ops)
    if not isinstance(result, dict):
        raise ValueError("a patched object must be an object")
    return result


def merge_patch(obj: Json, patch: Json) -> Json:
    """RFC 7386."""
    if not isinstance(patch, dict):
        raise ValueError("Invalid JSON Patch")
    result: Json = merge(obj, patch)
    return result


def strategic_merge_patch(obj: Json, patch: Json, kind: str) -> Json:
    """`kind` is that of `obj`, such as Pod: its lists merge by the keys of that type."""
    return strategic_merge(obj, patch, kind)
