"""Open watches: where each starts, which events it sees and in which form, when it ends.

The bytes of an event are made once for all watchers that want the same form. Nothing here writes to the store.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from localcluster.apiserver.errors import StatusError, gone, resource_version_too_large
from localcluster.apiserver.forms import Form, Presenter, wanted_form
from localcluster.apiserver.options import parse_number
from localcluster.apiserver.reading import Selection, parse_selection, parse_version
from localcluster.resources import Resource
from localcluster.storage import Compacted, Event, EventType, Item, Store
from localcluster.wire import Encoded, Json, Request, Watch

BOOKMARK_EVERY_SECONDS = 60.0
_SHORTEST_SECONDS = 1800.0
"""A watch without timeoutSeconds ends after this long, and up to twice as long, as kube-apiserver's do."""


@dataclass(slots=True, eq=False)
class Watcher:
    watch: Watch
    resource: Resource
    chosen: Selection
    form: Form
    bookmarks: bool
    deadline: float
    next_bookmark: float
    headers_due: bool = True

    @property
    def due(self) -> float:
        return min(self.deadline, self.next_bookmark) if self.bookmarks else self.deadline


class Watchers:
    def __init__(self, store: Store, presenter: Presenter, clock: Callable[[], float], rng: random.Random) -> None:
        self._store = store
        self._presenter = presenter
        self._clock = clock
        self._rng = rng
        self._open: dict[str, list[Watcher]] = {}
        self._next_due: float | None = None
        self._due_known = True
        """False after the watch that was due first has gone: `next_due` then looks for the earliest again."""

    def open(self, resource: Resource, namespace: str, request: Request, since: int = 0) -> Watch:
        """Opens a watch. `since`: the revision from which on this resource is served as it is now.

        Raises StatusError for what is wrong with the request. A version that is too old is reported in the stream, as
        an ERROR event (`newErrWatcher` of kube-apiserver's cacher)."""
        query = request.query
        chosen = parse_selection(resource, namespace, request)
        text = query.get("resourceVersion", "")
        initial = query.get("sendInitialEvents")
        _check_match(initial, query.get("resourceVersionMatch", ""))
        version = parse_version(text, inside=True) if text else 0
        # A version from before a restore of the storage may be greater than any here: the client must list again.
        if version > self._store.revision:
            raise resource_version_too_large(version, self._store.revision)
        now = self._clock()
        seconds = parse_number(query.get("timeoutSeconds") or "0") or _SHORTEST_SECONDS * (1 + self._rng.random())
        watcher = Watcher(
            Watch(),
            resource,
            chosen,
            wanted_form(request),
            query.get("allowWatchBookmarks") in ("true", "1"),
            now + seconds,
            now + BOOKMARK_EVERY_SECONDS,
        )
        # A watch without a version, or with 0, begins with the present objects.
        if initial == "true" or (initial is None and version == 0):
            self._send_initial(watcher, marked=initial == "true")
        else:
            try:
                if 0 < version < since:
                    raise Compacted(version, since)
                missed = self._store.since(resource.bucket, version or self._store.revision)
            except Compacted as compacted:
                status = gone(f"too old resource version: {version} ({compacted.oldest})").status()
                watcher.watch.push(_Line("ERROR", Encoded(status)))
                watcher.watch.close()
                return watcher.watch
            for event in missed:
                self._send(watcher, event)
        self._open.setdefault(resource.bucket, []).append(watcher)
        if self._next_due is None or watcher.due < self._next_due:
            self._next_due = watcher.due
        watcher.watch.on_close = lambda: self._forget(watcher)
        return watcher.watch

    def _send_initial(self, watcher: Watcher, *, marked: bool) -> None:
        for key, item in self._store.items(watcher.resource.bucket, watcher.chosen.namespace):
            if watcher.chosen.covers(key) and watcher.chosen.matches(item.obj):
                watcher.watch.push(_Line("ADDED", self._present(watcher, item)))
        if marked and watcher.bookmarks:
            self._send_bookmark(watcher, {"k8s.io/initial-events-end": "true"})

    def dispatch(self, event: Event) -> None:
        for watcher in self._open.get(event.bucket, ()):
            self._send(watcher, event)

    def _send(self, watcher: Watcher, event: Event) -> None:
        if not watcher.chosen.covers(event.key):
            return
        shown = self._as_seen(watcher.chosen, event)
        if shown is None:
            return
        kind, item = shown
        if watcher.form.kind == "table":
            watcher.watch.push(_Line(kind, self._present(watcher, item)))
            return
        key = f"{kind} {watcher.resource.api_version} {watcher.form.key}"
        line = event.lines.get(key)
        if line is None:
            line = event.lines[key] = _Line(kind, self._presenter.one(watcher.resource, item, watcher.form))
        watcher.watch.push(line)

    @staticmethod
    def _as_seen(chosen: Selection, event: Event) -> tuple[EventType, Item] | None:
        # Without a selector, an object enters the selection when created and leaves it when deleted.
        if not chosen.filters:
            return event.type, event.item
        before = event.previous is not None and chosen.matches(event.previous.obj)
        after = event.type != "DELETED" and chosen.matches(event.item.obj)
        if after:
            return ("MODIFIED" if before else "ADDED"), event.item
        if not before or event.previous is None:
            return None
        if event.type == "DELETED":
            return "DELETED", event.item
        # The watcher sees the last state that matched, under the version of the write that took it out.
        last = dict(event.previous.obj)
        last["metadata"] = last["metadata"] | {"resourceVersion": str(event.revision)}
        return "DELETED", Item(last, event.revision)

    def _present(self, watcher: Watcher, item: Item) -> Encoded:
        if watcher.form.kind != "table":
            return self._presenter.one(watcher.resource, item, watcher.form)
        body = self._presenter.table(
            watcher.resource,
            [item.obj],
            watcher.form,
            item.obj["metadata"]["resourceVersion"],
            headers=watcher.headers_due,
        )
        watcher.headers_due = False
        return Encoded(body)

    def _send_bookmark(self, watcher: Watcher, annotations: Json | None = None) -> None:
        meta: Json = {"resourceVersion": str(self._store.revision)}
        if annotations:
            meta["annotations"] = annotations
        obj: Json = {"kind": watcher.resource.kind, "apiVersion": watcher.resource.api_version, "metadata": meta}
        if watcher.form.kind == "partial":
            obj |= {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
        elif watcher.form.kind == "table":
            obj = {
                "kind": "Table",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": meta,
                "columnDefinitions": None,
                "rows": [],
            }
        watcher.watch.push(_Line("BOOKMARK", Encoded(obj)))

    def tick(self, now: float) -> None:
        if (due := self.next_due()) is None or now < due:
            return
        self._due_known = False
        for watcher in [watcher for watchers in self._open.values() for watcher in watchers]:
            if now >= watcher.deadline:
                watcher.watch.close()
            elif watcher.bookmarks and now >= watcher.next_bookmark:
                watcher.next_bookmark = now + BOOKMARK_EVERY_SECONDS
                self._send_bookmark(watcher)

    def next_due(self) -> float | None:
        if not self._due_known:
            self._next_due = min((w.due for watchers in self._open.values() for w in watchers), default=None)
            self._due_known = True
        return self._next_due

    def end_all(self, bucket: str | None = None) -> None:
        """Close the watches of one bucket (its definition changed or went), or all."""
        for name in [bucket] if bucket is not None else list(self._open):
            for watcher in list(self._open.get(name, ())):
                watcher.watch.close()

    def _forget(self, watcher: Watcher) -> None:
        watchers = self._open.get(watcher.resource.bucket, [])
        if watcher in watchers:
            self._due_known = self._due_known and watcher.due != self._next_due
            # A new list: the close may come out of a `wake` while `dispatch` walks over the old one.
            self._open[watcher.resource.bucket] = [other for other in watchers if other is not watcher]


def _check_match(initial: str | None, match: str) -> None:
    """resourceVersionMatch belongs to sendInitialEvents, and the other way round."""
    found: list[tuple[str, str]] = []
    if initial is None and match:
        found.append(
            (
                "FieldValueForbidden",
                "Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            )
        )
    if initial is not None and match != "NotOlderThan":
        found.append(
            (
                "FieldValueForbidden",
                "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            )
        )
        if match:
            found.append(("FieldValueNotSupported", f'Unsupported value: "{match}": supported values: "NotOlderThan"'))
    if not found:
        return
    causes = [{"reason": reason, "message": message, "field": "resourceVersionMatch"} for reason, message in found]
    texts = [f"resourceVersionMatch: {message}" for _, message in found]
    listed = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    raise StatusError(
        422,
        "Invalid",
        f'ListOptions.meta.k8s.io "" is invalid: {listed}',
        {"group": "meta.k8s.io", "kind": "ListOptions", "causes": causes},
    )


class _Line(Encoded):
    """One event; the bytes of its object are those that lists and other watches show."""

    __slots__ = ("_shown",)

    def __init__(self, kind: str, shown: Encoded) -> None:
        super().__init__({"type": kind, "object": shown.obj})
        self._shown = shown

    def _encode(self) -> bytes:
        return b'{"type":"%b","object":%b}\n' % (self.obj["type"].encode(), self._shown.data)
