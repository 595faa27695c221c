"""Shared caches of the API: one list and one watch per resource, however many machines read it.

`Informers.pump()` applies the events that have arrived and calls the handlers with `(old, new)`. It never blocks and
never decides. The objects in a store are shared: readers copy before they change. A watch that ends resumes from the
last version seen. After 410 Gone the informer lists again and reports only the differences, so a handler may miss a
state in between but never the last one.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from localcluster.client import ApiError, Client, EventSource
from localcluster.wire import Json

log = logging.getLogger("localcluster")

Key = str
"""namespace/name, or name for what has no namespace."""
Handler = Callable[[Json | None, Json | None], None]
"""(old, new): None for old is an addition, None for new a deletion."""
IndexFunction = Callable[[Json], Iterable[str]]


def key_of(obj: Json) -> Key:
    meta = obj["metadata"]
    namespace = meta.get("namespace")
    return f"{namespace}/{meta['name']}" if namespace else str(meta["name"])


def split_key(key: Key) -> tuple[str, str]:
    namespace, _, name = key.rpartition("/")
    return namespace, name


class Informer:
    """One resource. `synced` once its first list is in."""

    def __init__(self, client: Client, path: str, wake: Callable[[], None], **query: str) -> None:
        self.path = path
        self.store: dict[Key, Json] = {}
        self.synced = False
        self.handlers: list[Handler] = []
        self._client = client
        self._query = query
        self._wake = wake
        self._events: EventSource | None = None
        self._version = ""
        self._indexes: dict[str, tuple[IndexFunction, dict[str, dict[Key, Json]]]] = {}
        self.failures = 0

    def get(self, key: Key) -> Json | None:
        return self.store.get(key)

    def add_index(self, name: str, function: IndexFunction) -> None:
        """Idempotent by name."""
        if name in self._indexes:
            return
        table: dict[str, dict[Key, Json]] = {}
        for key, obj in self.store.items():
            for value in function(obj):
                table.setdefault(value, {})[key] = obj
        self._indexes[name] = (function, table)

    def by(self, index: str, value: str) -> list[Json]:
        return list(self._indexes[index][1].get(value, {}).values())

    def subscribe(self, handler: Handler) -> None:
        """Calls the handler at once with each object that the store already holds."""
        self.handlers.append(handler)
        for obj in list(self.store.values()):
            handler(None, obj)

    def pump(self) -> bool:
        """Applies what has arrived; returns whether anything has. A failure is tried again by the next pump."""
        try:
            if self._events is None:
                self._open_watch()
                return True
            return self._apply_events(self._events)
        except ApiError as error:
            if error.code == 410:
                self._version = ""
                self._drop_watch()
                return True
            self.failures += 1
            # An API server that is away for an hour must not fill the log.
            if self.failures in (1, 10, 100, 1000):
                log.warning("list or watch of %s failed (%d times): %s", self.path, self.failures, error)
            self._drop_watch()
            return False

    def close(self) -> None:
        self._drop_watch()

    def _open_watch(self) -> None:
        if not self._version:
            self._list_again()
        events = self._client.watch(self.path, self._version, **self._query)
        events.wake = self._wake
        self._events = events
        self.failures = 0
        self._apply_events(events)

    def _apply_events(self, events: EventSource) -> bool:
        lines = events.poll()
        for event in lines:
            kind, obj = event["type"], event["object"]
            if kind == "ERROR":
                self._drop_watch()
                if obj.get("code") == 410:
                    self._version = ""
                return True
            self._version = obj["metadata"]["resourceVersion"]
            if kind != "BOOKMARK":
                self._store_object(key_of(obj), None if kind == "DELETED" else obj, obj)
        # A closed watch may still hold events.
        if events.closed and not lines:
            self._drop_watch()
            return True
        return bool(lines)

    def _drop_watch(self) -> None:
        if self._events is not None:
            self._events.wake = None
            self._events.close()
            self._events = None

    def _list_again(self) -> None:
        items: dict[Key, Json] = {}
        query = dict(self._query)
        while True:
            page = self._client.get(self.path, limit="500", **query)
            api_version, kind = page.get("apiVersion", ""), page.get("kind", "").removesuffix("List")
            for obj in page.get("items") or []:
                obj.setdefault("apiVersion", api_version)
                obj.setdefault("kind", kind)
                items[key_of(obj)] = obj
            token = page["metadata"].get("continue")
            if not token:
                break
            query["continue"] = token
        self._version = page["metadata"]["resourceVersion"]
        self.synced = True
        # No event reported what was deleted while there was no watch.
        for key in [k for k in self.store if k not in items]:
            self._store_object(key, None, self.store[key])
        for key, obj in items.items():
            old = self.store.get(key)
            if old is None or old["metadata"]["resourceVersion"] != obj["metadata"]["resourceVersion"]:
                self._store_object(key, obj, obj)

    def _store_object(self, key: Key, new: Json | None, last: Json) -> None:
        old = self.store.get(key)
        # The object was deleted and recreated between two lists: handlers must forget the first one.
        if old is not None and new is not None and old["metadata"]["uid"] != new["metadata"]["uid"]:
            self._store_object(key, None, old)
            old = None
        for function, table in self._indexes.values():
            if old is not None:
                for value in function(old):
                    table.get(value, {}).pop(key, None)
            if new is not None:
                for value in function(new):
                    table.setdefault(value, {})[key] = new
        if new is None:
            if self.store.pop(key, None) is None:
                return
        else:
            self.store[key] = new
        for handler in self.handlers:
            handler(old if new is not None else last, new)


class Informers:
    """The shared set. `get(path)` opens a resource at the next pump; asking twice gives the same one."""

    def __init__(self, client: Client, wake: Callable[[], None] = lambda: None) -> None:
        self.client = client
        self.wake: Callable[[], None] = wake
        self._all: dict[tuple[Any, ...], Informer] = {}
        self._woken: deque[Informer] = deque()
        """Informers with news. A watch adds to it from its own thread, and a deque appends and pops atomically."""
        self._failing: set[Informer] = set()

    def get(self, path: str, **query: str) -> Informer:
        key = (path, *sorted(query.items()))
        if key not in self._all:
            self._all[key] = informer = Informer(self.client, path, lambda: self._has_news(informer), **query)
            self._woken.append(informer)
        return self._all[key]

    def _has_news(self, informer: Informer) -> None:
        self._woken.append(informer)
        self.wake()

    def peek(self, path: str) -> Informer | None:
        """The informer of a path, if there is one already."""
        return self._all.get((path,))

    def remove(self, path: str) -> None:
        for key in [k for k in self._all if k[0] == path]:
            informer = self._all.pop(key)
            self._failing.discard(informer)
            informer.close()

    @property
    def synced(self) -> bool:
        return all(informer.synced for informer in self._all.values())

    @property
    def failing(self) -> bool:
        return bool(self._failing)

    def pump(self) -> bool:
        """Pumps the informers with news; returns whether anything has arrived. Costs nothing when nothing has."""
        if not self._woken:
            return False
        woken = set()
        while self._woken:
            woken.add(self._woken.popleft())
        progress = False
        # In the order of creation, whatever arrived first: owners before their dependents.
        for informer in [each for each in self._all.values() if each in woken]:
            while informer.pump():
                progress = True
            if informer.failures:
                self._failing.add(informer)
                self._woken.append(informer)
            else:
                self._failing.discard(informer)
        return progress

    def close(self) -> None:
        for informer in self._all.values():
            informer.close()
