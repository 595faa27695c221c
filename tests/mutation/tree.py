"""A copy of the tree, to be spoilt: every file that git knows or would take, as it stands now."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
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
    return os.pathsep.join(str(tree / part) for part in (".", "localcluster/src", "controlplane/src", "tjstack/src"))


def environment(tree: Path) -> dict[str, str]:
    # No bytecode is written: an edit within the second, of the same length, would not be seen.
    return {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": python_path(tree)}


def compile_tree(tree: Path) -> Path:
    """Bytecode that is used for as long as the source has the content of now, whatever its time says: of what is not
    spoilt nobody compiles anything again."""
    command = [sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "checked-hash", str(tree)]
    subprocess.run(command, check=False, stdout=subprocess.DEVNULL)  # what cannot be compiled is a test's own affair
    return tree


def pytest_in(tree: Path, *arguments: str, timeout_seconds: float) -> subprocess.CompletedProcess[str]:
    """Raises TimeoutExpired. Whatever the tests have started ends with them."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-n0", *arguments]
    with subprocess.Popen(
        command,
        cwd=tree,
        env=environment(tree),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            said, _ = process.communicate(timeout=timeout_seconds)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    return subprocess.CompletedProcess(command, process.returncode, said, "")


def assert_own_code(tree: Path) -> None:
    """Else everything would be tested but the copy."""
    where = "import tjworker, watcher; print(tjworker.__file__); print(watcher.__file__)"
    found = subprocess.run(
        [sys.executable, "-c", where], cwd=tree, env=environment(tree), check=True, capture_output=True, text=True
    )
    for line in found.stdout.split():
        if tree.resolve() not in Path(line).resolve().parents:
            raise RuntimeError(f"the copy in {tree} would be tested with the code of {line}")
