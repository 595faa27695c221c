"""`kubectl logs` where kubelet and API server share a process: whole answers, and streams that are fed while someone
reads.

A step machine: it polls only while a stream is open. Never writes but to the open watches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import orjson

from localcluster.kubelet.logs import FOLLOW_SECONDS, Follower, LogOptions, read
from localcluster.wire import Response, Watch

Find = Callable[[str, str, str, Mapping[str, str]], tuple[Path, Callable[[], bool]]]


class LogStreams:
    name = "log-streams"

    def __init__(self, find: Find, clock: Callable[[], float], wake: Callable[[], None]) -> None:
        self._find = find
        self._clock = clock
        self._wake = wake
        self._open: list[tuple[Watch, Follower]] = []
        self._due = 0.0

    def source(self, namespace: str, pod: str, container: str, query: Mapping[str, str]) -> Response | Watch:
        """The API server's `log_source`."""
        try:
            options = LogOptions.of(query, self._clock())
            folder, ended = self._find(namespace, pod, container, query)
        except (LookupError, ValueError) as error:
            message = str(error.args[0] if error.args else error)
            status = {
                "kind": "Status",
                "apiVersion": "v1",
                "metadata": {},
                "status": "Failure",
                "message": message,
                "reason": "BadRequest",
                "code": 400,
            }
            return Response(400, orjson.dumps(status))
        if not options.follow:
            return Response(200, read(folder, options), content_type="text/plain")
        watch = Watch("text/plain")
        follower = Follower(folder, options, ended)
        self._feed(watch, follower)
        if not watch.closed:
            self._open.append((watch, follower))
            self._wake()
        return watch

    @staticmethod
    def _feed(watch: Watch, follower: Follower) -> None:
        data = follower.poll()
        if data:
            watch.push(data)
        if follower.done:
            watch.close()

    def step(self, now: float) -> bool:
        if not self._open or now < self._due:
            return False
        for watch, follower in self._open:
            self._feed(watch, follower)
        self._open = [pair for pair in self._open if not pair[0].closed]
        self._due = now + FOLLOW_SECONDS
        return False

    def next_due(self) -> float | None:
        return self._due if self._open else None
