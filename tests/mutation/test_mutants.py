"""The parts of `make mutants` that decide what is counted."""

from __future__ import annotations

import re
from pathlib import Path

from tests.mutation.mutants import KILLED, MEANING, changed_lines, read_equivalent
from tests.support.paths import ROOT

DIFF = """--- tjworker/reconcile/phase.py
+++ tjworker/reconcile/phase.py
@@ -1,4 +1,4 @@
 def all_run(views):
-    return all(v.settled for v in views)
+    return any(v.settled for v in views)
"""


def test_a_mutation_is_known_by_the_lines_that_it_changes_not_by_where_they_stand() -> None:
    assert changed_lines(DIFF) == "return all(v.settled for v in views) -> return any(v.settled for v in views)"
    assert changed_lines(DIFF.replace("@@ -1,4 +1,4 @@", "@@ -90,4 +90,4 @@")) == changed_lines(DIFF)


def test_an_equivalent_mutant_has_the_reason_that_stands_above_it(tmp_path: Path) -> None:
    listed = tmp_path / "equivalent.txt"
    listed.write_text("# the names are sorted again below\na -> b\nc -> d\n\n# never asked\ne -> f\n")
    assert read_equivalent(listed) == {
        "a -> b": "the names are sorted again below",
        "c -> d": "the names are sorted again below",
        "e -> f": "never asked",
    }


def test_mutmut_brings_no_other_version_of_what_the_tests_run_with() -> None:
    def versions(name: str) -> dict[str, str]:
        return dict(re.findall(r"(?m)^([a-z0-9][a-z0-9._-]*)==(\S+)", (ROOT / "requirements" / name).read_text()))

    tested, brought = versions("dev.txt"), versions("mutation.txt")
    assert "mutmut" in brought
    assert {name: version for name, version in brought.items() if tested.get(name, version) != version} == {}


def test_only_a_test_that_fails_kills() -> None:
    """pytest's 1. A time-out on a busy machine (36, -24), a crash (-11), tests that did not run (2, 3, 4) do not."""
    assert [code for code, meaning in MEANING.items() if meaning == KILLED] == [1]
