"""`make test-changed`: which tests a changed file is tried by."""

from __future__ import annotations

import re

import pytest

from tests import changed
from tests.support.paths import ROOT

CASES: dict[str, tuple[str, set[str]]] = {
    "a policy of reconcile: its folder, and whole lives": (
        "tjworker/reconcile/policies/limits.py",
        {"tests/unit/tjworker/reconcile/policies", "tests/scenarios/test_scenarios.py"},
    ),
    "a Lua script: the tests of its package, and those that hold it to its twin": (
        "tjworker/store/scripts/apply.lua",
        {"tests/unit/tjworker/store", "tests/integration/store"},
    ),
    "a file that a seeded bug spoils: the bug still applies": (
        "tjworker/store/scripts/apply.lua",
        {"tests/mutation/test_bugs.py"},
    ),
    "a loose module: the tests that import it": ("tjworker/clock.py", {"tests/unit/tjworker/test_clock.py"}),
    "a module of the local cluster: its own suite": (
        "localcluster/src/localcluster/scheduler/filters.py",
        {"localcluster/localcluster_tests/unit/scheduler"},
    ),
    "a page: its links": ("docs/jobs.md", {"tests/unit/test_pages.py"}),
    "a test: itself": ("tests/scenarios/test_faults.py", {"tests/scenarios/test_faults.py"}),
}


@pytest.mark.parametrize(("file", "want"), CASES.values(), ids=CASES.keys())
def test_the_tests_of_a_changed_file(file: str, want: set[str]) -> None:
    assert want <= set(changed.tests_of([file]))


def test_every_module_of_the_product_has_tests() -> None:
    files = [
        path.relative_to(ROOT).as_posix()
        for folder in ("tjworker", "watcher", "localcluster/src", "tjstack/src")
        for path in (ROOT / folder).rglob("*.py")
        if path.read_text(encoding="utf-8").strip()
    ]
    assert len(files) > 300
    assert [file for file in files if not changed.tests_of([file])] == []


def test_a_change_that_is_a_known_bug_is_noticed() -> None:
    """Each seeded bug names the tests that notice it. The long ones are left to `make test`."""
    missed = {}
    for patch in sorted((ROOT / "tests/mutation/bugs").glob("*.patch")):
        text = patch.read_text(encoding="utf-8")
        noticed_by = re.findall(r"^Caught-by: ([^:\s]+)", text, re.MULTILINE)
        chosen = changed.tests_of(re.findall(r"^\+\+\+ b/(.*)$", text, re.MULTILINE))
        if not any(test.startswith((*changed.SLOW, *chosen)) for test in noticed_by):
            missed[patch.stem] = noticed_by
    assert missed == {}
