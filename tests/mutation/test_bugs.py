"""The seeded bugs stay usable: each still applies to the tree, and the tests that catch it are there. `make bugs` runs
them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutation.bugs import apply, read_bugs
from tests.support.paths import ROOT

BUGS = read_bugs()


@pytest.mark.parametrize("name", BUGS)
def test_a_bug_can_still_be_put_in(name: str) -> None:
    trouble = apply(BUGS[name], ROOT, "--check")
    assert not trouble, (
        f"{trouble}Make the same mistake in the new code, and put its `git diff -U2` into {BUGS[name].patch}"
    )


@pytest.mark.parametrize("name", BUGS)
def test_the_tests_that_catch_it_are_there(name: str) -> None:
    assert BUGS[name].caught_by, f"{BUGS[name].patch.name}: `Caught-by:` is missing"
    for test in BUGS[name].caught_by:
        file, _, function = test.partition("[")[0].partition("::")
        assert (ROOT / file).is_file(), f"{BUGS[name].patch.name}: {test}"
        assert f"def {function}" in (ROOT / file).read_text(), f"{BUGS[name].patch.name}: {test}"


def test_every_bug_is_another_sentence() -> None:
    assert len({bug.sentence for bug in BUGS.values()}) == len(BUGS) >= 15


def test_a_patch_without_a_head_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.patch").write_text("\ndiff --git a/x b/x\n")
    with pytest.raises(ValueError, match=r"x\.patch: a head of one line `Bug: \.\.\.`"):
        read_bugs(tmp_path)
