"""JSON patch (RFC 6902), operation by operation, on a copy.

A port of gopkg.in/evanphx/json-patch.v4, which the API server uses: its readings of the RFC (an absent field of an object is
a null to `replace`, `copy` and `test`; a negative index counts from the end) and its error texts differ from those of the
package jsonpatch in too many places to be mapped. Raises ValueError with the server's words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from localcluster.schema.correlate import clone, same

Json = dict[str, Any]

MAX_OPERATIONS: Final = 10_000
_MISSING: Final = "missing value"
_FAILED: Final = "test failed"


class _Absent(ValueError):
    """The text of an inner error, to which the operation adds its own."""


def apply(obj: Any, operations: Any) -> Any:
    if not isinstance(operations, list):
        raise ValueError(f"json: cannot unmarshal {_go_kind(operations)} into Go value of type jsonpatch.Patch")
    if len(operations) > MAX_OPERATIONS:
        raise ValueError(f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}")
    document = clone(obj)
    for operation in operations:
        if not isinstance(operation, dict):
            raise ValueError(f"json: cannot unmarshal {_go_kind(operation)} into Go value of type jsonpatch.Operation")
        name = operation.get("op")
        run = _OPERATIONS.get(name if isinstance(name, str) else "")
        if run is None:
            raise ValueError(f"Unexpected kind: {name if isinstance(name, str) else 'unknown'}")
        document = run(document, clone(operation))
    return document


def _go_kind(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    for kind, name in ((dict, "object"), (list, "array"), (str, "string")):
        if isinstance(value, kind):
            return name
    return "number"


def _text(operation: Json, field: str, failure: str) -> str:
    value = operation.get(field)
    if not isinstance(value, str):
        raise ValueError(failure)
    return value


def _find(document: Any, path: str) -> tuple[Any, str]:
    """The container that a path points into, and the key in it; None when there is no such container."""
    parts = path.split("/")
    if len(parts) < 2:
        return None, ""
    place = document
    for part in parts[1:-1]:
        try:
            place = _get(place, _decode(part))
        except _Absent:
            return None, ""
        if not isinstance(place, dict | list):
            return None, ""
    return place, _decode(parts[-1])


def _decode(part: str) -> str:
    return part.replace("~1", "/").replace("~0", "~")


def _index(key: str) -> int:
    try:
        if key.strip() != key or "_" in key:
            raise ValueError(key)
        return int(key)
    except ValueError:
        raise _Absent(f'strconv.Atoi: parsing "{key}": invalid syntax') from None


def _bounded(key: str, size: int) -> int:
    index = _index(key)
    if index >= size or index < -size:
        raise _Absent(f"Unable to access invalid index: {index}: invalid index referenced")
    return index + size if index < 0 else index


def _get(place: Any, key: str) -> Any:
    return place.get(key) if isinstance(place, dict) else place[_bounded(key, len(place))]


def _add(place: Any, key: str, value: Any) -> None:
    if isinstance(place, dict):
        place[key] = value
    elif key == "-":
        place.append(value)
    else:
        try:
            _index(key)
        except _Absent as error:
            raise _Absent(f"value was not a proper array index: '{key}': {error}") from error
        place.insert(_bounded(key, len(place) + 1), value)


def _remove(place: Any, key: str) -> None:
    if isinstance(place, list):
        del place[_bounded(key, len(place))]
    elif key in place:
        del place[key]
    else:
        raise _Absent(f"Unable to remove nonexistent key: {key}: {_MISSING}")


def _op_add(document: Any, operation: Json) -> Any:
    path = _text(operation, "path", f"add operation failed to decode path: {_MISSING}")
    place, key = _find(document, path)
    if place is None:
        raise ValueError(f'add operation does not apply: doc is missing path: "{path}": {_MISSING}')
    try:
        _add(place, key, operation.get("value"))
    except _Absent as error:
        raise ValueError(f"error in add for path: '{path}': {error}") from error
    return document


def _op_remove(document: Any, operation: Json) -> Any:
    path = _text(operation, "path", f"remove operation failed to decode path: {_MISSING}")
    place, key = _find(document, path)
    if place is None:
        raise ValueError(f'remove operation does not apply: doc is missing path: "{path}": {_MISSING}')
    try:
        _remove(place, key)
    except _Absent as error:
        raise ValueError(f"error in remove for path: '{path}': {error}") from error
    return document


def _op_replace(document: Any, operation: Json) -> Any:
    path = _text(
        operation, "path", f"replace operation failed to decode path: operation missing path field: {_MISSING}"
    )
    value = operation.get("value")
    if path == "":
        if not isinstance(value, dict | list):
            raise ValueError("replace operation value must be object or array: %!w(<nil>)")
        return value
    place, key = _find(document, path)
    if place is None:
        raise ValueError(f"replace operation does not apply: doc is missing path: {path}: {_MISSING}")
    try:
        _get(place, key)
    except _Absent as error:
        raise ValueError(f"replace operation does not apply: doc is missing key: {path}: {_MISSING}") from error
    if isinstance(place, dict):
        place[key] = value
    else:
        place[_bounded(key, len(place))] = value
    return document


def _op_move(document: Any, operation: Json) -> Any:
    source = _text(
        operation, "from", f"move operation failed to decode from: operation, missing from field: {_MISSING}"
    )
    place, key = _find(document, source)
    if place is None:
        raise ValueError(f"move operation does not apply: doc is missing from path: {source}: {_MISSING}")
    try:
        value = _get(place, key)
        _remove(place, key)
    except _Absent as error:
        raise ValueError(f"error in move for path: '{key}': {error}") from error
    path = _text(operation, "path", f"move operation failed to decode path: operation missing path field: {_MISSING}")
    place, key = _find(document, path)
    if place is None:
        raise ValueError(f"move operation does not apply: doc is missing destination path: {path}: {_MISSING}")
    try:
        _add(place, key, value)
    except _Absent as error:
        raise ValueError(f"error in move for path: '{path}': {error}") from error
    return document


def _op_copy(document: Any, operation: Json) -> Any:
    source = _text(
        operation, "from", f"copy operation failed to decode from: operation, missing from field: {_MISSING}"
    )
    place, key = _find(document, source)
    if place is None:
        raise ValueError(f"copy operation does not apply: doc is missing from path: {source}: {_MISSING}")
    try:
        value = clone(_get(place, key))
    except _Absent as error:
        raise ValueError(f"error in copy for from: '{source}': {error}") from error
    path = _text(operation, "path", f"copy operation failed to decode path: {_MISSING}")
    place, key = _find(document, path)
    if place is None:
        raise ValueError(f"copy operation does not apply: doc is missing destination path: {path}: {_MISSING}")
    try:
        _add(place, key, value)
    except _Absent as error:
        raise ValueError(f"error while adding value during copy: {error}") from error
    return document


def _op_test(document: Any, operation: Json) -> Any:
    path = _text(operation, "path", f"test operation failed to decode path: operation missing path field: {_MISSING}")
    wanted = operation.get("value")
    if path == "":
        found = document
    else:
        place, key = _find(document, path)
        if place is None:
            raise ValueError(f"test operation does not apply: is missing path: {path}: {_MISSING}")
        try:
            found = _get(place, key)
        except _Absent as error:
            raise ValueError(f"error in test for path: '{path}': {error}") from error
    if not same(found, wanted):
        raise ValueError(f"testing value {path} failed: {_FAILED}")
    return document


_OPERATIONS: Final[Mapping[str, Callable[[Any, Json], Any]]] = {
    "add": _op_add,
    "remove": _op_remove,
    "replace": _op_replace,
    "move": _op_move,
    "copy": _op_copy,
    "test": _op_test,
}
