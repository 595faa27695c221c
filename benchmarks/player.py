"""`python -m benchmarks.player`: plays every pod that has a node, as cheaply as can be: one write when it starts, one
when it ends, nothing else. No events, no leases: what a kubelet costs is no part of the measure.

Annotations of a pod: `bench/run-seconds` says how long it runs (absent: for ever); `bench/hands-off` leaves it alone.
"""

from __future__ import annotations

import heapq
import itertools
import queue
import sys
import threading
import time
from datetime import UTC, datetime

from benchmarks.wire import Connection, Json, Server

WRITERS = 8
RUN_SECONDS = "bench/run-seconds"
HANDS_OFF = "bench/hands-off"
ENDED = frozenset({"Succeeded", "Failed"})

Work = tuple[str, Json]
"""(path of the pod, its pod) to be written as: (path, status)."""


def running(pod: Json, address: str) -> Json:
    now = _now()
    containers = [
        {
            "name": c["name"],
            "image": c["image"],
            "imageID": "",
            "ready": True,
            "started": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": now}},
        }
        for c in pod["spec"]["containers"]
    ]
    true = [
        {"type": kind, "status": "True", "lastTransitionTime": now}
        for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    ]
    return {
        "phase": "Running",
        "startTime": now,
        "podIP": address,
        "podIPs": [{"ip": address}],
        "hostIP": "127.0.0.1",
        "conditions": true,
        "containerStatuses": containers,
    }


def ended(pod: Json, started_at: str) -> Json:
    now = _now()
    containers = [
        {
            "name": c["name"],
            "image": c["image"],
            "imageID": "",
            "ready": False,
            "started": False,
            "restartCount": 0,
            "state": {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": started_at, "finishedAt": now}},
        }
        for c in pod["spec"]["containers"]
    ]
    conditions = [
        {"type": kind, "status": value, "lastTransitionTime": now, "reason": "PodCompleted"}
        for kind, value in (
            ("PodScheduled", "True"),
            ("Initialized", "True"),
            ("ContainersReady", "False"),
            ("Ready", "False"),
        )
    ]
    return {"phase": "Succeeded", "conditions": conditions, "containerStatuses": containers}


class Player:
    def __init__(self, server: Server, token: str) -> None:
        self._server = server
        self._token = token
        self._work: queue.SimpleQueue[tuple[str, Json]] = queue.SimpleQueue()
        self._played: set[str] = set()
        self._due: list[tuple[float, int, str, Json]] = []
        self._filled = threading.Condition()
        self._numbers = itertools.count(1)

    def run(self) -> None:
        for number in range(WRITERS):
            threading.Thread(target=self._write, name=f"writer {number}", daemon=True).start()
        threading.Thread(target=self._clock, name="clock", daemon=True).start()
        version = Connection(self._server, self._token).get("/api/v1/pods?limit=1")["metadata"]["resourceVersion"]
        sys.stdout.write("playing\n")
        sys.stdout.flush()
        while True:
            watch = Connection(self._server, self._token, timeout_seconds=3600)
            for event in watch.watch("/api/v1/pods", version):
                if event["type"] == "ERROR":
                    raise RuntimeError(str(event["object"]))
                version = event["object"]["metadata"]["resourceVersion"]
                self._see(event["type"], event["object"])

    def _see(self, kind: str, pod: Json) -> None:
        meta = pod["metadata"]
        uid = meta["uid"]
        if kind == "DELETED":
            self._played.discard(uid)
            return
        notes = meta.get("annotations") or {}
        if HANDS_OFF in notes or not pod["spec"].get("nodeName"):
            return
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
        if "deletionTimestamp" in meta:
            # The API server removes a pod that has ended by itself: a DELETE would find nothing.
            if pod.get("status", {}).get("phase") not in ENDED:
                self._work.put((path, {}))
            return
        if uid in self._played:
            return
        self._played.add(uid)
        number = next(self._numbers)
        status = running(pod, f"10.{64 + (number >> 16) % 64}.{(number >> 8) & 255}.{number & 255}")
        self._work.put((f"{path}/status", {"metadata": {"uid": uid}, "status": status}))
        if RUN_SECONDS in notes:
            end = {"metadata": {"uid": uid}, "pod": pod, "started": status["startTime"]}
            with self._filled:
                heapq.heappush(self._due, (time.monotonic() + float(notes[RUN_SECONDS]), number, f"{path}/status", end))
                self._filled.notify()

    def _clock(self) -> None:
        while True:
            with self._filled:
                while not self._due or self._due[0][0] > time.monotonic():
                    self._filled.wait(self._due[0][0] - time.monotonic() if self._due else None)
                _, _, path, end = heapq.heappop(self._due)
            self._work.put((path, {"metadata": end["metadata"], "status": ended(end["pod"], end["started"])}))

    def _write(self) -> None:
        connection = Connection(self._server, self._token)
        while True:
            path, body = self._work.get()
            if body:
                status = connection.merge_patch(path, body)
            else:
                status = connection.send("DELETE", path, {"gracePeriodSeconds": 0})[0]
            if status >= 300 and status not in (404, 409):
                sys.stderr.write(f"{path}: {status}\n")


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


if __name__ == "__main__":
    Player(Server(sys.argv[1], int(sys.argv[2])), sys.argv[3]).run()
