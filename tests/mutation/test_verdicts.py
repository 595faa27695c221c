"""The catalogue's judge: which tests it runs in which order, what counts as noticed, and what it remembers."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from tests.mutation.bugs import Bug
from tests.mutation.suite import LEFT_OUT, fast_files
from tests.mutation.verdicts import CAUGHT, NOT_JUDGED, SURVIVED, Judge, Record, Verdict
from tests.support.paths import ROOT


def test_the_fast_suite_is_every_test_file_but_those_left_out() -> None:
    files = fast_files(ROOT)
    assert "tests/unit/tjworker/reconcile/test_core.py" in files
    assert "tests/simulation/test_rows.py" in files
    assert not [file for file in files if file.startswith(LEFT_OUT)]
    assert all((ROOT / left).exists() for left in LEFT_OUT), "what is left out is there"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "tests").mkdir()
    for name in ("test_a.py", "test_b.py"):
        (tmp_path / "tests" / name).write_text("")
    (tmp_path / "code.py").write_text("x = 1\n")
    return tmp_path


@pytest.fixture
def bug(tmp_path: Path) -> Bug:
    patch = tmp_path / "wrong.patch"
    patch.write_text("diff --git a/code.py b/code.py\n--- a/code.py\n+++ b/code.py\n@@ -1 +1 @@\n-x = 1\n+x = 2\n")
    return Bug("wrong", "x is wrong.", ("tests/test_a.py",), patch, ("code.py",))


Pytest = Callable[..., subprocess.CompletedProcess[str]]


def pytest_that_fails(*tests: str, code: int = 1, also_without: tuple[str, ...] = ()) -> Pytest:
    """As `pytest -x` with these failing where the bug is in, and those in any case."""

    def run(tree: Path, *arguments: str, timeout_seconds: float) -> subprocess.CompletedProcess[str]:
        left_out = {b.partition("[")[0] for a, b in pairwise(arguments) if a == "--deselect"}
        failing = (*tests, *also_without) if "x = 2" in (tree / "code.py").read_text() else also_without
        hit = next((t for t in failing if t.partition("::")[0] in " ".join(arguments[2:]) and t not in left_out), None)
        said = f"FAILED {hit}[case] - AssertionError" if hit else "2 passed"
        return subprocess.CompletedProcess(arguments, code if hit else 0, said, "")

    return run


def judged(bug: Bug, tree: Path, run: Pytest) -> Verdict:
    verdict = Judge(sound(tree), tree, run).judge(bug)
    assert (tree / "code.py").read_text() == "x = 1\n", "the bug is taken out again"
    return replace(verdict, seconds=0)


def sound(tree: Path) -> Path:
    clean = tree / "sound"
    clean.mkdir(exist_ok=True)
    (clean / "code.py").write_text("x = 1\n")
    return clean


def test_a_test_that_fails_with_the_bug_and_passes_without_it_has_noticed(bug: Bug, tree: Path) -> None:
    assert judged(bug, tree, pytest_that_fails("tests/test_a.py::test_x")) == Verdict(CAUGHT, "tests/test_a.py::test_x")


def test_any_test_of_the_suite_may_notice_not_only_the_one_that_the_patch_names(bug: Bug, tree: Path) -> None:
    assert judged(bug, tree, pytest_that_fails("tests/test_b.py::test_y")) == Verdict(CAUGHT, "tests/test_b.py::test_y")


def test_when_all_pass_nobody_has_noticed(bug: Bug, tree: Path) -> None:
    assert judged(bug, tree, pytest_that_fails()) == Verdict(SURVIVED)


def test_a_test_that_fails_without_the_bug_too_has_noticed_nothing(bug: Bug, tree: Path) -> None:
    run = pytest_that_fails(also_without=("tests/test_a.py::test_broken",))
    assert judged(bug, tree, run) == Verdict(SURVIVED)


@pytest.mark.parametrize("code", [2, 3, 4, -9], ids=lambda c: f"pytest ends with {c}")
def test_tests_that_did_not_run_judge_nothing(bug: Bug, tree: Path, code: int) -> None:
    assert judged(bug, tree, pytest_that_fails("tests/test_a.py::test_x", code=code)).outcome == NOT_JUDGED


def test_a_patch_that_does_not_apply_judges_nothing(bug: Bug, tree: Path) -> None:
    (tree / "code.py").write_text("y = 1\n")
    verdict = Judge(sound(tree), tree, pytest_that_fails()).judge(bug)
    assert verdict.outcome == NOT_JUDGED
    assert "does not apply" in verdict.words


def test_bugs_that_go_together_are_judged_each_by_what_fails_with_it_alone(bug: Bug, tree: Path) -> None:
    (tree / "other.py").write_text("y = 1\n")
    patch = bug.patch.with_name("other.patch")
    patch.write_text("diff --git a/other.py b/other.py\n--- a/other.py\n+++ b/other.py\n@@ -1 +1 @@\n-y = 1\n+y = 2\n")
    other = Bug("other", "y is wrong.", (), patch, ("other.py",))
    runs: list[tuple[str, ...]] = []

    def run(where: Path, *arguments: str, timeout_seconds: float) -> subprocess.CompletedProcess[str]:
        runs.append(arguments)
        return pytest_that_fails("tests/test_b.py::test_y")(where, *arguments, timeout_seconds=timeout_seconds)

    noticed, missed = Judge(sound(tree), tree, run).judge_together([bug, other])
    assert (noticed.outcome, noticed.by, missed.outcome) == (CAUGHT, "tests/test_b.py::test_y", SURVIVED)
    assert (tree / "code.py").read_text() + (tree / "other.py").read_text() == "x = 1\ny = 1\n", "both are out again"
    assert sum("tests/test_a.py" in arguments for arguments in runs) == 1, "the whole suite runs once"


def test_a_verdict_is_remembered_until_the_patch_changes_and_what_was_not_judged_is_judged_again(
    bug: Bug, tmp_path: Path
) -> None:
    record = Record(tmp_path / "verdicts" / "x.jsonl")
    assert record.of(bug) is None
    record.keep(bug, Verdict(NOT_JUDGED))
    assert record.of(bug) is None
    record.keep(bug, Verdict(CAUGHT, "tests/test_a.py::test_x", 3.0))
    assert record.of(bug) == Verdict(CAUGHT, "tests/test_a.py::test_x", 3.0)
    bug.patch.write_text(bug.patch.read_text() + "\n")
    assert record.of(bug) is None
