"""`make clean` takes everything away, but not from under a stack that runs; a set-up that fails says what to do."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with the Makefile, an environment and the state of a stack."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "python").symlink_to(sys.executable)
    (tmp_path / ".tj").mkdir()
    (tmp_path / ".tj" / "lock").touch()
    return tmp_path


def clean(project: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["make", "clean"], cwd=project, capture_output=True, text=True, check=False, timeout=300)


def test_clean_is_refused_while_a_stack_runs_and_touches_nothing(project: Path) -> None:
    with (project / ".tj" / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = clean(project)
    assert done.returncode != 0
    assert "a local stack runs in .tj" in done.stderr
    assert "Ctrl-C" in done.stderr
    assert (project / ".venv").exists()
    assert (project / ".tj").exists()


def test_clean_takes_away_what_a_stack_that_has_ended_left(project: Path) -> None:
    done = clean(project)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in project.iterdir()) == ["Makefile"]


PYTHON_WITHOUT_NETWORK = """#!/bin/sh
case "$*" in
  "-m venv .venv") mkdir -p .venv/bin && cp "$0" .venv/bin/python ;;
  *"pip install"*) echo "ERROR: no way to the index" >&2; exit 1 ;;
esac
"""


def set_up(folder: Path, python: str) -> subprocess.CompletedProcess[str]:
    """`make setup` in a folder with what the environment is made from, with this script as its Python."""
    for name in (
        "Makefile",
        "pyproject.toml",
        "localcluster/pyproject.toml",
        "controlplane/pyproject.toml",
        "tjstack/pyproject.toml",
        "requirements/runtime.txt",
        "requirements/dev.txt",
    ):
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    script = folder / "a-python"
    script.write_text(python)
    script.chmod(0o755)
    command = ["make", "setup", f"PYTHON={script}"]
    # Below `make test` it would name the folders that it enters.
    own = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300, env=own)


def test_a_set_up_without_a_network_says_what_it_needs_and_is_not_taken_for_done(tmp_path: Path) -> None:
    for _ in range(2):
        done = set_up(tmp_path, PYTHON_WITHOUT_NETWORK)
        assert done.returncode != 0
        assert "ERROR: no way to the index" in done.stderr
        assert "PIP_INDEX_URL" in done.stderr
        assert "run the same command again" in done.stderr
        assert not (tmp_path / ".venv" / ".stamp").exists()
