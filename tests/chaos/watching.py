"""What an API server holds over time, seen by a list and a watch of their own, straight from it. A server that dies in
between costs nothing: the watch goes on from the version it had come to."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from tests.e2e.control_plane.api import open_transport
from tjworker.api.resources import PODS
from tjworker.base import GroupResource, OperatorError
from tjworker.kube.client import KubeClient

Json = dict[str, Any]
See = Callable[[str, Json], None]
"""(ADDED, MODIFIED or DELETED; the object), each version once."""


class Watch:
    """One resource, in all namespaces, on a thread of its own."""

    def __init__(self, kubeconfig: Path, resource: GroupResource, see: See) -> None:
        self._client = KubeClient(open_transport(kubeconfig), watch_read_timeout_seconds=10)
        self._resource = resource
        self._see = see
        self._stopping = threading.Event()
        self._version = 0
        self._known: dict[str, Json] = {}
        """UID -> what it was last."""
        self._thread = threading.Thread(target=self._run, name=f"watch-{resource}", daemon=True)
        self.gaps = 0
        """Times that the history was gone, as it is whenever a kube-apiserver has started. Then the list tells what has
        come of it; what was in between, and how often, is not seen."""

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(15)

    def caught_up_with(self, version: int) -> bool:
        return self._version >= version

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                if not self._version:
                    self._list()
                self._watch()
            except OperatorError as error:
                if error.status == 410:
                    self._version, self.gaps = 0, self.gaps + 1
                self._stopping.wait(0.5)

    def _list(self) -> None:
        page = self._client.list_page(self._resource)
        there = {item["metadata"]["uid"]: item for item in page.items}
        for uid, last in list(self._known.items()):
            if uid not in there:
                version = {"resourceVersion": str(page.resource_version)}
                self._take("DELETED", {**last, "metadata": {**last["metadata"], **version}})
        for uid, item in there.items():
            was = self._known.get(uid)
            if was is None or was["metadata"]["resourceVersion"] != item["metadata"]["resourceVersion"]:
                self._take("ADDED" if was is None else "MODIFIED", item)
        self._version = page.resource_version

    def _take(self, kind: str, obj: Json) -> None:
        uid = obj["metadata"]["uid"]
        if kind == "DELETED":
            self._known.pop(uid, None)
        else:
            self._known[uid] = obj
        self._see(kind, obj)

    def _watch(self) -> None:
        stream = self._client.watch(self._resource, resource_version=self._version, timeout_seconds=8)
        try:
            for lines in stream.lines():
                for line in lines:
                    event = orjson.loads(line)
                    if event["type"] == "ERROR":
                        self._version, self.gaps = 0, self.gaps + 1
                        return
                    if event["type"] != "BOOKMARK":
                        self._take(event["type"], event["object"])
                    self._version = int(event["object"]["metadata"]["resourceVersion"])
        finally:
            with suppress(OSError):
                stream.close()


class PodLog:
    """Every pod ever made, by UID."""

    def __init__(self, kubeconfig: Path) -> None:
        self._made: dict[tuple[str, str], set[str]] = defaultdict(set)
        self._mutex = threading.Lock()
        self._pods = Watch(kubeconfig, PODS, self._see)
        self.start, self.stop, self.caught_up_with = self._pods.start, self._pods.stop, self._pods.caught_up_with

    @property
    def gaps(self) -> int:
        return self._pods.gaps

    def made(self, namespace: str) -> dict[str, int]:
        """Pod name -> how many pods of that name there have been."""
        with self._mutex:
            return {name: len(uids) for (ns, name), uids in sorted(self._made.items()) if ns == namespace}

    def uids(self, namespace: str) -> dict[str, set[str]]:
        with self._mutex:
            return {name: set(uids) for (ns, name), uids in self._made.items() if ns == namespace}

    def _see(self, kind: str, pod: Json) -> None:
        meta = pod["metadata"]
        with self._mutex:
            self._made[meta["namespace"], meta["name"]].add(meta["uid"])
