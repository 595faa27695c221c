"""A process kubelet with a real API server core and real processes, driven by the test's own thread. No sleeps: `until`
waits for a condition, woken by the kubelet, with a deadline."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from pathlib import Path

from localcluster.apiserver import ApiServer
from localcluster.client import InProcessClient
from localcluster.controllers import controllers
from localcluster.driver import Rounds
from localcluster.informer import Informers
from localcluster.kubelet.logstreams import LogStreams
from localcluster.kubelet.node import NodeConfig
from localcluster.kubelet.process import ProcessKubelet
from localcluster.kubelet.provisioner import PROVISIONER, Provisioner
from localcluster.recorder import Recorder
from localcluster.wire import Json, Request, Response, Watch
from localcluster_tests.support.waiting import PATIENCE_SECONDS
from localcluster_tests.unit.world import PODS


class Room:
    def __init__(
        self, folder: Path, *, isolation: str = "auto", apiserver: ApiServer | None = None, log_bytes: int = 1 << 20
    ) -> None:
        self.folder = folder
        self.woken = threading.Event()
        self.apiserver = apiserver or ApiServer(clock=time.time, rng=random.Random(1), data_dir=None)
        self.client = InProcessClient(self.apiserver.handle)
        self.informers = Informers(self.client, self.woken.set)
        self.kubelet = ProcessKubelet(
            self.client,
            self.informers,
            time.time,
            [NodeConfig("node-0")],
            data_dir=folder,
            wake=self.woken.set,
            isolation=isolation,
            working_dir="/",
            log_bytes=log_bytes,
        )
        self.streams = LogStreams(self.kubelet.log_folder, time.time, self.woken.set)
        self.apiserver.log_source = self.streams.source
        provisioner = Provisioner(
            self.client, self.informers, Recorder(self.client, time.time, PROVISIONER), folder / "volumes"
        )
        machines = [*controllers(self.client, self.informers, time.time), provisioner, self.kubelet, self.streams]
        self.rounds = Rounds([self.informers], machines, time.time)
        self.settle()

    def settle(self) -> None:
        while self.rounds.round():
            pass

    def until(self, condition: Callable[[], object], seconds: float = PATIENCE_SECONDS) -> None:
        deadline = time.monotonic() + seconds
        while True:
            self.woken.clear()
            self.settle()
            if condition():
                return
            assert time.monotonic() < deadline, (
                f"not within {seconds} s; pods: {[p['status'] for p in self.client.get(PODS)['items']]}"
            )
            due = self.rounds.next_due()
            self.woken.wait(min(0.2, max(0.0, (due or time.time() + 1) - time.time())))

    def run(self, pod: Json) -> Json:
        return self.client.create(PODS, {**pod, "spec": {**pod["spec"], "nodeName": "node-0"}})

    def status(self, name: str) -> Json:
        shown: Json = self.client.get(f"{PODS}/{name}")["status"]
        return shown

    def phase_is(self, name: str, *phases: str) -> Callable[[], bool]:
        return lambda: self.status(name)["phase"] in phases

    def gone(self, name: str) -> Callable[[], bool]:
        return lambda: name not in [p["metadata"]["name"] for p in self.client.get(PODS)["items"]]

    def logs(self, name: str, **query: str) -> str:
        answer = self.apiserver.handle(Request("GET", f"{PODS}/{name}/log", query))
        assert isinstance(answer, Response)
        return answer.body.decode()

    def follow(self, name: str) -> Watch:
        answer = self.apiserver.handle(Request("GET", f"{PODS}/{name}/log", {"follow": "true"}))
        assert isinstance(answer, Watch)
        return answer


def container(*command: str, **more: object) -> Json:
    return {"name": "main", "image": "none", "command": list(command), **more}


def shell(script: str, **more: object) -> Json:
    return container("sh", "-c", script, **more)


def pod(
    name: str, *containers: Json, restart: str = "Never", labels: dict[str, str] | None = None, **spec: object
) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels or {}, "annotations": {"note": "n"}},
        "spec": {"restartPolicy": restart, "terminationGracePeriodSeconds": 5, "containers": list(containers), **spec},
    }


def processes(mark: str, folder: Path) -> list[int]:
    """The processes whose command line holds the mark and that were started for a container below the folder (tests of
    others may run the same command)."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            ours = str(folder).encode() in (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes()
            if ours and mark.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def ended(status: Json, index: int = 0) -> Json:
    shown: Json = status["containerStatuses"][index]["state"]["terminated"]
    return shown
