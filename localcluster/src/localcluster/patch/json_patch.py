"""JSON patch (RFC 6902), operation by operation, on a copy.

A port of gopkg.in/evanphx/json-patch.v4, which the API server uses: its readings of the RFC (an absent field of an
object is a null to `replace`, `copy` and `test`; a negative index counts from the end) and its error texts differ from
those of the package jsonpatch in too many places to be mapped. Raises ValueError with the server's words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from localcluster.schema.correlate import clone, same
from localcluster.wire import Json

MAX_OPERATIONS: Final = 10_000
_MISSING: Final = "missing value"
_NO_PATH: Final = "operation missing path field: "


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


def _parse_index(key: str) -> int:
    try:
        # Python's int takes blanks and underscores, Go's Atoi does not.
        if key.strip() != key or "_" in key:
            raise ValueError(key)
        return int(key)
    except ValueError:
        raise _Absent(f'strconv.Atoi: parsing "{key}": invalid syntax') from None


def _check_bound(key: str, size: int) -> int:
    index = _parse_index(key)
    if index >= size or index < -size:
        raise _Absent(f"Unable to access invalid index: {index}: invalid index referenced")
    return index + size if index < 0 else index


def _get(place: Any, key: str) -> Any:
    return place.get(key) if isinstance(place, dict) else place[_check_bound(key, len(place))]


def _add(place: Any, key: str, value: Any) -> None:
    if isinstance(place, dict):
        place[key] = value
    elif key == "-":
        place.append(value)
    else:
        try:
            _parse_index(key)
        except _Absent as error:
            raise _Absent(f"value was not a proper array index: '{key}': {error}") from error
        place.insert(_check_bound(key, len(place) + 1), value)


def _remove(place: Any, key: str) -> None:
    if isinstance(place, list):
        del place[_check_bound(key, len(place))]
    elif key in place:
        del place[key]
    else:
        raise _Absent(f"Unable to remove nonexistent key: {key}: {_MISSING}")


def _describe_failure(operation: Json, name: str, why: str = "") -> str:
    value = operation.get(name)
    if not isinstance(value, str):
        raise ValueError(f"{operation['op']} operation failed to decode {name}: {why}{_MISSING}")
    return value


def _find_parent(document: Any, path: str, failure: str) -> tuple[Any, str]:
    """The container and key of a path. `failure` says that there is no such container."""
    place, key = _find(document, path)
    if place is None:
        raise ValueError(f"{failure}: {_MISSING}")
    return place, key


@contextmanager
def _prefix_errors(prefix: str) -> Iterator[None]:
    try:
        yield
    except _Absent as error:
        raise ValueError(f"{prefix}: {error}") from error


def _op_add(document: Any, operation: Json) -> Any:
    path = _describe_failure(operation, "path")
    place, key = _find_parent(document, path, f'add operation does not apply: doc is missing path: "{path}"')
    with _prefix_errors(f"error in add for path: '{path}'"):
        _add(place, key, operation.get("value"))
    return document


def _op_remove(document: Any, operation: Json) -> Any:
    path = _describe_failure(operation, "path")
    place, key = _find_parent(document, path, f'remove operation does not apply: doc is missing path: "{path}"')
    with _prefix_errors(f"error in remove for path: '{path}'"):
        _remove(place, key)
    return document


def _op_replace(document: Any, operation: Json) -> Any:
    path = _describe_failure(operation, "path", _NO_PATH)
    value = operation.get("value")
    if path == "":
        if not isinstance(value, dict | list):
            raise ValueError("replace operation value must be object or array: %!w(<nil>)")
        return value
    place, key = _find_parent(document, path, f"replace operation does not apply: doc is missing path: {path}")
    try:
        _get(place, key)
    except _Absent as error:
        raise ValueError(f"replace operation does not apply: doc is missing key: {path}: {_MISSING}") from error
    place[key if isinstance(place, dict) else _check_bound(key, len(place))] = value
    return document


def _op_move(document: Any, operation: Json) -> Any:
    source = _describe_failure(operation, "from", "operation, missing from field: ")
    place, key = _find_parent(document, source, f"move operation does not apply: doc is missing from path: {source}")
    with _prefix_errors(f"error in move for path: '{key}'"):
        value = _get(place, key)
        _remove(place, key)
    path = _describe_failure(operation, "path", _NO_PATH)
    place, key = _find_parent(document, path, f"move operation does not apply: doc is missing destination path: {path}")
    with _prefix_errors(f"error in move for path: '{path}'"):
        _add(place, key, value)
    return document


def _op_copy(document: Any, operation: Json) -> Any:
    source = _describe_failure(operation, "from", "operation, missing from field: ")
    place, key = _find_parent(document, source, f"copy operation does not apply: doc is missing from path: {source}")
    with _prefix_errors(f"error in copy for from: '{source}'"):
        value = clone(_get(place, key))
    path = _describe_failure(operation, "path")
    place, key = _find_parent(document, path, f"copy operation does not apply: doc is missing destination path: {path}")
    with _prefix_errors("error while adding value during copy"):
        _add(place, key, value)
    return document


def _op_test(document: Any, operation: Json) -> Any:
    path = _describe_failure(operation, "path", _NO_PATH)
    found = document
    if path:
        place, key = _find_parent(document, path, f"test operation does not apply: is missing path: {path}")
        with _prefix_errors(f"error in test for path: '{path}'"):
            found = _get(place, key)
    if not same(found, operation.get("value")):
        raise ValueError(f"testing value {path} failed: test failed")
    return document


_OPERATIONS: Final[Mapping[str, Callable[[Any, Json], Any]]] = {
    "add": _op_add,
    "remove": _op_remove,
    "replace": _op_replace,
    "move": _op_move,
    "copy": _op_copy,
    "test": _op_test,
}
