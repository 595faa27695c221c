"""What stands in the packages is in the wheel, from which the image is made: Python's own files come by themselves, all
others by a pattern of pyproject.toml. The distributions belong together: one version, and each asks for just that."""

from __future__ import annotations

import importlib
import tomllib
from pathlib import Path

import pytest

from tests.support.paths import ROOT

PACKAGES = ("tjworker", "watcher")
PATTERNS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["*"]
DATA = [
    path
    for package in PACKAGES
    for path in sorted((ROOT / package).rglob("*"))
    if path.is_file() and path.suffix not in (".py", ".pyc")
]


@pytest.mark.parametrize("path", DATA, ids=lambda path: str(path.relative_to(ROOT)))
def test_data_of_a_package_goes_into_the_wheel(path: Path) -> None:
    assert any(map(path.match, PATTERNS)), PATTERNS


OFFERING = [
    ".".join(path.relative_to(ROOT).parent.parts)
    for package in PACKAGES
    for path in sorted((ROOT / package).rglob("__init__.py"))
    if "\n__all__ = " in path.read_text()
]


@pytest.mark.parametrize("package", OFFERING)
def test_a_package_has_what_it_offers(package: str) -> None:
    """ruff and mypy do not look at `__all__` of a package."""
    module = importlib.import_module(package)
    assert [name for name in module.__all__ if not hasattr(module, name)] == []


PROJECTS = {
    project["name"]: project
    for path in (ROOT / "pyproject.toml", *ROOT.glob("*/pyproject.toml"))
    for project in [tomllib.loads(path.read_text())["project"]]
}


def test_our_distributions_have_one_version_and_ask_for_it_of_each_other() -> None:
    (version,) = {project["version"] for project in PROJECTS.values()}
    lists = [
        *(project["dependencies"] for project in PROJECTS.values()),
        *(extra for project in PROJECTS.values() for extra in project.get("optional-dependencies", {}).values()),
    ]
    asked = {needed for needs in lists for needed in needs if needed.startswith("trainingjob-")}
    assert asked == {f"trainingjob-{name}=={version}" for name in ("operator", "localcluster", "stack")}
