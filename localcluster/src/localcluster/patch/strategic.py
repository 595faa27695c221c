"""Strategic merge patch: lists of the built-in kinds merge by key, and directives say what else to do.

Mirrors mergeMap of k8s.io/apimachinery/pkg/util/strategicpatch/patch.go (v0.36) as the API server calls it: directives
`$patch`, `$retainKeys`, `$setElementOrder/<list>`, `$deleteFromPrimitiveList/<list>`; nulls that match nothing are
dropped. Works on copies; raises ValueError with the API server's words for a patch that it cannot read.
"""

from __future__ import annotations

from typing import Any, Final

from localcluster.patch.shapes import Shape, built_in_shape
from localcluster.schema.correlate import clone, same
from localcluster.schema.gotext import go_json
from localcluster.wire import Json

_PATCH: Final = "$patch"
_RETAIN: Final = "$retainKeys"
_ORDER: Final = "$setElementOrder"
_DELETE: Final = "$deleteFromPrimitiveList"
_BAD_ORDER: Final = "invalid patch format of setElementOrder list"


def strategic_merge(obj: Json, patch: Json, kind: str) -> Json:
    if not isinstance(patch, dict):
        raise ValueError("invalid JSON document")
    return _merge_map(clone(obj), clone(patch), built_in_shape(kind))


def _bad_type(directive: Any, patch: Json) -> ValueError:
    return ValueError(f"unknown patch type: {directive} in map: {_go_map(patch)}")


def _go_map(value: Any) -> str:
    """`%v` of a map."""
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{_go_map(value[key])}" for key in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(map(_go_map, value)) + "]"
    if value is None:
        return "<nil>"
    return value if isinstance(value, str) else go_json(value)


def _merge_map(original: Json, patch: Json, shape: Shape) -> Json:
    if _PATCH in patch:
        directive = patch.pop(_PATCH)
        if directive == "replace":
            return patch
        if directive == "delete":
            return {}
        raise _bad_type(directive, {**patch, _PATCH: directive})
    _retain_keys(original, patch)
    _ordered_lists(original, patch, shape)
    for name, value in patch.items():
        if name.startswith(_DELETE):
            key = _list_name(name, _DELETE, "invalid patch format of primitive list")
            if isinstance(original.get(key), list):
                doomed = value if isinstance(value, list) else []
                original[key] = [item for item in original[key] if not any(same(item, one) for one in doomed)]
            continue
        # A null deletes the field: it is none of the values that a built-in type can have.
        if value is None:
            original.pop(name, None)
            continue
        _merge_field(original, name, value, shape.child(name))
    return original


def _merge_field(original: Json, name: str, value: Any, shape: Shape) -> None:
    live = original.get(name)
    if isinstance(live, dict) and isinstance(value, dict) and not shape.replace:
        original[name] = _merge_map(live, value, shape)
    elif isinstance(live, list) and isinstance(value, list) and shape.merge:
        original[name] = _merge_list(live, value, shape)
    elif isinstance(live, dict | list) and type(live) is type(value):
        original[name] = value
    else:
        _drop_nulls(value)
        kept, cleaned = _without_directives(value)
        if kept:
            original[name] = cleaned
        else:
            original.pop(name, None)


def _drop_nulls(value: Any) -> None:
    if isinstance(value, dict):
        for key in [key for key, child in value.items() if child is None]:
            del value[key]
        for child in value.values():
            _drop_nulls(child)
    elif isinstance(value, list):
        for child in value:
            _drop_nulls(child)


def _without_directives(value: Any) -> tuple[bool, Any]:
    """A patch that meets nothing to merge with becomes the value itself. False: it was a directive, whichever."""
    if isinstance(value, dict):
        if _PATCH in value:
            return False, None
        cleaned = {}
        for key, child in value.items():
            if key == _RETAIN or key.startswith((_DELETE, _ORDER)):
                continue
            kept, clean = _without_directives(child)
            if kept:
                cleaned[key] = clean
        return True, cleaned
    if isinstance(value, list):
        return True, [clean for kept, clean in map(_without_directives, value) if kept]
    return True, value


def _without_nulls(item: Any) -> Any:
    """A new item of a list as it is appended: without directives and nulls, which the typed decoding does not know."""
    if isinstance(item, dict):
        return {
            key: _without_nulls(child) for key, child in item.items() if child is not None and not key.startswith("$")
        }
    return [_without_nulls(child) for child in item] if isinstance(item, list) else item


def _list_name(directive: str, prefix: str, error: str) -> str:
    head, slash, name = directive.partition("/")
    if head != prefix or not slash:
        raise ValueError(error)
    return name


def _retain_keys(original: Json, patch: Json) -> None:
    if _RETAIN not in patch:
        return
    keep = patch.pop(_RETAIN)
    if not isinstance(keep, list):
        raise ValueError("invalid patch format of retainKeys")
    for name, value in patch.items():
        if value is not None and not name.startswith((_DELETE, _ORDER)) and name not in keep:
            raise ValueError("invalid patch format of retainKeys")
    for name in [name for name in original if name not in keep]:
        del original[name]


def _merge_list(live: list[Any], patch: list[Any], shape: Shape) -> list[Any]:
    if not live and not patch:
        return live
    elements = [*live, *patch]
    if not any(isinstance(element, dict) for element in elements):
        merged: list[Any] = []
        for element in elements:
            if not any(same(element, one) for one in merged):
                merged.append(element)
        return _in_order(merged, patch, live, "")
    if not all(isinstance(element, dict) for element in elements):
        raise ValueError("list element types are not identical: " + _go_map(elements))
    if not shape.merge_key:
        raise ValueError("cannot merge lists without merge key for field")
    live, patch = _special_elements(live, patch, shape.merge_key)
    merged = _merge_items(list(live), patch, shape)
    return _in_order(merged, patch, live, shape.merge_key)


def _key_of(item: Json, key: str) -> Any:
    if key not in item:
        raise ValueError(f"map: {_go_map(item)} does not contain declared merge key: {key}")
    return item[key]


def _special_elements(live: list[Any], patch: list[Any], key: str) -> tuple[list[Any], list[Any]]:
    plain: list[Any] = []
    replace = False
    for item in patch:
        if _PATCH not in item:
            plain.append(item)
        elif item[_PATCH] == "delete":
            doomed = _key_of(item, key)
            live = [one for one in live if not (key in one and same(one[key], doomed))]
        elif item[_PATCH] == "replace":
            replace = True
        elif item[_PATCH] == "merge":
            raise ValueError("merging lists cannot yet be specified in the patch")
        else:
            raise _bad_type(item[_PATCH], item)
    return ([_without_nulls(item) for item in plain], []) if replace else (live, plain)


def _merge_items(merged: list[Any], patch: list[Any], shape: Shape) -> list[Any]:
    key = shape.merge_key
    for item in patch:
        wanted = _key_of(item, key)
        index = next((i for i, one in enumerate(merged) if key in one and same(one[key], wanted)), None)
        if index is None:
            merged.append(_without_nulls(item))
        else:
            merged[index] = _merge_map(merged[index], item, shape.item())
    return merged


def _find_index(items: list[Any], wanted: Any, key: str) -> int:
    """The index of an item, found by its key; -1 when it is absent."""
    for index, item in enumerate(items):
        if not key:
            if same(item, wanted):
                return index
        elif (
            isinstance(item, dict)
            and isinstance(wanted, dict)
            and key in item
            and key in wanted
            and same(item[key], wanted[key])
        ):
            return index
    return -1


def _in_order(merged: list[Any], patch_order: list[Any], live_order: list[Any], key: str) -> list[Any]:
    """normalizeElementOrder: items of the patch in its order, those of the server only in theirs, the two merged by the
    live order."""
    mine = sorted(
        (item for item in merged if _find_index(patch_order, item, key) >= 0),
        key=lambda item: _find_index(patch_order, item, key),
    )
    servers = [item for item in merged if _find_index(patch_order, item, key) < 0]
    servers.sort(key=lambda item: _find_index(live_order, item, key))
    out: list[Any] = []
    while mine and servers:
        left, right = _find_index(live_order, servers[0], key), _find_index(live_order, mine[0], key)
        out.append(servers.pop(0) if 0 <= left < right else mine.pop(0))
    return out + mine + servers


def _check_order(patch: list[Any], order: list[Any], key: str) -> None:
    """Checks that the items of the patch are in the order of the directive."""
    if not order:
        return
    remaining = (
        [item for item in patch if not (isinstance(item, dict) and item.get(_PATCH) == "delete")] if key else patch
    )
    index = place = 0
    while index < len(remaining) and place < len(order):
        if isinstance(remaining[index], dict) and _PATCH in remaining[index]:
            index += 1
            continue
        if key:
            _key_of(remaining[index], key)
        index += _find_index([order[place]], remaining[index], key) == 0
        place += 1
    if index < len(remaining):
        raise ValueError(
            f"The order in patch list:\n{_go_map(patch)}\n doesn't match {_ORDER} list:\n{_go_map(order)}\n"
        )


def _ordered_lists(original: Json, patch: Json, shape: Shape) -> None:
    for directive in [name for name in patch if name.startswith(_ORDER)]:
        order = patch.pop(directive)
        name = _list_name(directive, _ORDER, _BAD_ORDER)
        child = shape.child(name)
        live, changes = original.get(name), patch.get(name)
        if not isinstance(order, list) or not isinstance(changes, list | None) or not isinstance(live, list | None):
            raise ValueError(_BAD_ORDER)
        if live is None and changes is None:
            continue
        if changes:
            _check_order(changes, order, child.merge_key)
        patch.pop(name, None)
        if live is None:
            merged = _without_directives(changes)[1]
        elif changes is None:
            merged = live
        else:
            merged = _merge_list(list(live), changes, child) if child.merge else changes
        original[name] = _in_order(merged, order, live or [], child.merge_key)
