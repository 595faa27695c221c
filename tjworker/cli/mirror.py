"""Objects of one resource kept up to date by list and watch, for views: a thread that reads, nothing else.

A view may be late but never wrong for long: whatever breaks a watch (an end, an error, 410, a dead server) leads to a new list
after a moment. Callbacks run in the mirror's thread.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tjworker.base import OperatorError, Transient
from tjworker.cli.jobs import list_all

if TYPE_CHECKING:
    from tjworker.kube.port import KubeApi, Stream

Json = dict[str, Any]
OnChange = Callable[[str, Json], None]
"""(`ADDED`, `MODIFIED` or `DELETED`, the object)."""
OnOutage = Callable[[str], None]
"""Why the API server cannot be asked, once when that turns out; '' when it can again."""
_RETRY_SECONDS = 1.0
_WATCH_SECONDS = 50


class Mirror:
    def __init__(
        self,
        api: KubeApi,
        resource: str,
        namespace: str = "",
        *,
        label_selector: str = "",
        on_change: OnChange | None = None,
        on_outage: OnOutage | None = None,
    ) -> None:
        self._api, self._resource, self._namespace, self._selector = api, resource, namespace, label_selector
        self._on_change = on_change or (lambda _kind, _object: None)
        self._on_outage = on_outage or (lambda _why: None)
        self._away = False
        self._objects: dict[str, Json] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._stream: Stream | None = None
        self.synced = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"mirror-{resource}", daemon=True)

    def __enter__(self) -> Mirror:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        stream = self._stream
        if stream is not None:
            stream.close()

    def objects(self) -> list[Json]:
        with self._lock:
            return list(self._objects.values())

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                version = self._list()
            except OperatorError as error:
                # Anything else is an answer: a CRD that is not installed (404), a right that is missing.
                away = isinstance(error, Transient) and error.status != 404
                self._tell(error.message if away else "")
                self._stop.wait(_RETRY_SECONDS)
                continue
            self._tell("")
            try:
                self._follow(version)
            except OperatorError:
                self._stop.wait(_RETRY_SECONDS)

    def _tell(self, why: str) -> None:
        if bool(why) != self._away:
            self._away = bool(why)
            self._on_outage(why)

    def _list(self) -> int:
        """Take over what is there, telling of every difference. The resourceVersion to watch from."""
        version = self._api.list_page(
            self._resource, self._namespace, limit=1, label_selector=self._selector
        ).resource_version
        fresh = {
            _key(o): o for o in list_all(self._api, self._resource, self._namespace, label_selector=self._selector)
        }
        with self._lock:
            before = self._objects
            self._objects = dict(fresh)
        for key, old in before.items():
            if key not in fresh:
                self._on_change("DELETED", old)
        for key, new in fresh.items():
            if key not in before:
                self._on_change("ADDED", new)
            elif _version(before[key]) != _version(new):
                self._on_change("MODIFIED", new)
        self.synced.set()
        return version

    def _follow(self, version: int) -> None:
        while not self._stop.is_set():
            self._stream = self._api.watch(
                self._resource,
                self._namespace,
                resource_version=version,
                timeout_seconds=_WATCH_SECONDS,
                label_selector=self._selector,
            )
            if self._stop.is_set():  # asked before there was a stream to close
                self._stream.close()
                return
            for batch in self._stream.lines():
                for line in batch:
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        self._stop.wait(_RETRY_SECONDS)
                        return
                    version = int(_version(event["object"]) or version)
                    if event["type"] != "BOOKMARK":
                        self._take(event["type"], event["object"])

    def _take(self, kind: str, obj: Json) -> None:
        key = _key(obj)
        with self._lock:
            known = self._objects.get(key)
            if kind == "DELETED":
                self._objects.pop(key, None)
            else:
                self._objects[key] = obj
        # The list was taken after the version that the watch starts from, so the first events may be known already.
        if kind == "DELETED" or known is None or _version(known) != _version(obj):
            self._on_change(kind, obj)


def _key(obj: Json) -> str:
    metadata = obj["metadata"]
    return f"{metadata.get('namespace', '')}/{metadata['name']}"


def _version(obj: Json) -> str:
    return str(obj["metadata"].get("resourceVersion", ""))
