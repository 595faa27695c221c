"""Objects as server-side apply sees them: which fields they set, how two differ, how they merge.

Mirrors the typed walkers of sigs.k8s.io/structured-merge-diff/v6 (tofieldset.go, compare.go, merge.go, remove.go) over
a Shape. Pure; results share nothing with the arguments that are written to later.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from localcluster.patch.fieldset import Path, path_text
from localcluster.patch.shapes import Shape
from localcluster.schema.correlate import same
from localcluster.schema.gotext import go_json
from localcluster.wire import Json

ABSENT: Final = object()


def _is_granular(shape: Shape) -> bool:
    return bool(shape.keys) or shape.is_set


def item_element(item: Any, shape: Shape) -> str:
    """The path element of an item of a list-map or set. Raises ValueError when it has none."""
    if shape.is_set:
        return f"v:{go_json(item)}"
    if not isinstance(item, dict):
        raise ValueError("associative list with keys may not have non-map elements")
    keys = {}
    for name in shape.keys:
        value = item.get(name, shape.defaults.get(name))
        if value is not None:
            keys[name] = value
    if not keys:
        raise ValueError(
            f"associative list with keys has an element that omits all key fields {go_json(list(shape.keys))} "
            "(and doesn't have default values for any key fields)"
        )
    return f"k:{go_json(keys)}"


def field_set(value: Any, shape: Shape, *, allow_duplicates: bool = False) -> set[Path]:
    """The fields that `value` sets. Raises ValueError for an item of a list-map that comes twice."""
    found: set[Path] = set()
    _collect_paths(value, shape, (), found, allow_duplicates)
    return found


def _collect_paths(value: Any, shape: Shape, path: Path, found: set[Path], allow_duplicates: bool) -> None:
    if isinstance(value, dict):
        if shape.atomic:
            found.add(path)
            return
        for name, child in value.items():
            place = (*path, f"f:{name}")
            _collect_paths(child, shape.child(name), place, found, allow_duplicates)
            # A leaf owns its path, and so does an entry of a map with free names, even when it has content.
            if child is None or child == {} or (shape.open and name not in shape.fields):
                found.add(place)
    elif isinstance(value, list):
        if not _is_granular(shape):
            found.add(path)
            return
        seen: set[str] = set()
        for item in value:
            element = item_element(item, shape)
            if element in seen and not allow_duplicates:
                raise ValueError(f"{path_text(path)}: duplicate entries for key {path_text((element,))}")
            seen.add(element)
            _collect_paths(item, shape.item(), (*path, element), found, allow_duplicates)
            found.add((*path, element))
    else:
        found.add(path)


def with_named_parents(paths: set[Path], shape: Shape) -> set[Path]:
    """EnsureNamedFieldsAreMembers: a struct's field on the way to a member is a member too."""
    out = set(paths)
    for path in paths:
        place = shape
        for length, element in enumerate(path[:-1], start=1):
            if element.startswith("f:"):
                name = element[2:]
                if name in place.fields or not place.open:
                    out.add(path[:length])
                place = place.child(name)
            else:
                place = place.item()
    return out


@dataclass(slots=True)
class Difference:
    added: set[Path] = field(default_factory=set)
    removed: set[Path] = field(default_factory=set)
    modified: set[Path] = field(default_factory=set)

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.modified)


def compare(old: Any, new: Any, shape: Shape) -> Difference:
    difference = Difference()
    _compare_values(old, new, shape, (), difference)
    for paths in (difference.added, difference.removed, difference.modified):
        paths.discard(())
    return difference


def _is_empty(value: Any) -> bool:
    return value is ABSENT or value is None or value in ({}, [])


def _compare_values(old: Any, new: Any, shape: Shape, path: Path, out: Difference) -> None:
    if old is new:
        return
    if not isinstance(old, dict | list) and not isinstance(new, dict | list):
        _compare_leaf(old, new, path, out)
        return
    maps = [isinstance(value, dict) for value in (old, new)]
    lists = [isinstance(value, list) for value in (old, new)]
    if (
        any(maps)
        and not any(lists)
        and _nothing_or(maps, old, new)
        and not shape.atomic
        and not (_is_empty(old) and _is_empty(new))
    ):
        before, after = (value if isinstance(value, dict) else {} for value in (old, new))
        for name in (*before, *(name for name in after if name not in before)):
            _compare_values(
                before.get(name, ABSENT), after.get(name, ABSENT), shape.child(name), (*path, f"f:{name}"), out
            )
    elif (
        any(lists)
        and not any(maps)
        and _nothing_or(lists, old, new)
        and _is_granular(shape)
        and not (_is_empty(old) and _is_empty(new))
    ):
        _compare_items(old if lists[0] else [], new if lists[1] else [], shape, path, out)
    else:
        _compare_leaf(old, new, path, out)
        return
    if old is ABSENT:
        out.added.add(path)
    elif new is ABSENT:
        out.removed.add(path)


def _compare_leaf(old: Any, new: Any, path: Path, out: Difference) -> None:
    if old is ABSENT:
        out.added.add(path)
    elif new is ABSENT:
        out.removed.add(path)
    elif not same(old, new):
        out.modified.add(path)


def _nothing_or(flags: list[bool], old: Any, new: Any) -> bool:
    """Each side is of the kind, or is not there."""
    return all(flag or value is ABSENT or value is None for flag, value in zip(flags, (old, new), strict=True))


def _group_items(items: list[Any], shape: Shape) -> dict[str, list[Any]]:
    groups: dict[str, list[Any]] = {}
    for item in items:
        try:
            groups.setdefault(item_element(item, shape), []).append(item)
        except ValueError:
            continue  # An item without its keys has no path; the walkers skip it too.
    return groups


def _compare_items(old: list[Any], new: list[Any], shape: Shape, path: Path, out: Difference) -> None:
    before, after = _group_items(old, shape), _group_items(new, shape)
    for element in dict.fromkeys((*before, *after)):
        left, right = before.get(element, []), after.get(element, [])
        place = (*path, element)
        if len(left) <= 1 and len(right) <= 1:
            _compare_values(left[0] if left else ABSENT, right[0] if right else ABSENT, shape.item(), place, out)
        # Duplicates share one path, so they are compared as a whole.
        elif len(left) > 1 and len(right) > 1:
            if not same(left, right):
                out.modified.add(place)
        elif len(left) > 1:
            if right:
                _compare_values(ABSENT, right[0], shape.item(), place, out)
            out.removed.add(place)
        else:
            if left:
                _compare_values(left[0], ABSENT, shape.item(), place, out)
            out.added.add(place)


def merge(live: Any, applied: Any, shape: Shape) -> Any:
    """`applied` over `live`."""
    if isinstance(live, dict) and isinstance(applied, dict) and not shape.atomic:
        merged = {
            name: merge(value, applied[name], shape.child(name)) if name in applied else value
            for name, value in live.items()
        }
        merged.update({name: value for name, value in applied.items() if name not in live})
        return merged
    if isinstance(live, list) and isinstance(applied, list) and _is_granular(shape):
        return _merge_items(live, applied, shape)
    return live if applied is None and isinstance(live, dict | list) else applied


def _merge_items(live: list[Any], applied: list[Any], shape: Shape) -> list[Any]:
    """Items in the applied order, the live ones that are not applied kept between their neighbours."""
    left = [item_element(item, shape) for item in live]
    right = [item_element(item, shape) for item in applied]
    lives, applies = dict(zip(left, live, strict=True)), dict(zip(right, applied, strict=True))
    shared = [element for element in right if element in lives]
    out: list[Any] = []
    done: set[str] = set()
    i = j = 0

    def take() -> None:
        nonlocal j
        element = right[j]
        done.add(element)
        out.append(merge(lives[element], applies[element], shape.item()) if element in lives else applies[element])
        j += 1
        if shared and shared[0] == element:
            shared.pop(0)

    while i < len(left) or j < len(right):
        if i < len(left) and j < len(right):
            if left[i] == right[j]:
                take()
                i += 1
                continue
            # The applied order wins: this item comes when its turn in that order has come.
            if left[i] in applies and shared and shared[0] != left[i]:
                i += 1
                continue
        if i < len(left):
            if left[i] not in applies:
                out.append(live[i])
                i += 1
                continue
            if left[i] in done:
                i += 1
        if j < len(right):
            take()
    return out


def remove(value: Any, paths: set[Path], shape: Shape) -> Any:
    """Without the members of `paths`. A container that becomes empty by it is null, as in Go; `settle` clears that."""
    tree: Json = {}
    for path in paths:
        place = tree
        for element in path:
            place = place.setdefault(element, {})
        place["."] = True
    return _remove(value, tree, shape)


def _remove(value: Any, tree: Json, shape: Shape) -> Any:
    if isinstance(value, dict):
        if not value or shape.atomic:
            return None
        kept = {}
        for name, child in value.items():
            below = tree.get(f"f:{name}")
            if below is not None and "." in below:
                continue
            kept[name] = _remove(child, below, shape.child(name)) if below else child
        return kept or None
    if isinstance(value, list):
        if not value or not _is_granular(shape):
            return None
        items = []
        for item in value:
            below = tree.get(item_element(item, shape))
            if below is None or "." not in below:
                rest = _remove(item, below, shape.item()) if below else item
                if rest is not None:
                    items.append(rest)
        return items or None
    return value


def settle(value: Any, live: Any, shape: Shape) -> None:
    """Takes out the nulls that `remove` has left where `live` had a container; changes `value`."""
    if isinstance(value, dict) and isinstance(live, dict):
        for name in list(value):
            if value[name] is None and isinstance(live.get(name), dict | list):
                del value[name]
            elif name in live:
                settle(value[name], live[name], shape.child(name))
    elif isinstance(value, list) and isinstance(live, list) and _is_granular(shape) and shape.keys:
        before = _group_items(live, shape)
        for item in value:
            for old in before.get(item_element(item, shape), [])[:1]:
                settle(item, old, shape.item())
