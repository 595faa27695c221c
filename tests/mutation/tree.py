"""A copy of the tree, to be spoilt: every file that git knows or would take, as it stands now."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.paths import ROOT


def copy_tree(to: Path) -> Path:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            target = to / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target)
    return to


def python_path(tree: Path) -> str:
    return os.pathsep.join(str(tree / part) for part in (".", "localcluster/src", "controlplane/src"))


def pytest_in(tree: Path, *arguments: str, timeout_seconds: float) -> subprocess.CompletedProcess[str]:
    """pytest on the copy's tests and the copy's code. Raises TimeoutExpired."""
    # No bytecode: an edit within the second, of the same length, would not be seen.
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": python_path(tree)}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-n0", *arguments]
    return subprocess.run(
        command, cwd=tree, env=env, capture_output=True, text=True, check=False, timeout=timeout_seconds
    )


def assert_own_code(tree: Path) -> None:
    """Else everything would be tested but the copy."""
    where = "import tjworker, watcher; print(tjworker.__file__); print(watcher.__file__)"
    env = {**os.environ, "PYTHONPATH": python_path(tree)}
    found = subprocess.run([sys.executable, "-c", where], cwd=tree, env=env, check=True, capture_output=True, text=True)
    for line in found.stdout.split():
        if tree.resolve() not in Path(line).resolve().parents:
            raise RuntimeError(f"the copy in {tree} would be tested with the code of {line}")
