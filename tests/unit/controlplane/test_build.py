"""Building: whole or not there, once, and never with too old a Go. A shell script stands in for the Go command, which
the tests of the real control plane do not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from controlplane import toolchain
from controlplane.binaries import cached_folder
from controlplane.build import build
from controlplane.errors import BuildError
from controlplane.releases import NAMES, release
from tests.support.paths import ROOT
from tests.support.waiting import until

GO = """#!/bin/sh
echo "$@" >> {log}
case "$1" in
env) echo {version} ;;
list) echo "go: downloading example v1" >&2; echo a; echo b ;;
build)
  {build}
  for last; do [ "$before" = -o ] && out="$last"; before="$last"; done
  echo compiled > "$out"; chmod +x "$out" ;;
esac
"""


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TJ_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tmp_path / "go"


def _write(go: Path, *, version: str = "go1.99.1", build: str = "") -> None:
    go.write_text(GO.format(log=go.with_name("calls"), version=version, build=build))
    go.chmod(0o755)


def test_a_build_makes_every_program_and_a_second_does_nothing(go: Path) -> None:
    _write(go)
    said: list[str] = []
    folder = build(release(), said.append)
    assert sorted(f.name for f in folder.iterdir()) == sorted(NAMES)
    assert folder == cached_folder(release())
    before = go.with_name("calls").read_text()
    assert build(release(), said.append) == folder
    assert go.with_name("calls").read_text() == before
    assert any("kube-apiserver" in line for line in said)


def test_a_failed_build_says_why_and_leaves_nothing_that_looks_whole(go: Path) -> None:
    _write(go, build="echo boom: no such module; exit 1")
    with pytest.raises(BuildError, match="boom: no such module"):
        build(release(), lambda _: None)
    assert not cached_folder(release()).exists()
    _write(go)
    assert build(release(), lambda _: None).is_dir()


def test_a_killed_build_leaves_nothing_that_looks_whole_and_blocks_no_other(go: Path) -> None:
    _write(go, build=f"touch {go.with_name('compiling')}; exec sleep 600")
    with subprocess.Popen(
        [sys.executable, "-m", "controlplane", "build"],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as running:
        until("it compiles", go.with_name("compiling").exists)
        os.killpg(running.pid, signal.SIGKILL)
    assert not cached_folder(release()).exists()
    _write(go)
    assert sorted(f.name for f in build(release(), lambda _: None).iterdir()) == sorted(NAMES)


VERSIONS = {"go1.26.8": (1, 26), "go1.27rc1": (1, 27), "devel go1.99": (0, 0), "": (0, 0)}


@pytest.mark.parametrize(("shown", "want"), VERSIONS.items())
def test_the_version_of_a_go(go: Path, shown: str, want: tuple[int, int]) -> None:
    _write(go, version=shown)
    assert toolchain.go_version(go) == want


def test_a_go_that_is_too_old_is_not_used(go: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write(go, version="go1.20.1")
    wheel = go.with_name("wheel-go")
    wheel.write_text(GO.format(log=go.with_name("calls"), version="go1.26.6", build=""))
    wheel.chmod(0o755)
    monkeypatch.setattr(toolchain, "_from_wheel", lambda cache, say: wheel)
    said: list[str] = []
    assert toolchain.find_go((1, 26), go.parent, said.append) == wheel
    assert "Go 1.26 is needed, the machine has 1.20" in said[0]
