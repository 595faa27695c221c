"""Each package says in one line which promise to a user it serves. What serves none does not belong here."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import localcluster

ROOT = Path(localcluster.__file__).parent
PACKAGES = sorted(path.parent.relative_to(ROOT).as_posix() for path in ROOT.rglob("__init__.py"))


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_names_its_promise(package: str) -> None:
    text = ast.get_docstring(ast.parse((ROOT / package / "__init__.py").read_text(encoding="utf-8"))) or ""
    [line] = [line for line in text.splitlines() if line.startswith("Serves: ")]
    assert "kubectl" in line or "docs/local-cluster.md" in line or "simulation" in line
