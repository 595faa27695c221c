"""JSON merge patch (RFC 7386). Pure; shares nothing with its arguments.

As the API server's library does it, nulls are taken out of objects at any depth of what a patch brings in, also inside
lists, where the RFC keeps them; but not in a list that replaces an object.
"""

from __future__ import annotations

from typing import Any

from localcluster.schema.correlate import clone


def merge(target: Any, patch: Any) -> Any:
    """Null removes a field, an object merges, everything else replaces. The order of the target's fields stays."""
    if not isinstance(target, dict):
        return _without_nulls(patch)
    if not isinstance(patch, dict):
        return clone(patch)
    result = {}
    for key, value in target.items():
        if key not in patch:
            result[key] = clone(value)
        elif patch[key] is not None:
            result[key] = merge(value, patch[key])
    for key, value in patch.items():
        if value is not None and key not in target:
            result[key] = _without_nulls(value)
    return result


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(child) for key, child in value.items() if child is not None}
    if isinstance(value, list):
        return [_without_nulls(child) for child in value]
    return value
