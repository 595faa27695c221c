"""Takes the objects of a source one by one, so that an unreadable object costs only itself. Pure, except for the log.

An unreadable object is skipped, counted and logged with its name. The same error of the same object is logged once,
however often the object changes. The last readable state of the object stays in the projection. The object is tried
again at each change and in each list, and is forgotten when it is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import structlog

log = structlog.get_logger(__name__)
SKIPPED = "an object cannot be read and is skipped; it is tried again when it changes"
NAMES_REMEMBERED = 1_000
"""How many skipped objects of one source are remembered. Further ones are counted, and logged each time."""


class Skipped:
    """The objects of one source whose last read failed."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._errors: dict[str, str] = {}
        self.times = 0
        """How often an object was skipped, since the term began."""

    @property
    def objects(self) -> Mapping[str, str]:
        """namespace/name -> error, for each remembered object."""
        return dict(self._errors)

    def take_each(self, objects: Iterable[Any], take: Callable[[Any], None]) -> None:
        for obj in objects:
            self.take_one(obj, take)

    def take_one(self, obj: Any, take: Callable[[Any], None]) -> None:
        try:
            take(obj)
        except Exception as error:
            # The error may quote the object, which a tenant can make megabytes long.
            name, message = name_of(obj), f"{type(error).__name__}: {error}"[:500]
            if self._is_news(name, message):
                log.exception(SKIPPED, resource=self._source, name=name, error=message)
        else:
            # Usually no object is skipped, and this runs for each event of each pod.
            if self._errors and self._errors.pop(name := name_of(obj), None) is not None:
                log.info("an object that was skipped can be read again", resource=self._source, name=name)

    def forget(self, obj: Any) -> None:
        """Forget an object that is gone."""
        self._errors.pop(name_of(obj), None)

    def keep(self, names: Iterable[str]) -> None:
        """Forget the objects that a complete list did not show. `names`: the objects of the list."""
        listed = set(names) if self._errors else ()
        self._errors = {name: error for name, error in self._errors.items() if name in listed}

    def _is_news(self, name: str, message: str) -> bool:
        self.times += 1
        if self._errors.get(name) == message:
            return False
        if name in self._errors or len(self._errors) < NAMES_REMEMBERED:
            self._errors[name] = message
        return True


def name_of(obj: Any) -> str:
    """namespace/name, or the name of a cluster-scoped object. Accepts any value and never raises."""
    meta = obj.get("metadata") if isinstance(obj, Mapping) else None
    if not isinstance(meta, Mapping):
        return "an object without metadata"
    return "/".join(str(part) for part in (meta.get("namespace"), meta.get("name") or "-") if part)
