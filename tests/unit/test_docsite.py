"""The site has every page, and every link in it leads to a page or a file of the site."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from docsite import stage as staging
from docsite.stage import BrokenLinkError, stage
from tests.support.paths import ROOT


@pytest.fixture(scope="module")
def staged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    stage(folder)
    return folder


def pages(nav: list[Any]) -> Iterator[str]:
    for entry in nav:
        for value in entry.values():
            yield from [value] if isinstance(value, str) else pages(value)


def test_the_navigation_has_every_page_but_the_decision_records(staged: Path) -> None:
    nav = tomllib.loads((ROOT / "docsite" / "zensical.toml").read_text(encoding="utf-8"))["project"]["nav"]
    written = {path.relative_to(staged).as_posix() for path in staged.rglob("*.md")}
    assert set(pages(nav)) == {page for page in written if not page.startswith("adr/")}


def test_every_link_stays_inside_the_site(staged: Path) -> None:
    lost = []
    for page in staged.rglob("*.md"):
        text = re.sub(r"(?ms)^(```|~~~).*?^\1|`+[^`]*`+", "", page.read_text(encoding="utf-8"))
        for link in re.findall(r"\]\((?!https?:|mailto:|#)([^)#\s]+)", text):
            if not (page.parent / link).exists():
                lost.append(f"{page.relative_to(staged)}: {link}")
    assert lost == []


def test_a_link_to_nothing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docs").mkdir()
    for name in staging.ROOT_PAGES:
        (tmp_path / name).write_text("text\n", encoding="utf-8")
    (tmp_path / "docs" / "jobs.md").write_text("see [this](gone.md)\n", encoding="utf-8")
    monkeypatch.setattr(staging, "ROOT", tmp_path)
    with pytest.raises(BrokenLinkError, match=r"docs/jobs.md: gone.md does not exist"):
        stage(tmp_path / "site")
