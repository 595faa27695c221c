"""The seeded bugs stay usable: each still applies to the tree, and the tests that catch it are there. `make bugs` runs
them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutation.bugs import apply, read_bugs
from tests.support.paths import ROOT

BUGS = read_bugs()


def test_each_bug_can_still_be_put_in() -> None:
    stale = {bug.patch.name: trouble for bug in BUGS.values() if (trouble := apply(bug, ROOT, "--check"))}
    assert not stale, (
        "Make the same mistake in the new code and put its `git diff -U2` into the patch; delete a patch whose mistake"
        f" cannot be made any more. {stale}"
    )


def test_the_tests_that_catch_each_bug_are_there() -> None:
    missing = [
        f"{bug.patch.name}: {test or '`Caught-by:`'}"
        for bug in BUGS.values()
        for test in bug.caught_by or [""]
        if not _exists(test)
    ]
    assert not missing


def _exists(test: str) -> bool:
    file, _, function = test.partition("[")[0].partition("::")
    return (ROOT / file).is_file() and f"def {function}" in (ROOT / file).read_text()


def test_every_bug_is_another_sentence() -> None:
    assert len({bug.sentence for bug in BUGS.values()}) == len(BUGS) >= 15


def test_a_patch_without_a_head_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.patch").write_text("\ndiff --git a/x b/x\n")
    with pytest.raises(ValueError, match=r"x\.patch: a head of one line `Bug: \.\.\.`"):
        read_bugs(tmp_path)
