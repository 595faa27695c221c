"""Server-side apply, and the book-keeping of ordinary writes.

Mirrors sigs.k8s.io/structured-merge-diff/v6/merge/update.go and apimachinery's managedfields (v0.36). One version of a
type has one Shape; an entry of another version is read with the same one. Works on copies; nothing here reads a clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

import orjson

from localcluster.patch import managed as m
from localcluster.patch.fieldset import Path, path_rank, path_text
from localcluster.patch.managed import Managed, ManagerKey, Owned
from localcluster.patch.shapes import Shape, built_in_shape
from localcluster.patch.typed import Difference, compare, field_set, merge, remove, settle, with_named_parents
from localcluster.schema.causes import FieldCause
from localcluster.schema.correlate import clone, same
from localcluster.wire import Json

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_BEFORE: Final = "before-first-apply"


class ApplyConflict(Exception):
    """Others own fields that were applied with other values: 409, reason Conflict. `causes` are its details."""

    def __init__(self, causes: list[FieldCause], message: str) -> None:
        super().__init__(message)
        self.causes = causes
        self.message = message


def server_side_apply(  # noqa: PLR0913 - what the API's request carries
    live: Json | None,
    applied: Json,
    manager: str,
    force: bool,
    now: str,
    api_version: str,
    *,
    subresource: str = "",
    shape: Shape | None = None,
    reset_fields: Iterable[str] = (),
) -> Json:
    """The object after the apply, managedFields included. `now` is RFC 3339. `shape` (see `crd_shape`) defaults to the
    built-in one of the object's kind; `reset_fields` are top-level fields that the endpoint ignores, such as `status`.
    Raises ApplyConflict, and ValueError for a body that may not be applied."""
    shape = shape or built_in_shape(str(applied.get("kind", "")))
    _check(applied, api_version)
    base, managed = _taken_apart(live, api_version, applied.get("kind"))
    key = m.key_of(manager, "Apply", api_version, subresource)
    try:
        applied_set = field_set(applied, shape)
    except ValueError as error:
        raise ValueError(f"failed to create typed patch object ({_name(applied)}): {error}") from error
    applied_set = {path for path in applied_set if path[0].removeprefix("f:") not in set(reset_fields)}
    # Fields without an owner would be removed by the first manager that applies fewer of them.
    if not managed:
        _claim_existing(base, managed, api_version, shape)
    last = managed.get(key)
    merged = merge(base, clone(applied), shape)
    managed[key] = Owned(frozenset(applied_set), api_version, last.time if last else "")
    # A field that this manager applied before and omits now is removed, unless another manager owns it.
    if last is not None and last.paths:
        merged = _prune(merged, managed, set(last.paths), shape)
    difference = compare(base, merged, shape)
    conflicts = _conflicts(managed, key, difference)
    if conflicts and not force:
        # `allowedConflictsFromLastApplied`: kubectl does not conflict with its own client-side applies.
        allowed = _from_client_side_apply(base, shape) if manager == "kubectl" else set()
        left = {other: paths - allowed for other, paths in conflicts.items() if paths - allowed}
        if left:
            raise _make_conflict(left, managed)
    _release_fields(managed, conflicts, difference.removed, key)
    changed = live is None or not same(base, merged)
    m.strip(managed, key)
    if changed and key in managed:
        managed[key] = replace(managed[key], time=now)
    settle(merged, base, shape)
    # kubectl may come back to client-side apply, which reads this annotation.
    if manager == "kubectl":
        _sync_last_applied(merged, applied)
    return _put_together(merged, managed)


def track_update(
    old: Json | None,
    new: Json,
    manager: str,
    operation: str,
    now: str,
    subresource: str = "",
    *,
    shape: Shape | None = None,
) -> Json:
    """`new` with managedFields as they are after this create, update or patch (`operation` is "Update").
    `old` is None on create."""
    shape = shape or built_in_shape(str(new.get("kind", "")))
    api_version = str(new.get("apiVersion", ""))
    before = _without_managed(old or {})
    after = _without_managed(new)
    managed = _starting_point(old, new, subresource)
    # `skipNonAppliedManager`: an update does not begin to track an object that is not tracked.
    if not managed and old is not None:
        return _put_together(clone(after), {})
    difference = compare(before, after, shape)
    key = m.key_of(manager, operation, api_version, subresource)
    if difference:
        mine = (difference.added | difference.modified) - m.STRIPPED
        # Also the manager's own earlier entries lose a path: the new write owns it, or the field is gone.
        everyone = _conflicts(managed, None, difference)
        _release_fields(managed, everyone, difference.removed, None)
        if mine:
            kept = managed[key].paths if key in managed else frozenset()
            managed[key] = Owned(frozenset(kept | mine), api_version, now)
        # `capUpdateManagers`: clients with ever new names would add entries without limit.
        m.cap_update_managers(managed)
    return _put_together(clone(after), managed)


def _check(applied: Json, api_version: str) -> None:
    version = applied.get("apiVersion", "")
    if version != api_version:
        raise ValueError(
            f"Incorrect version specified in apply patch. Specified patch version: {version}, expected: {api_version}"
        )
    metadata = applied.get("metadata")
    if isinstance(metadata, dict) and metadata.get("managedFields") is not None:
        raise ValueError("metadata.managedFields must be nil")


def _name(obj: Json) -> str:
    metadata = obj.get("metadata") or {}
    group_version = str(obj.get("apiVersion", ""))
    gvk = (
        f"{group_version}, Kind={obj.get('kind', '')}"
        if "/" in group_version
        else f"/{group_version}, Kind={obj.get('kind', '')}"
    )
    return f"{metadata.get('namespace', '')}/{metadata.get('name', '')}; {gvk}"


def _without_managed(obj: Json) -> Json:
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict) or "managedFields" not in metadata:
        return obj
    return {**obj, "metadata": {name: value for name, value in metadata.items() if name != "managedFields"}}


def _entries_of(obj: Json | None) -> Any:
    metadata = (obj or {}).get("metadata")
    return metadata.get("managedFields") if isinstance(metadata, dict) else None


def _taken_apart(live: Json | None, api_version: str, kind: Any) -> tuple[Json, Managed]:
    if live is None:
        return {"apiVersion": api_version, "kind": kind}, {}
    try:
        managed = m.read(_entries_of(live))
    except ValueError as error:
        raise ValueError(f"failed to decode managed fields: {error}") from error
    return clone(_without_managed(live)), managed


def _read_or_empty(entries: Any) -> Managed:
    try:
        return m.read(entries)
    except (ValueError, AttributeError):
        return {}


def _starting_point(old: Json | None, new: Json, subresource: str) -> Managed:
    """The writer may change managedFields on the main resource: an empty list resets them, none at all leaves them."""
    # A write to a subresource cannot change metadata, so its managedFields are those of the live object.
    if subresource:
        return _read_or_empty(_entries_of(old))
    entries = _entries_of(new)
    if entries in ([], [{}]):
        return {}
    return _read_or_empty(entries) or _read_or_empty(_entries_of(old))


def _put_together(obj: Json, managed: Managed) -> Json:
    if managed:
        obj.setdefault("metadata", {})["managedFields"] = m.write(managed)
    elif isinstance(obj.get("metadata"), dict):
        obj["metadata"].pop("managedFields", None)
    return obj


def _claim_existing(base: Json, managed: Managed, api_version: str, shape: Shape) -> None:
    """An object that was never tracked: its fields get an entry `before-first-apply`."""
    empty = {"apiVersion": base.get("apiVersion"), "kind": base.get("kind")}
    paths = compare(empty, base, shape).added
    key = m.key_of(_BEFORE, "Update", api_version, "")
    managed[key] = Owned(frozenset(paths), api_version)
    m.strip(managed, key)


def _conflicts(managed: Managed, mine: ManagerKey | None, difference: Difference) -> dict[ManagerKey, set[Path]]:
    changed = difference.modified | difference.added
    return {key: taken for key, owned in managed.items() if key != mine and (taken := set(owned.paths & changed))}


def _release_fields(
    managed: Managed, conflicts: dict[ManagerKey, set[Path]], removed: set[Path], mine: ManagerKey | None
) -> None:
    for key in list(managed):
        if key == mine:
            continue
        left = managed[key].paths - conflicts.get(key, set()) - removed
        if left:
            managed[key] = replace(managed[key], paths=left)
        else:
            del managed[key]


def _prune(merged: Json, managed: Managed, last: set[Path], shape: Shape) -> Json:
    """Remove fields that this manager applied last time and that no manager claims now."""
    last = with_named_parents(last, shape)
    pruned = remove(merged, last, shape)
    everything = with_named_parents(field_set(merged, shape, allow_duplicates=True), shape)
    claimed = with_named_parents(set().union(*(owned.paths for owned in managed.values())), shape)
    # `addBackOwnedItems`: a field that another manager owns stays, and so do its parents.
    pruned = remove(merged, everything - with_named_parents(_set_of(pruned, shape), shape) - claimed, shape)
    # `addBackDanglingItems`: only what this manager applied last time may go.
    gone = (everything - with_named_parents(_set_of(pruned, shape), shape)) & last
    result = remove(merged, gone, shape)
    return dict(result or {})


def _set_of(value: Any, shape: Shape) -> set[Path]:
    return set() if value is None else field_set(value, shape, allow_duplicates=True)


def _make_conflict(conflicts: dict[ManagerKey, set[Path]], managed: Managed) -> ApplyConflict:
    def shown(key: ManagerKey) -> str:
        if key.operation != "Update":
            return str(key)
        return f"{key} using {managed[key].api_version}"

    rows = [(key, path) for key in sorted(conflicts, key=shown) for path in sorted(conflicts[key], key=path_rank)]
    causes = [FieldCause("FieldManagerConflict", f"conflict with {shown(key)}", path_text(path)) for key, path in rows]
    if len(rows) == 1:
        message = f"Apply failed with 1 conflict: conflict with {shown(rows[0][0])}: {path_text(rows[0][1])}"
    else:
        lines = []
        for key in sorted(conflicts, key=shown):
            lines += [
                f"conflicts with {shown(key)}:",
                *(f"- {path_text(path)}" for other, path in rows if other == key),
            ]
        message = f"Apply failed with {len(rows)} conflicts: " + "\n".join(lines)
    return ApplyConflict(causes, message)


def _last_applied(obj: Json) -> str:
    annotations = (obj.get("metadata") or {}).get("annotations") or {}
    text = annotations.get(LAST_APPLIED)
    return text if isinstance(text, str) else ""


def _from_client_side_apply(live: Json, shape: Shape) -> set[Path]:
    """kubectl takes over the fields of its earlier client-side apply, where no other manager changed them since."""
    try:
        before = orjson.loads(_last_applied(live))
        return field_set(before, shape) - compare(before, live, shape).modified
    except ValueError:
        return set()


def _sync_last_applied(merged: Json, applied: Json) -> None:
    if _last_applied(merged):
        annotations = {
            k: v for k, v in ((applied.get("metadata") or {}).get("annotations") or {}).items() if k != LAST_APPLIED
        }
        metadata = {**(applied.get("metadata") or {}), **({"annotations": annotations} if annotations else {})}
        if not annotations:
            metadata.pop("annotations", None)
        text = orjson.dumps({**applied, "metadata": metadata}, option=orjson.OPT_SORT_KEYS).decode() + "\n"
        merged["metadata"]["annotations"][LAST_APPLIED] = text
