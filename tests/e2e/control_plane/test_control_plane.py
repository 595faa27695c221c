"""The control plane itself: quick to start, RBAC on, and nothing is left of it, however it ends."""

from __future__ import annotations

import json
import os
import signal
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane import ControlPlane, ControlPlaneError
from tests.e2e.control_plane.install import kubectl
from tests.support.paths import ROOT
from tests.support.waiting import PATIENCE_SECONDS, until


class Foreground:
    """`python -m controlplane run` as a process."""

    def __init__(self, folder: Path) -> None:
        self.data, self.kubeconfig, self.alice = folder / "data", folder / "kubeconfig", folder / "alice"
        self.output = folder / "output"
        self.start()

    def start(self) -> None:
        self.kubeconfig.unlink(missing_ok=True)
        with self.output.open("ab") as output:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "controlplane",
                    "run",
                    "--data-dir",
                    str(self.data),
                    "--kubeconfig",
                    str(self.kubeconfig),
                    "--user",
                    f"alice,devs={self.alice}",
                ],
                cwd=ROOT,
                stdout=output,
                stderr=output,
            )
        until("the kubeconfig is there", lambda: self.kubeconfig.exists() or self.process.poll() is not None)
        assert self.kubeconfig.exists(), self.output.read_text()

    def programs(self) -> dict[str, int]:
        """Live programs that work in its folder: name -> pid."""
        found = {}
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                command = (entry / "cmdline").read_bytes().decode().split("\0")
                dead = (entry / "stat").read_text().rpartition(")")[2].split()[0] in "ZX"
            except OSError:
                continue
            if not dead and any(str(self.data) in word for word in command) and int(entry.name) != self.process.pid:
                found[Path(command[0]).name] = int(entry.name)
        return found


@pytest.fixture
def foreground(tmp_path: Path) -> Iterator[Foreground]:
    made = Foreground(tmp_path)
    yield made
    made.process.kill()
    made.process.wait()
    until("nothing is left", lambda: not made.programs())


def test_rbac_is_on_and_the_audit_log_knows_who_asked(plane: ControlPlane) -> None:
    user = "system:serviceaccount:somewhere:nobody"
    nobody = plane.kubeconfig_for(user)
    assert user in kubectl(nobody, "auth", "whoami")
    with pytest.raises(AssertionError, match=f'User "{user}" cannot list resource "pods"'):
        kubectl(nobody, "get", "pods")
    assert plane.audit_requests(user)["list", "pods"] == 1
    kubectl(plane.kubeconfig, "get", "pods")


def test_it_says_which_version_it_is(plane: ControlPlane) -> None:
    said = json.loads(kubectl(plane.kubeconfig, "version", "-o", "json"))["serverVersion"]["gitVersion"]
    assert said == f"v{plane.release.version}"


def test_a_user_without_a_token_is_a_mistake(plane: ControlPlane) -> None:
    with pytest.raises(ControlPlaneError, match="user bob has no token: name it when the control plane is made"):
        plane.kubeconfig_for("bob")


def ends(foreground: Foreground, signal_number: signal.Signals) -> None:
    until("all four run", lambda: len(foreground.programs()) == 4)
    os.kill(foreground.process.pid, signal_number)
    code = foreground.process.wait(PATIENCE_SECONDS)
    assert code == (-signal.SIGKILL if signal_number == signal.SIGKILL else 0)
    until("nothing is left", lambda: not foreground.programs())


def test_nothing_is_left_of_one_that_is_killed(foreground: Foreground) -> None:
    ends(foreground, signal.SIGKILL)


def test_it_has_its_folder_alone_starts_again_what_dies_and_goes_on_with_what_was_stored(
    foreground: Foreground,
) -> None:
    with pytest.raises(ControlPlaneError, match="a control plane already runs in"):
        ControlPlane(foreground.data).start()
    kubectl(foreground.kubeconfig, "create", "configmap", "kept", "--from-literal=a=b")
    assert "devs" in kubectl(foreground.alice, "auth", "whoami")
    until("all four run", lambda: len(foreground.programs()) == 4)
    for name, pid in foreground.programs().items():
        os.kill(pid, signal.SIGKILL)
        until(f"{name} is back", lambda name=name, pid=pid: foreground.programs().get(name) not in (None, pid))  # type: ignore[misc]

    def kept() -> bool:
        try:
            return bool(kubectl(foreground.kubeconfig, "get", "configmap", "kept"))
        except AssertionError:
            return False

    until("the API server answers with what was stored", kept)
    ends(foreground, signal.SIGINT)
    foreground.start()
    assert kept()
    ends(foreground, signal.SIGTERM)


def test_etcd_answers_nobody_without_the_certificate(plane: ControlPlane) -> None:
    at, anybody = plane.layout, ssl.create_default_context()
    anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE
    for port in (at.etcd_port, at.peer_port):
        for url in (f"http://127.0.0.1:{port}/version", f"https://127.0.0.1:{port}/version"):
            with pytest.raises(OSError):  # noqa: PT011  a closed connection, or TLS' own words
                urllib.request.urlopen(url, context=anybody, timeout=20)  # noqa: S310
    own = ssl.create_default_context(cafile=str(at.internal_certificate))
    own.load_cert_chain(at.internal_certificate, at.internal_key)
    with urllib.request.urlopen(f"https://127.0.0.1:{at.etcd_port}/version", context=own, timeout=20) as answer:
        assert answer.status == 200
    assert at.internal_key.stat().st_mode & 0o077 == 0
