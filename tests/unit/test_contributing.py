"""CONTRIBUTING's checklists: the files that they name are there, and the paths of their commands."""

from __future__ import annotations

import re
import shlex

import pytest

from tests.support.paths import ROOT
from tjworker.reconcile.frameworks import FRAMEWORKS
from tjworker.reconcile.gangs import GANGS

PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
SECTIONS = {
    part.partition("\n")[0]: part.partition("\n")[2]
    for part in re.split(r"(?m)^### ", PAGE.partition("## What a change touches")[2].partition("\n## ")[0])[1:]
}
QUOTED = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
COMMAND = re.compile(r"(?m)^(\.venv/bin/python -m pytest .+)$")
CHANGES = (
    "A restart policy",
    "An end policy",
    "A framework",
    "A gang scheduler",
    "A job kind",
    "A field of a job",
    "A status field",
    "A setting",
    "A periodic task",
    "A Redis key",
    "A resource that the operator touches, or a verb",
    "A `tj` command",
    "An autoscaling policy",
    "A resource of the local cluster",
    "A simulation fault",
    "A dependency",
)


def places(text: str) -> list[str]:
    """What is written as a path of this repository."""
    words = [word for quoted in QUOTED.findall(text) for word in quoted.split()]
    return sorted({word for word in words if re.fullmatch(r"[\w.-]+(/[\w.-]+)+/?|beat_schedule\.py|\w+\.md", word)})


def test_every_kind_of_change_has_its_checklist() -> None:
    assert set(CHANGES) <= SECTIONS.keys()


@pytest.mark.parametrize("change", SECTIONS)
def test_the_files_that_a_checklist_names_are_there(change: str) -> None:
    missing = [place for place in places(SECTIONS[change]) if not (ROOT / place).exists() and place[:5] != ".venv"]
    assert missing == [], f"CONTRIBUTING.md, {change}: no such file or folder"


@pytest.mark.parametrize("change", CHANGES)
def test_a_checklist_has_a_fast_command_whose_paths_are_there(change: str) -> None:
    (command,) = COMMAND.findall(SECTIONS[change])
    paths = [word for word in shlex.split(command)[3:] if not word.startswith("-")]
    assert paths
    assert [path for path in paths if not (ROOT / path).exists()] == [], f"CONTRIBUTING.md, {change}: no such test"
    assert (
        [place for place in places(SECTIONS[change]) if place.startswith("tjworker")]
        or "cluster" in change
        or (change in ("A simulation fault", "A dependency"))
    )


NOT_YET = {"gang scheduling": lambda: bool(GANGS), "the variables of single frameworks": lambda: len(FRAMEWORKS) > 1}
"""What README says is not there yet -> whether it is."""


@pytest.mark.parametrize("what", NOT_YET)
def test_readme_calls_nothing_missing_that_is_there(what: str) -> None:
    (told,) = re.findall(r"(?ms)^Not there yet: (.*?)\n\n", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert (what in " ".join(told.split())) is not NOT_YET[what](), f"README.md, Not there yet: {what}"
