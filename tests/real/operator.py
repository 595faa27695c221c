"""The operator as it is deployed: watcher, two workers, beat and a Redis as processes, each with the service account and the
RBAC that k8s/ gives it. And the nodes: a fake node agent. What they say goes to files; nothing outlives this process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from controlplane import ControlPlane
from controlplane.process import Process
from tests.paths import ROOT
from tests.valkey import Valkey
from tjworker.cli.stack.services import kubectl_path
from tjworker.kube import rbac
from tjworker.settings import OFF

NODES, NODE_CPUS = 3, 8
START_SECONDS = 300.0
SETTINGS = {
    # Sooner than in production: tests wait for them.
    "TJ_RESYNC_SECONDS": "5", "TJ_LEASE_DURATION_SECONDS": "6", "TJ_LEASE_RENEW_SECONDS": "2", "TJ_LOCK_TTL_SECONDS": "10",
    "TJ_AUTOSCALE_COOLDOWN_SECONDS": "10", "TJ_LEADER_NAMESPACE": rbac.NAMESPACE, "PYTHONUNBUFFERED": "1",
}
_CELERY = (sys.executable, "-m", "celery", "-A", "tjworker.app")


def kubectl(kubeconfig: Path, *arguments: str, stdin: str | None = None) -> str:
    """Its output. A failure is an AssertionError with what it said."""
    done = subprocess.run([str(kubectl_path()), "--kubeconfig", str(kubeconfig), *arguments], input=stdin, text=True,
                          capture_output=True, check=False, timeout=240)
    assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}"
    return done.stdout


class Operator:
    """`start`, use, `stop`. `plane` runs already."""

    watcher_command = (sys.executable, "-m", "watcher")

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self.plane = plane
        self.folder = folder
        self._redis = Valkey(folder, append_only=True)
        self.processes: dict[str, Process] = {}

    def start(self) -> None:
        admin = self.plane.kubeconfig
        kubectl(admin, "apply", "-f", str(ROOT / "k8s/crds"))
        kubectl(admin, "create", "namespace", rbac.NAMESPACE)
        kubectl(admin, "apply", "-f", str(ROOT / "k8s/base/rbac.yaml"))
        self._redis.start()
        watcher, worker = (self.plane.kubeconfig_for(rbac.user(process)) for process in rbac.PROCESSES)
        self.start_process("agent", [sys.executable, "-m", "localcluster.agents", "--kubeconfig", str(admin), "--agent", "fake",
                              "--nodes", str(NODES), "--node-cpu", str(NODE_CPUS)])
        self.start_process("watcher", self.watcher_command, watcher)
        for number in (1, 2):
            command = [*_CELERY, "worker", "-n", f"worker{number}@%h", "--concurrency", "1"]
            self.start_process(f"worker{number}", command, worker)
        self._start_beat("beat", OFF)  # lives that scale by hand would not be their own; see `autoscaling`
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

    def _ready(self) -> bool:
        nodes = kubectl(self.plane.kubeconfig, "get", "nodes", "--no-headers")
        ready = len(re.findall(r"\bReady\b", nodes)) == NODES
        return ready and all(re.search(rf"worker{n}@\S+ ready", self.processes[f"worker{n}"].log.read_text()) for n in (1, 2))

    def _start_beat(self, name: str, autoscale_policy: str) -> Process:
        # Beat needs no Kubernetes: one that is not there is proof.
        return self.start_process(name, [*_CELERY, "beat", "-s", str(self.folder / name)], self.folder / "no-kubeconfig",
                           TJ_AUTOSCALE_POLICY=autoscale_policy)

    def start_process(self, name: str, command: Sequence[str], kubeconfig: Path | None = None, **settings: str) -> Process:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("TJ_", "KUBE", "PYTEST_"))}
        env = {**kept, **SETTINGS, **settings, "TJ_REDIS_URL": self._redis.url}
        if kubeconfig:
            env["KUBECONFIG"] = str(kubeconfig)
        process = Process(name, command, self.folder / f"{name}.log", env)
        self.processes[name] = process
        process.start()
        return process
