"""Parts of objects that a step leaves as they are: it need not look at them again.

Most writes are those of a status, and send the whole object back. Its spec is then, byte for byte, what has been decoded,
pruned and defaulted before. Kept by content, so nothing has to be forgotten when an object or a version of it goes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, TypeVar

import orjson

PART: Final = "spec"
"""Worth keeping; metadata and status seldom come twice."""
MOST_PARTS: Final = 1024
LARGEST_BYTES: Final = 65_536

T = TypeVar("T")


class NormalParts:
    """What one pure step, for one type, has nothing to change in and nothing to say of. The least recently used go first."""

    def __init__(self) -> None:
        self._seen: OrderedDict[bytes, None] = OrderedDict()

    def through(self, obj: dict[str, Any], step: Callable[[dict[str, Any]], T]) -> T:
        """`step(obj)`, which changes it in place and tells what was wrong. An empty object stands for a part that is known
        meanwhile; the step must neither say anything of it nor take it out."""
        part = obj.get(PART)
        data = _bytes(part)
        if data is None:
            return step(obj)
        if data in self._seen:
            self._seen.move_to_end(data)
            obj[PART] = {}
            try:
                return step(obj)
            finally:
                obj[PART] = part
        told = step(obj)
        if not told and _bytes(obj.get(PART)) == data:
            self._keep(data)
        return told

    def _keep(self, data: bytes) -> None:
        if len(data) <= LARGEST_BYTES:
            self._seen[data] = None
            if len(self._seen) > MOST_PARTS:
                self._seen.popitem(last=False)


def _bytes(part: Any) -> bytes | None:
    """None for what is no object, or is none that JSON can hold."""
    if not isinstance(part, dict) or not part:
        return None
    try:
        return orjson.dumps(part)
    except TypeError:
        return None
