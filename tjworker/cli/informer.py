"""An informer: a reflector with a cache of its objects and callbacks, on its own thread. Reads only.

The cache may be late, but not wrong for long: when a watch breaks, the reflector soon tries again. Callbacks run on the
informer's thread.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any

import structlog

from tjworker.base import GroupResource, JsonDict, OperatorError, Transient
from tjworker.kube.reflector import Event, Reflector, RequestSettings
from tjworker.scope import Selection

if TYPE_CHECKING:
    from tjworker.kube.client import KubeClient

OnChange = Callable[[str, JsonDict], None]
"""(`ADDED`, `MODIFIED` or `DELETED`, the object)."""
OnOutage = Callable[[str], None]
"""Called once with the reason when the API server does not answer, and with '' when it answers again."""
RETRY_SECONDS = 1.0
_SILENT = structlog.wrap_logger(
    structlog.PrintLogger(), wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL)
)
"""Discards the reflector's log, which is for services: a command reports an outage through `OnOutage`."""


class Informer:
    def __init__(
        self,
        api: KubeClient,
        resource: GroupResource,
        namespace: str = "",
        *,
        label_selector: str = "",
        on_change: OnChange | None = None,
        on_outage: OnOutage | None = None,
        order: Callable[[JsonDict], Any] = lambda _object: 0,
    ) -> None:
        """`order`: the sort key of the objects of one list, for the callbacks. By default it is the server's order."""
        self._order = order
        self._on_change = on_change or (lambda _kind, _object: None)
        self._on_outage = on_outage or (lambda _why: None)
        self._failures = 0
        self._objects: dict[str, JsonDict] = {}
        self._listed: dict[str, JsonDict] = {}
        self._lock = threading.Lock()
        self.synced = threading.Event()
        self.reflector = Reflector(
            api,
            resource,
            self,
            Selection(namespace, labels=label_selector),
            now=monotonic,
            # A service may wait 30 s between two lists; here a user waits at a terminal.
            requests=RequestSettings(longest_wait_seconds=RETRY_SECONDS),
            log=_SILENT,
        )
        self._thread = threading.Thread(target=self.reflector.run, name=f"informer-{resource}", daemon=True)

    def __enter__(self) -> Informer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        # Without a join: the thread may wait for the next event of a quiet watch. It is a daemon and ends with the
        # process.
        self.reflector.stop()

    def objects(self) -> list[JsonDict]:
        with self._lock:
            return list(self._objects.values())

    # -- the reflector's handler -------------------------------------------------------------------

    def list_begins(self) -> None:
        self._listed = {}

    def page(self, objects: Sequence[JsonDict], version: int) -> None:
        # A list comes in pages and may break off between two, so the cache changes only with a complete list.
        self._listed.update((_key(obj), obj) for obj in objects)

    def list_ends(self, version: int) -> None:
        """Replace the cache; call back for every difference."""
        with self._lock:
            before, self._objects = self._objects, self._listed
        self._listed = {}
        after = dict(self._objects)
        self.api_works()
        # Without the lock: a callback may ask for the objects.
        for key, old in before.items():
            if key not in after:
                self._on_change("DELETED", old)
        for key, new in sorted(after.items(), key=lambda pair: self._order(pair[1])):
            if key not in before:
                self._on_change("ADDED", new)
            # The list after a broken watch repeats known objects. Only another resourceVersion is a change.
            elif _version(before[key]) != _version(new):
                self._on_change("MODIFIED", new)
        # After the callbacks: a caller that has waited for this has heard of every object.
        self.synced.set()

    def absent(self) -> None:
        """Keep an empty cache: the CRD may be installed later, and the reflector lists again."""

    def refused(self) -> None: ...

    def watch_begins(self) -> None: ...

    def events(self, events: Sequence[Event], version: int) -> None:
        for kind, obj in events:
            with self._lock:
                if kind == "DELETED":
                    self._objects.pop(_key(obj), None)
                else:
                    self._objects[_key(obj)] = obj
            self._on_change(kind, obj)

    def api_fails(self, error: OperatorError) -> None:
        """Report an outage at the second failure in a row: a single watch may break at any time."""
        if isinstance(error, Transient):
            self._failures += 1
            if self._failures == 2:
                self._on_outage(error.message)

    def api_works(self) -> None:
        """End the outage. The API server answers, even if it refuses: a missing CRD or permission is not an outage."""
        failures, self._failures = self._failures, 0
        if failures >= 2:
            self._on_outage("")


def _key(obj: JsonDict) -> str:
    metadata = obj["metadata"]
    return f"{metadata.get('namespace', '')}/{metadata['name']}"


def _version(obj: JsonDict) -> str:
    return str(obj["metadata"].get("resourceVersion", ""))
