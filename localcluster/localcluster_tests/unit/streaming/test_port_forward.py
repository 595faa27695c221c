"""`kubectl port-forward` and the Python client's `portforward`: many connections, each whole and each alone."""

from __future__ import annotations

import random
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator

import kubernetes
import pytest
from kubernetes.stream import portforward

from localcluster_tests.support.waiting import PATIENCE_SECONDS, free_port, until
from localcluster_tests.unit.streaming.conftest import PORT, Cluster

pytestmark = [pytest.mark.xdist_group("streaming"), pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")]


@pytest.fixture
def forwarded(cluster: Cluster) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A running kubectl port-forward and its local port."""
    process = subprocess.Popen(
        cluster.kubectl("port-forward", "--address", "127.0.0.1", "web", f":{PORT}"),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=cluster.env,
    )  # fmt: skip
    assert process.stdout is not None
    found = re.search(rf"127\.0\.0\.1:(\d+) -> {PORT}", process.stdout.readline())
    assert found, process.stderr and process.stderr.read()
    yield process, int(found[1])
    process.kill()
    process.communicate()


def ask(connection: socket.socket, content: bytes) -> bytes:
    """What the pod makes of it; sent by a thread, since it answers before it has everything."""
    connection.settimeout(PATIENCE_SECONDS)
    message = f"{len(content)}\n".encode() + content
    sender = threading.Thread(target=connection.sendall, args=(message,))
    sender.start()
    heard = b""
    while len(heard) < len(content):
        heard += (chunk := connection.recv(65536))
        assert chunk, f"it ended after {len(heard)} of {len(content)} bytes"
    sender.join()
    return heard


def test_connections_share_a_tunnel_and_are_whole(forwarded: tuple[subprocess.Popen[str], int]) -> None:
    rng = random.Random(2)
    contents = [bytes(rng.choices(b"abcdef", k=size)) for size in (1, 100, 1_500_000, 700_000)]
    connections = [socket.create_connection(("127.0.0.1", forwarded[1])) for _ in contents]
    heard: dict[int, bytes] = {}

    def talk(n: int) -> None:
        heard[n] = ask(connections[n], contents[n])

    threads = [threading.Thread(target=talk, args=(n,)) for n in range(len(contents))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    assert heard == {n: content.upper() for n, content in enumerate(contents)}
    assert [connection.recv(1) for connection in connections] == [b""] * 4, "the pod's end is seen"


def test_a_client_that_goes_in_the_middle_harms_no_other(forwarded: tuple[subprocess.Popen[str], int]) -> None:
    for _ in range(3):
        with socket.create_connection(("127.0.0.1", forwarded[1])) as rude:
            rude.sendall(b"1000000\n" + b"x" * 1000)
    with socket.create_connection(("127.0.0.1", forwarded[1])) as polite:
        assert ask(polite, b"still here") == b"STILL HERE"


def test_a_port_where_nothing_listens_is_told(cluster: Cluster) -> None:
    port = free_port()
    process = subprocess.Popen(
        cluster.kubectl("port-forward", "--address", "127.0.0.1", "web", f":{port}"),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=cluster.env,
    )  # fmt: skip
    assert process.stdout is not None
    found = re.search(r"127\.0\.0\.1:(\d+) ->", process.stdout.readline())
    assert found
    with socket.create_connection(("127.0.0.1", int(found[1]))) as connection:
        connection.settimeout(PATIENCE_SECONDS)
        assert connection.recv(1) == b""
    _, errors = process.communicate(timeout=PATIENCE_SECONDS)
    assert f"error forwarding port {port} to pod web, uid " in errors
    assert ": connect: connection refused" in errors


@pytest.mark.long
def test_the_python_client_forwards(cluster: Cluster) -> None:
    loaded = kubernetes.config.new_client_from_config(str(cluster.kubeconfig))  # type: ignore[no-untyped-call]
    api = kubernetes.client.CoreV1Api(loaded)
    nothing = free_port()
    forward = portforward(api.connect_get_namespaced_pod_portforward, "web", "default", ports=f"{PORT},{nothing}")
    connection = forward.socket(PORT)
    assert ask(connection, b"by a library") == b"BY A LIBRARY"
    connection.close()
    until("the error of the other port is shown", lambda: "connection refused" in (forward.error(nothing) or ""))
    api.api_client.close()
