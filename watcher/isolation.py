"""The one place where a source's objects are taken singly: an object that cannot be read costs that object alone. PURE,
but for the log.

Such an object is skipped, counted and logged with its name, once for each new error. What was known of it stays. It is
tried again whenever it changes and with every list, and forgotten when it is gone. Nothing breaks twice the same way
into the log: a stranger's pod that changes every second says so once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import structlog

log = structlog.get_logger(__name__)
Json = Mapping[str, Any]
SKIPPED = "an object cannot be read and is skipped; it is tried again when it changes"
NAMES_REMEMBERED = 1_000
"""Of one source. Beyond that they are counted, and each is logged whenever it is met."""


class Skipped:
    """The objects of one source that could not be read the last time they were met."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._errors: dict[str, str] = {}
        self.times = 0
        """How often an object was skipped, since the term began."""

    @property
    def objects(self) -> Mapping[str, str]:
        """namespace/name -> error."""
        return dict(self._errors)

    def each(self, objects: Iterable[Any], take: Callable[[Any], None]) -> None:
        for obj in objects:
            self.one(obj, take)

    def one(self, obj: Any, take: Callable[[Any], None]) -> None:
        try:
            take(obj)
        except Exception as error:
            name, said = name_of(obj), f"{type(error).__name__}: {error}"[:500]
            if self._is_news(name, said):
                log.exception(SKIPPED, resource=self._source, name=name, error=said)
        else:
            if self._errors and self._errors.pop(name := name_of(obj), None) is not None:
                log.info("an object that was skipped can be read again", resource=self._source, name=name)

    def forget(self, obj: Any) -> None:
        """It is gone."""
        self._errors.pop(name_of(obj), None)

    def keep(self, names: Iterable[str]) -> None:
        """A whole list has shown these: what else was skipped is gone."""
        there = set(names) if self._errors else ()
        self._errors = {name: error for name, error in self._errors.items() if name in there}

    def _is_news(self, name: str, said: str) -> bool:
        self.times += 1
        if self._errors.get(name) == said:
            return False
        if name in self._errors or len(self._errors) < NAMES_REMEMBERED:
            self._errors[name] = said
        return True


def name_of(obj: Any) -> str:
    """namespace/name, or the name alone; of anything."""
    meta = obj.get("metadata") if isinstance(obj, Mapping) else None
    if not isinstance(meta, Mapping):
        return "an object without metadata"
    return "/".join(str(part) for part in (meta.get("namespace"), meta.get("name") or "-") if part)
