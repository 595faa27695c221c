"""`python -m localcluster` and `python -m localcluster.kubelet` as processes: what they print, survive, and leave
behind."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from localcluster.client import ApiError
from localcluster.http_client import HttpClient, from_kubeconfig
from localcluster_tests.support import waiting
from localcluster_tests.support.waiting import PATIENCE_SECONDS
from localcluster_tests.unit.kubelet.room import pod, processes, shell
from localcluster_tests.unit.world import PODS

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

Start = Callable[..., "subprocess.Popen[bytes]"]


@contextlib.contextmanager
def starting(folder: Path) -> Iterator[Start]:
    """Gives a function that starts a module as a process; ends them all, and what they have left of pods below the
    folder."""
    begun: list[subprocess.Popen[bytes]] = []

    def run(module: str, *arguments: object) -> subprocess.Popen[bytes]:
        process = subprocess.Popen([sys.executable, "-m", module, *map(str, arguments)], stderr=subprocess.PIPE)
        begun.append(process)
        return process

    try:
        yield run
    finally:
        for process in begun:
            if process.poll() is None:
                process.terminate()
            process.communicate(timeout=PATIENCE_SECONDS)
        # A test that failed between kill -9 and the next start leaves pods running, as it should; not on the tester's
        # machine.
        for pid in processes("", folder):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with starting(tmp_path) as run:
        yield run


def until(what: str, condition: Callable[[], object]) -> None:
    """What the API server does not answer (yet) does not hold."""

    def holds() -> object:
        try:
            return condition()
        except (ApiError, FileNotFoundError):
            return False

    waiting.until(what, holds, look_seconds=0.02)


def connect(kubeconfig: Path) -> HttpClient:
    until("there is a kubeconfig", kubeconfig.exists)
    return HttpClient(from_kubeconfig(kubeconfig))


def phase(client: HttpClient, name: str) -> str:
    return str(client.get(f"{PODS}/{name}")["status"]["phase"])


def test_pods_live_on_over_kill_9_and_sigterm_leaves_no_process(start: Start, tmp_path: Path) -> None:
    data, kubeconfig = tmp_path / "data", tmp_path / "kubeconfig"
    first = start("localcluster", "--data-dir", data, "--kubeconfig", kubeconfig)
    client = connect(kubeconfig)
    until("there is a node", lambda: client.get("/api/v1/nodes/node-0"))
    client.create(PODS, pod("sleeps", shell("sleep 4801 & exec sleep 4801")))
    until("it runs", lambda: phase(client, "sleeps") == "Running" and len(processes("sleep\x004801", tmp_path)) == 2)
    uid = client.get(f"{PODS}/sleeps")["metadata"]["uid"]
    before = sorted(processes("sleep\x004801", tmp_path))
    first.send_signal(signal.SIGKILL)
    first.wait()
    assert sorted(processes("sleep\x004801", tmp_path)) == before
    kubeconfig.unlink()
    second = start("localcluster", "--data-dir", data, "--kubeconfig", kubeconfig)
    again = connect(kubeconfig)
    again.create(PODS, pod("more", shell("sleep 4801")))
    until("the other runs too", lambda: phase(again, "more") == "Running")
    pod_now = again.get(f"{PODS}/sleeps")
    assert (pod_now["metadata"]["uid"], pod_now["status"]["phase"]) == (uid, "Running")
    assert pod_now["status"]["containerStatuses"][0]["restartCount"] == 0
    second.send_signal(signal.SIGTERM)
    assert second.wait(timeout=PATIENCE_SECONDS) == 0
    assert processes("sleep\x004801", tmp_path) == []
    assert processes(str(data), data) == []


def test_a_port_that_is_taken_is_named_in_one_line(start: Start, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process = start("localcluster", "--data-dir", tmp_path / "data", "--port", port)
        _, errors = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 2
    assert errors.decode().count("\n") == 1
    assert f"--port {port}" in errors.decode()


@pytest.mark.long
def test_kubelets_of_their_own_serve_an_api_server_elsewhere(start: Start, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    start("localcluster", "--data-dir", tmp_path / "api", "--kubeconfig", kubeconfig, "--no-agent")
    client = connect(kubeconfig)
    kubelets = start(
        "localcluster.kubelet", "--kubeconfig", kubeconfig, "--data-dir", tmp_path / "kubelets", "--nodes", 2
    )
    until("both nodes are there", lambda: len(client.get("/api/v1/nodes")["items"]) == 2)
    client.create(PODS, pod("p", shell("echo from afar; sleep 4802")))
    until("it runs", lambda: phase(client, "p") == "Running")
    kubelets.send_signal(signal.SIGTERM)
    assert kubelets.wait(timeout=PATIENCE_SECONDS) == 0
    assert processes("sleep\x004802", tmp_path) == []


def test_a_signal_at_the_moment_in_which_the_kubeconfig_appears_is_an_orderly_end(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys\n"
        "from localcluster import __main__ as cluster\n"
        "write = cluster.write_kubeconfig\n"
        "cluster.write_kubeconfig = lambda *given: (write(*given), os.kill(os.getpid(), signal.SIGTERM))\n"
        f"sys.exit(cluster.main(['--data-dir', {str(tmp_path / 'data')!r}, '--agent', 'fake']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.long
def test_an_idle_cluster_uses_next_to_no_cpu(start: Start, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    cluster = start("localcluster", "--data-dir", tmp_path / "data", "--kubeconfig", kubeconfig)
    client = connect(kubeconfig)
    client.create(PODS, pod("p", shell("sleep 4803")))
    until("it runs", lambda: phase(client, "p") == "Running")

    def ticks() -> int:
        fields = Path(f"/proc/{cluster.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    def rests() -> bool:
        before = ticks()
        threading.Event().wait(2)
        return ticks() - before <= 0.05 * 2 * os.sysconf("SC_CLK_TCK")

    # Not at once: on a busy machine the work of its start is still to be done. A cluster that polls never comes to it.
    until("it uses less than a twentieth of a CPU", rests)
