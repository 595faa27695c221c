"""The bounds of the house: no Python file has over 400 lines, no function over 50, in the whole repository."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from pathlib import Path

from tests.support.paths import ROOT

FILE_LINES = 400
FUNCTION_LINES = 50
NOT_OURS = {"build", "dist", "mutants", "node_modules"}
"""Folders that tools fill. Neither is a hidden folder ours, nor a virtual environment."""


def python_files(root: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(root):
        if "pyvenv.cfg" in files:
            folders.clear()
            continue
        folders[:] = sorted(f for f in folders if not f.startswith(".") and f not in NOT_OURS)
        yield from (Path(folder, file) for file in sorted(files) if file.endswith(".py"))


def too_long(root: Path) -> list[str]:
    found = []
    for path in python_files(root):
        source = path.read_text(encoding="utf-8")
        name, lines = path.relative_to(root), source.count("\n")
        if lines > FILE_LINES:
            found.append(f"{name}: {lines} lines, at most {FILE_LINES}; split it by subject")
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
                length = node.end_lineno - node.lineno + 1
                if length > FUNCTION_LINES:
                    where = f"{name}:{node.lineno}: {node.name}"
                    found.append(f"{where} has {length} lines, at most {FUNCTION_LINES}; take a part out of it")
    return found


def test_no_file_and_no_function_is_too_long() -> None:
    assert not too_long(ROOT), "\n".join(too_long(ROOT))


def test_what_is_too_long_is_named(tmp_path: Path) -> None:
    (tmp_path / "short.py").write_text("def f() -> None:\n" + "    pass\n" * 49 + "\n" * 350)
    assert too_long(tmp_path) == []
    (tmp_path / "long.py").write_text("\nasync def f() -> None:\n" + "    pass\n" * 50 + "\n" * 349)
    assert too_long(tmp_path) == [
        "long.py: 401 lines, at most 400; split it by subject",
        "long.py:2: f has 51 lines, at most 50; take a part out of it",
    ]
    (tmp_path / "pyvenv.cfg").touch()
    assert too_long(tmp_path) == []
