"""The operator as it is deployed: watcher, two workers, beat and a Redis as processes, each with the service account
and the RBAC that k8s/ gives it. And the nodes: a fake kubelet. What they say goes to files; nothing outlives this
process."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.support.valkey import Valkey, free_port
from controlplane import ControlPlane
from controlplane.process import Process
from tests.e2e.control_plane.install import (
    CELERY,
    WATCHER,
    agent,
    environment,
    install,
    nodes_ready,
    worker,
    worker_ready,
)
from tests.support.paths import ROOT
from tjworker.kube import rbac
from tjworker.settings import OFF

NODES, NODE_CPUS = 3, 8
WORKERS = ("worker1", "worker2")
START_SECONDS = 300.0
SETTINGS = {"TJ_LEASE_DURATION_SECONDS": "6", "TJ_LEASE_RENEW_SECONDS": "2", "TJ_AUTOSCALE_COOLDOWN_SECONDS": "10"}
"""Sooner than in production: tests wait for them."""


class Operator:
    """`start`, use, `stop`. `plane` runs already."""

    watcher_command = WATCHER
    nodes = NODES
    """How many are Ready when it has started."""

    def __init__(self, plane: ControlPlane, folder: Path, gang: str = "none") -> None:
        self.plane = plane
        self.gang = gang
        self.lives = 0
        """Worlds that it was asked to serve so far."""
        self.folder = folder
        self._redis = Valkey(folder, append_only=True)
        self.processes: dict[str, Process] = {}
        self.reports_port = 0

    def start(self) -> None:
        install(self.plane, self.gang)
        self._redis.start()
        watchers, workers, reporters = (self.plane.kubeconfig_for(rbac.user(process)) for process in rbac.PROCESSES)
        self._start_nodes()
        self.start_process("watcher", self.watcher_command, watchers)
        for name in WORKERS:
            self.start_process(name, worker(name, 1), workers)
        self._start_reporter(reporters)
        self._start_beat("beat", OFF)  # scenarios that scale by hand would not be their own; see `autoscaling`
        deadline = time.monotonic() + START_SECONDS
        while not self._ready():
            self.check()
            assert time.monotonic() < deadline, self.last_words()
            time.sleep(0.1)

    @contextmanager
    def autoscaling(self) -> Iterator[None]:
        """The autoscaler runs meanwhile: another beat asks for it."""
        beat = self._start_beat("autoscaling-beat", "fulfillment")
        try:
            yield
        finally:
            beat.stop(0)
            del self.processes[beat.name]

    def stop(self) -> None:
        for process in self.processes.values():
            process.stop(0)  # what they would still do in order is tested elsewhere
        self._redis.kill()

    def check(self) -> None:
        """None of them has ended."""
        for process in self.processes.values():
            assert not process.ended(), f"{process.name}: {process.ended()}\n{process.last_words()}"
        assert not self.plane.ended(), self.plane.ended()

    def last_words(self) -> str:
        return "\n".join(f"--- {p.name}\n{p.last_words()}" for p in self.processes.values())

    def _start_nodes(self) -> None:
        self.start_process("agent", agent(self.plane.kubeconfig, NODES, "--node-cpu", str(NODE_CPUS)))

    def _start_reporter(self, kubeconfig: Path) -> None:
        """No pod is told of it: nodes that are played run no program that would report."""
        tls = self.folder / "reports"
        subprocess.run(["sh", str(ROOT / "k8s/certificates.sh"), str(tls), "localhost"], check=True, timeout=60)
        self.reports_port = free_port()
        settings = {"TJ_REPORTS_HOST": "127.0.0.1", "TJ_REPORTS_PORT": str(self.reports_port)}
        command = (sys.executable, "-m", "tjworker.reports")
        self.start_process("reporter", command, kubeconfig, TJ_REPORTS_TLS_FOLDER=str(tls), **settings)

    def _ready(self) -> bool:
        return nodes_ready(self.plane.kubeconfig) == self.nodes and all(
            worker_ready(self.processes[name]) for name in WORKERS
        )

    def _start_beat(self, name: str, autoscale_policy: str) -> Process:
        # Beat needs no Kubernetes: one that is not there is proof.
        return self.start_process(
            name,
            [*CELERY, "beat", "-s", str(self.folder / name)],
            self.folder / "no-kubeconfig",
            TJ_AUTOSCALE_POLICY=autoscale_policy,
        )

    def start_process(
        self, name: str, command: Sequence[str], kubeconfig: Path | None = None, **settings: str
    ) -> Process:
        env = environment(self._redis.url, kubeconfig, {**SETTINGS, "TJ_GANG_SCHEDULER": self.gang, **settings})
        process = Process(name, command, self.folder / f"{name}.log", env)
        self.processes[name] = process
        process.start()
        return process
