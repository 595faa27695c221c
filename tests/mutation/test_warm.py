"""`warm.py` on trees of one module: each run is of the code that stands there, and of nothing that was imported
before."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from tests.mutation.tree import compile_tree
from tests.mutation.warm import PROJECT, Warm
from tests.support.waiting import until

pytestmark = pytest.mark.long  # the workbench, in seconds of processes: it decides nothing about the product
TESTS = """
import os, subprocess, sys, time
from code_of_tree import x

def test_x():
    assert x == 1

def test_nothing_of_the_project_was_here():
    assert not {name.partition(".")[0] for name in sys.modules} & set(%r)

def test_for_ever():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    with open("child", "w") as file:
        file.write(str(child.pid))
    time.sleep(600)

def test_ends_its_process():
    os._exit(3)
"""


def tree(folder: Path, x: int = 1) -> Path:
    folder.mkdir()
    (folder / "code_of_tree.py").write_text(f"x = {x}\n")
    (folder / "test_code.py").write_text(TESTS % (PROJECT[1:],))
    return compile_tree(folder)


@pytest.fixture(scope="module")
def run() -> Iterator[Warm]:
    with Warm() as warm:
        yield warm


def asked(run: Warm, folder: Path, test: str) -> subprocess.CompletedProcess[str]:
    return run(folder, "-q", "-rfE", f"test_code.py::{test}", timeout_seconds=120)


def test_a_bug_that_comes_and_goes_within_a_second_is_seen_each_time(run: Warm, tmp_path: Path) -> None:
    folder = tree(tmp_path / "a")
    code, codes = folder / "code_of_tree.py", []
    then = code.stat().st_mtime
    for x in (1, 2, 1, 3):
        code.write_text(f"x = {x}\n")
        os.utime(code, (then, then))  # of one length and one time, and there is bytecode of the first
        codes.append(asked(run, folder, "test_x").returncode)
    assert codes == [0, 1, 0, 1]


def test_each_tree_is_tested_with_its_own_code(run: Warm, tmp_path: Path) -> None:
    sound, spoilt = tree(tmp_path / "sound"), tree(tmp_path / "spoilt", x=2)
    assert [asked(run, folder, "test_x").returncode for folder in (spoilt, sound, spoilt)] == [1, 0, 1]
    assert "FAILED test_code.py::test_x" in asked(run, spoilt, "test_x").stdout


def test_the_process_has_imported_nothing_of_the_project(run: Warm, tmp_path: Path) -> None:
    done = asked(run, tree(tmp_path / "a"), "test_nothing_of_the_project_was_here")
    assert done.returncode == 0, done.stdout


def test_what_is_not_done_in_time_is_ended_and_the_next_run_is_none_the_worse(run: Warm, tmp_path: Path) -> None:
    folder = tree(tmp_path / "a")
    with pytest.raises(subprocess.TimeoutExpired):
        run(folder, "-q", "test_code.py::test_for_ever", timeout_seconds=0)
    assert asked(run, folder, "test_x").returncode == 0


def test_tests_that_end_their_process_are_told_by_its_code(run: Warm, tmp_path: Path) -> None:
    assert asked(run, tree(tmp_path / "a"), "test_ends_its_process").returncode == 3


def test_when_it_is_ended_all_that_a_run_has_started_goes_with_it(tmp_path: Path) -> None:
    folder = tree(tmp_path / "a")
    with Warm() as warm, ThreadPoolExecutor(1) as pool:
        running = pool.submit(asked, warm, folder, "test_for_ever")
        until("its child runs", lambda: (folder / "child").exists() and (folder / "child").read_text())
        warm.end()
        with pytest.raises(RuntimeError, match="has ended"):
            running.result()
    child = int((folder / "child").read_text())
    until("its child is gone", lambda: not psutil.pid_exists(child) or psutil.Process(child).status() == "zombie")
