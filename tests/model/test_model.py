"""The model is held to what makes it worth something: it knows nothing of the code that it judges."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.model.contract import RESTARTS, WAYS, role_ends
from tests.model.rules import RULES
from tests.support.paths import ROOT

MODULES = sorted(
    path for path in (ROOT / "tests/model").rglob("*.py") if not path.name.startswith(("test_", "__main__"))
)
MAY_KNOW = ("tests.model", "tjworker.api")
"""Of the project."""


def _imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or "")


@pytest.mark.parametrize("path", MODULES, ids=[str(path.relative_to(ROOT)) for path in MODULES])
def test_the_model_shares_nothing_with_the_product_but_the_parsed_job(path: Path) -> None:
    ours = [
        name for name in _imported(path) if name.split(".")[0] in ("tjworker", "watcher", "tests", "localcluster", ".")
    ]
    assert [name for name in ours if not name.startswith(MAY_KNOW)] == []


def _table(page: str, heading: str) -> dict[str, list[str]]:
    """First column -> the other cells of the first table under that heading."""
    lines = page[page.index(heading) :].splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("|"))
    rows: dict[str, list[str]] = {}
    for line in lines[first + 2 :]:
        if not line.startswith("|"):
            break
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        rows[cells[0]] = cells[1:]
    return rows


PAGE = (ROOT / "docs/lifecycle.md").read_text()


def test_the_table_of_restarts_is_that_of_the_page() -> None:
    columns = ("retryable", "permanent", "evicted", "preempted", "node lost", "gpu fault")
    rows = _table(PAGE, "### What a restart policy replaces")
    told = {
        policy: {c for c, cell in zip(columns, rows[policy], strict=True) if cell == "restarts"} for policy in RESTARTS
    }
    assert told == {policy: set(ways - {"deleted"}) for policy, ways in RESTARTS.items()}


def test_the_ways_to_an_end_are_those_of_the_page() -> None:
    rows = _table(PAGE, "### Ways to an end")
    assert {cells[1]: cells[0] for cells in rows.values()} == dict(WAYS)


def test_a_roles_ends_are_those_of_the_page() -> None:
    lines = PAGE[PAGE.index("For a role of two pods") : PAGE.index("- Complete goes before failed.")].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")][2:]
    assert len(rows) == 9
    for first, second, *cells in rows:
        states = {0: first, 1: second}
        for policy, told in zip(("Any", "Rank0", "All", "None"), cells[:4], strict=True):
            met = role_ends(policy, "None", states) == "complete"  # type: ignore[arg-type]
            assert met == (told == "complete"), f"completePolicy {policy} of {states}"
        for policy, told in zip(("Any", "Rank0", "All", "None"), cells[4:], strict=True):
            met = role_ends("None", policy, states) == "failed"  # type: ignore[arg-type]
            assert met == (told == "failed"), f"failPolicy {policy} of {states}"


def test_every_rule_is_a_sentence_of_its_own() -> None:
    assert len(set(RULES.values())) == len(RULES)
