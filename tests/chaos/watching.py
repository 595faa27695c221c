"""What becomes of pods, seen by a list and a watch of their own, straight from the API server: every pod ever made, by
UID. A server that dies in between costs nothing: the watch goes on from the version it had come to."""

from __future__ import annotations

import threading
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

import orjson

from tests.e2e.control_plane.api import open_transport
from tjworker.api.resources import PODS
from tjworker.base import OperatorError
from tjworker.kube.client import KubeClient


class PodLog:
    def __init__(self, kubeconfig: Path) -> None:
        self._client = KubeClient(open_transport(kubeconfig), watch_read_timeout_seconds=10)
        self._made: dict[tuple[str, str], set[str]] = defaultdict(set)
        self._mutex = threading.Lock()
        self._stopping = threading.Event()
        self._version = 0
        self._thread = threading.Thread(target=self._run, name="pod-log", daemon=True)
        self.gaps = 0
        """Times that the history was gone, so that a pod could have been missed."""

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(15)

    def made(self, namespace: str) -> dict[str, int]:
        """Pod name -> how many pods of that name there have been."""
        with self._mutex:
            return {name: len(uids) for (ns, name), uids in sorted(self._made.items()) if ns == namespace}

    def uids(self, namespace: str) -> dict[str, set[str]]:
        with self._mutex:
            return {name: set(uids) for (ns, name), uids in self._made.items() if ns == namespace}

    def caught_up_with(self, version: int) -> bool:
        return self._version >= version

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                if not self._version:
                    page = self._client.list_page(PODS)
                    for pod in page.items:
                        self._see(pod)
                    self._version = page.resource_version
                self._watch()
            except OperatorError as error:
                if error.status == 410:
                    self._version, self.gaps = 0, self.gaps + 1
                self._stopping.wait(0.5)

    def _watch(self) -> None:
        stream = self._client.watch(PODS, resource_version=self._version, timeout_seconds=8)
        try:
            for lines in stream.lines():
                for line in lines:
                    event = orjson.loads(line)
                    if event["type"] == "ERROR":
                        self._version, self.gaps = 0, self.gaps + 1
                        return
                    self._version = int(event["object"]["metadata"]["resourceVersion"])
                    if event["type"] != "BOOKMARK":
                        self._see(event["object"])
        finally:
            with suppress(OSError):
                stream.close()

    def _see(self, pod: dict[str, dict[str, str]]) -> None:
        meta = pod["metadata"]
        with self._mutex:
            self._made[meta["namespace"], meta["name"]].add(meta["uid"])
