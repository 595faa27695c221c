"""Pods on one machine: each has its host name and its ports, and still reaches the others and the machine."""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from localcluster.kubelet import ports
from localcluster.kubelet.containers import detect_isolation
from localcluster.wire import Json
from localcluster_tests.support.waiting import free_port
from localcluster_tests.unit.kubelet.room import Room, container, pod

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="namespaces and seccomp are Linux'")

PORT = free_port()
ISOLATIONS = ("auto", "userns", "none")


def python(script: str, **more: object) -> Json:
    return container(sys.executable, "-u", "-c", script, **more)


@pytest.fixture(params=ISOLATIONS)
def isolated(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Room]:
    if request.param == "userns" and detect_isolation(tmp_path / "try") == "none":
        pytest.skip("user namespaces are not available here")
    room = Room(tmp_path / "data", isolation=request.param)
    yield room
    room.kubelet.shutdown(0.0)


def run_all(room: Room, *pods: Json) -> list[str]:
    for each in pods:
        room.run(each)
    names = [each["metadata"]["name"] for each in pods]
    room.until(lambda: all(room.phase_is(name, "Succeeded", "Failed")() for name in names))
    return [room.logs(name) for name in names]


WHO_AM_I = "import socket; n = socket.gethostname(); print(n, socket.gethostbyname(n), socket.getfqdn() != '')"


def test_a_pods_host_name_is_its_own_and_resolves_to_its_address(isolated: Room) -> None:
    named = pod("c", python(WHO_AM_I), hostname="chief", subdomain="ring")
    long = pod("l" * 62 + "-ong", python(WHO_AM_I))
    logs = run_all(isolated, pod("a", python(WHO_AM_I)), named, long)
    ips = [isolated.status(each)["podIP"] for each in ("a", "c", "l" * 62 + "-ong")]
    assert logs == [f"a {ips[0]} True\n", f"chief {ips[1]} True\n", f"{'l' * 62} {ips[2]} True\n"]


def test_every_program_sees_the_host_name_where_there_are_namespaces(room: Room) -> None:
    if room.kubelet.host.isolation == "none":
        pytest.skip("namespaces are not available here")
    mine = os.uname().nodename
    script = "import os; print(os.uname().nodename); print(open('/etc/hosts').read())"
    alias = [{"ip": "127.1.2.3", "hostnames": ["far", "away"]}]
    (log,) = run_all(room, pod("a", python(script), hostname="chief", subdomain="ring", hostAliases=alias))
    assert log.startswith("chief\n")
    ip = room.status("a")["podIP"]
    assert f"{ip}\tchief.ring.default.svc.cluster.local\tchief\n127.1.2.3\tfar\taway\n" in log
    assert os.uname().nodename == mine, "the machine keeps its own"


@dataclass(frozen=True)
class Server:
    address: str
    reached_by: str = "127.0.0.1"
    family: str = "AF_INET"
    options: str = ""


SERVERS: dict[str, Server] = {
    "0.0.0.0": Server("0.0.0.0"),
    "0.0.0.0, shared as gRPC does": Server("0.0.0.0", options="s.setsockopt(SOL_SOCKET, SO_REUSEPORT, 1); "),
    "its own localhost": Server("127.0.0.1", "localhost"),
    ":: for both families": Server("::", family="AF_INET6", options="s.setsockopt(IPPROTO_IPV6, IPV6_V6ONLY, 0); "),
    ":: reached over IPv6": Server(
        "::", "::1", family="AF_INET6", options="s.setsockopt(IPPROTO_IPV6, IPV6_V6ONLY, 0); "
    ),
}


@pytest.mark.parametrize("name", SERVERS)
def test_two_pods_listen_on_one_port_and_each_meets_itself(room: Room, tmp_path: Path, name: str) -> None:
    if not room.kubelet.host.own_ports:
        pytest.skip("system calls cannot be supervised here")
    case = SERVERS[name]
    script = f"""
import os, time
from socket import *
s = socket({case.family}); {case.options}
s.setsockopt(SOL_SOCKET, SO_REUSEADDR, 1)
s.bind(({case.address!r}, {PORT})); s.listen()
me = os.environ["HOSTNAME"]
open(f"{tmp_path}/{{me}}", "w").close()
while not all(os.path.exists(f"{tmp_path}/{{each}}") for each in "ab"): time.sleep(0.02)  # both listen
for _ in range(8):
    c = create_connection(({case.reached_by!r}, {PORT})); d, _ = s.accept()
    d.send(me.encode()); print(c.recv(9).decode()); c.close(); d.close()
"""
    logs = run_all(room, *(pod(each, python(script)) for each in "ab"))
    assert logs == ["a\n" * 8, "b\n" * 8]


def test_a_port_that_the_machine_is_asked_for_is_the_machines(room: Room) -> None:
    """Port 0: launchers find a free port so, and publish it by any address."""
    script = "import socket; s = socket.socket(); s.bind(('0.0.0.0', 0)); print(s.getsockname()[0])"
    assert run_all(room, pod("p", python(script))) == ["0.0.0.0\n"]


def test_a_pod_reaches_another_by_its_address_and_the_machine_by_localhost(room: Room, tmp_path: Path) -> None:
    server = (
        f"import socket; s = socket.create_server(('0.0.0.0', {PORT})); c, _ = s.accept(); c.send(b'pod'); c.close()"
    )
    room.run(pod("server", python(server)))
    room.until(room.phase_is("server", "Running"))
    ip = room.status("server")["podIP"]
    with socket.create_server(("127.0.0.1", 0)) as machine:
        threading.Thread(target=lambda: machine.accept()[0].send(b"machine"), daemon=True).start()
        client = (
            "import socket, time\n"
            "def read(*address):\n"
            "    while True:\n"
            "        try: return socket.create_connection(address).recv(9).decode()\n"
            "        except ConnectionRefusedError: time.sleep(0.02)\n"
            f"print(read('{ip}', {PORT}), read('127.0.0.1', {machine.getsockname()[1]}))"
        )
        (log,) = run_all(room, pod("client", python(client)))
    assert log == ("pod machine\n" if room.kubelet.host.own_ports else log)


def test_a_probe_by_a_command_meets_its_own_pod(room: Room) -> None:
    if not room.kubelet.host.own_ports:
        pytest.skip("system calls cannot be supervised here")
    asks = (
        f"import socket, os; heard = socket.create_connection(('localhost', {PORT})).recv(9)\n"
        "assert heard == os.environ['HOSTNAME'].encode()"
    )
    serves = (
        f"import socket, os\ns = socket.create_server(('', {PORT}))\n"
        "while True:\n    c, _ = s.accept(); c.send(os.environ['HOSTNAME'].encode()); c.close()"
    )
    probe = {"exec": {"command": [sys.executable, "-c", asks]}, "periodSeconds": 1, "timeoutSeconds": 60}
    for name in "ab":
        room.run(pod(name, python(serves, readinessProbe=probe), terminationGracePeriodSeconds=1))
    room.until(lambda: all(_ready(room, name) for name in "ab"))


def _ready(room: Room, name: str) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in room.status(name).get("conditions") or ())


def test_a_pod_on_the_hosts_network_has_the_machines_ports(room: Room) -> None:
    script = f"import socket; s = socket.create_server(('127.0.0.1', {free_port()})); print(s.getsockname()[0])"
    (log,) = run_all(room, pod("a", python(script), hostNetwork=True))
    assert log == "127.0.0.1\n"


def test_an_exit_by_a_signal_and_a_fork_are_what_they_were(room: Room) -> None:
    """Supervision stays with children and ends with them."""
    script = (
        "import os, socket, signal\n"
        "pid = os.fork()\n"
        f"if not pid: print(socket.create_server(('0.0.0.0', {PORT})).getsockname()[0], flush=True); os._exit(0)\n"
        "os.waitpid(pid, 0); os.kill(os.getpid(), signal.SIGKILL)"
    )
    (log,) = run_all(room, pod("a", python(script)))
    status = room.status("a")
    assert log == f"{status['podIP'] if room.kubelet.host.own_ports else '0.0.0.0'}\n"
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137


def test_this_machine_supervises_system_calls() -> None:
    """On a machine where it does not, most of the tests above are skipped: this shows it."""
    if sys.platform == "linux" and os.geteuid() == 0:
        assert ports.detect()
