"""`kubectl exec`, `kubectl cp` and the Python client's `stream`, as their users expect them."""

from __future__ import annotations

import base64
import fcntl
import hashlib
import http.client
import os
import pty
import random
import ssl
import struct
import subprocess
import sys
import termios
from dataclasses import dataclass
from pathlib import Path

import kubernetes
import pytest
import yaml
from kubernetes.stream import stream

from localcluster_tests.support.waiting import PATIENCE_SECONDS
from localcluster_tests.unit.kubelet.room import pod, processes, shell
from localcluster_tests.unit.streaming.conftest import Cluster
from localcluster_tests.unit.test_main import until
from localcluster_tests.unit.world import PODS

pytestmark = [pytest.mark.xdist_group("streaming"), pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")]


@dataclass(frozen=True)
class Case:
    command: tuple[str, ...]
    stdin: bytes | None = None
    want_out: str = ""
    want_err: str = ""
    want_code: int = 0


def sh(script: str) -> tuple[str, ...]:
    return ("-c", "main", "--", "sh", "-c", script)


CASES: dict[str, Case] = {
    "Output and errors stay apart": Case(sh("echo out; echo err >&2"), want_out="out\n", want_err="err\n"),
    "The exit code is the command's": Case(sh("exit 3"), want_err="command terminated with exit code 3\n", want_code=3),
    "A signal is 128 + n": Case(sh("kill -9 $$"), want_err="command terminated with exit code 137\n", want_code=137),
    "It has the container's environment, folder and host name": Case(
        sh("echo $COLOUR $HOSTNAME; pwd; uname -n"), want_out="red web\n/usr\nweb\n"
    ),
    "Volumes are where the container has them": Case(
        sh("echo kept > /scratch/file; cat /scratch/file"), want_out="kept\n"
    ),
    "Standard input comes, to its end": Case(
        ("-i", *sh("cat; echo over")), stdin=b"one\ntwo\n", want_out="one\ntwo\nover\n"
    ),
    "Without -i there is no input": Case(sh("cat; echo over"), stdin=b"one\n", want_out="over\n"),
    "A command that reads nothing may end before its input": Case(("-i", *sh("exit 0")), stdin=b"x" * 1_000_000),
    "A command that is not there": Case(
        ("-c", "main", "--", "no-such-program"),
        want_err='exec: "no-such-program": executable file not found in $PATH: unknown\n',
        want_code=1,
    ),
    "The other container": Case(("-c", "side", "--", "sh", "-c", "echo [$COLOUR]"), want_out="[]\n"),
    "The first container without -c": Case(
        ("--", "sh", "-c", "echo $COLOUR"), want_out="red\n", want_err='Defaulted container "main" out of: main, side\n'
    ),
    "A container that is not there": Case(
        ("-c", "none", "--", "true"),
        want_err="container none is not valid for pod web out of: main, side\n",
        want_code=1,
    ),
    "What it leaves in the background does not hold it up": Case(sh("sleep 4732 & echo started"), want_out="started\n"),
}


@pytest.mark.parametrize("name", CASES)
def test_kubectl_exec(cluster: Cluster, name: str) -> None:
    case = CASES[name]
    done = cluster.run("exec", "web", *case.command, stdin=case.stdin)
    assert (done.stdout.decode(), done.returncode) == (case.want_out, case.want_code), done.stderr
    assert done.stderr.decode().endswith(case.want_err)
    assert bool(case.want_err) == bool(done.stderr)


def test_megabytes_come_whole_in_both_directions(cluster: Cluster) -> None:
    content = random.Random(1).randbytes(5_000_000)
    done = cluster.run("exec", "-i", "web", "-c", "main", "--", "cat", stdin=content)
    assert hashlib.sha256(done.stdout).digest() == hashlib.sha256(content).digest()


def test_cp_copies_there_and_back(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "file").write_bytes(b"content")
    for command in (
        ("cp", "-c", "main", str(tmp_path / "there"), "web:/scratch/copied"),
        ("cp", "-c", "main", "web:/scratch/copied/file", str(tmp_path / "back")),
    ):
        assert (done := cluster.run(*command)).returncode == 0, done.stderr
    assert (tmp_path / "back").read_bytes() == b"content"


def test_a_terminal_has_its_size_and_takes_keys(cluster: Cluster) -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 111, 0, 0))
    script = 'while [ "$(stty size)" != "33 111" ]; do sleep 0.05; done; echo $TERM; cat; echo "cat: $?"; exit 5'
    process = subprocess.Popen(
        cluster.kubectl("exec", "-it", "web", "-c", "main", "--", "bash", "-c", f"trap : INT; {script}"),
        stdin=theirs, stdout=theirs, stderr=theirs, env=cluster.env, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    seen = b""

    def read_until(wanted: bytes) -> None:
        nonlocal seen
        while wanted not in seen:
            seen += os.read(ours, 1024)

    read_until(b"xterm")
    os.write(ours, b"typed\n")
    read_until(b"typed\r\ntyped\r\n")  # the terminal's echo, then cat's
    os.write(ours, b"\x03")
    read_until(b"cat: 130")
    assert process.wait(PATIENCE_SECONDS) == 5
    os.close(ours)


def test_a_command_whose_client_has_gone_is_killed(cluster: Cluster) -> None:
    process = subprocess.Popen(
        cluster.kubectl("exec", "web", "-c", "main", "--", "sh", "-c", "echo up; sleep 4733"),
        stdout=subprocess.PIPE, env=cluster.env,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    until("it runs", lambda: processes("sleep\x004733", cluster.home))
    process.kill()
    process.communicate()
    until("nothing is left", lambda: not processes("sleep\x004733", cluster.home))


def test_a_command_ends_with_its_container_and_no_new_one_begins(cluster: Cluster) -> None:
    cluster.start(pod("short", shell("sleep 4736"), terminationGracePeriodSeconds=1))
    process = subprocess.Popen(
        cluster.kubectl("exec", "short", "--", "sh", "-c", "echo up; sleep 4734"),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=cluster.env,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    until("it runs", lambda: processes("sleep\x004734", cluster.home))
    cluster.client.delete(f"{PODS}/short")
    _, errors = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, errors) == (137, b"command terminated with exit code 137\n")
    until("nothing is left", lambda: not processes("sleep\x004734", cluster.home))
    cluster.start(pod("half", shell("exit 1"), shell("sleep 4735") | {"name": "b"}))
    until("main is down", lambda: "terminated" in _state(cluster, "half"))
    done = cluster.run("exec", "half", "-c", "main", "--", "true")
    assert done.returncode == 1
    assert b'unable to upgrade connection: container not found ("main")' in done.stderr


def _state(cluster: Cluster, name: str) -> list[str]:
    return list(cluster.client.get(f"{PODS}/{name}")["status"]["containerStatuses"][0]["state"])


def test_the_python_client_streams(cluster: Cluster) -> None:
    loaded = kubernetes.config.new_client_from_config(str(cluster.kubeconfig))  # type: ignore[no-untyped-call]
    api = kubernetes.client.CoreV1Api(loaded)
    script = "read line; echo got $line; echo err >&2; exit 4"
    asked = {"container": "main", "stdin": True, "stdout": True, "stderr": True, "tty": False}
    asked |= {"command": ["sh", "-c", script], "_preload_content": False}
    socket = stream(api.connect_get_namespaced_pod_exec, "web", "default", **asked)
    socket.write_stdin("a word\n")
    socket.run_forever(timeout=PATIENCE_SECONDS)
    assert (socket.read_stdout(), socket.read_stderr(), socket.returncode) == ("got a word\n", "err\n", 4)
    api.api_client.close()


def test_who_does_not_ask_for_a_websocket_is_told(cluster: Cluster) -> None:
    config = yaml.safe_load(cluster.kubeconfig.read_text(encoding="utf-8"))
    host = config["clusters"][0]["cluster"]["server"].partition("://")[2]
    ca = base64.b64decode(config["clusters"][0]["cluster"]["certificate-authority-data"]).decode()
    trust = ssl.create_default_context(cadata=ca)
    connection = http.client.HTTPSConnection(host, context=trust, timeout=PATIENCE_SECONDS)
    token = {"Authorization": f"Bearer {config['users'][0]['user']['token']}"}
    upgrade = {"Upgrade": "SPDY/3.1", "Connection": "Upgrade"}
    answers = {}
    for path, headers in (
        ("web/exec?container=main&command=true", token | upgrade),
        ("web/exec?container=main", token),
        ("web/exec?container=none&command=true", token),
        ("web/exec?command=true", token),
        ("web/portforward?ports=0", token),
        ("none/exec?command=true", token),
        ("web/exec?container=main&command=true", upgrade),
    ):
        connection.request("POST", f"{PODS}/{path}", headers=headers)
        answer = connection.getresponse()
        answers[path, token.items() <= headers.items()] = answer.status, answer.read()
    assert [status for status, _ in answers.values()] == [400, 400, 400, 400, 400, 404, 401]
    assert b"Upgrade request required" in answers["web/exec?container=main&command=true", True][1]
    connection.close()
