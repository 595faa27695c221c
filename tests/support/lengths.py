"""Names files and functions that have grown long: `make check` prints them. Length alone fails nothing, as a file is
split for its meaning and never for a limit."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from pathlib import Path

from tests.support.paths import ROOT

FILE_LINES = 500
FUNCTION_LINES = 60
NOT_OURS = {"build", "dist", "mutants", "node_modules"}
"""Folders that tools fill. Neither is a hidden folder ours, nor a virtual environment."""


def python_files(root: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(root):
        if "pyvenv.cfg" in files:
            folders.clear()
            continue
        folders[:] = sorted(f for f in folders if not f.startswith(".") and f not in NOT_OURS)
        yield from (Path(folder, file) for file in sorted(files) if file.endswith(".py"))


def find_long_parts(root: Path) -> list[str]:
    found = []
    for path in python_files(root):
        source = path.read_text(encoding="utf-8")
        name, lines = path.relative_to(root), source.count("\n")
        if lines > FILE_LINES:
            found.append(f"{name}: {lines} lines, more than {FILE_LINES}")
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
                length = node.end_lineno - node.lineno + 1
                if length > FUNCTION_LINES:
                    found.append(f"{name}:{node.lineno}: {node.name} has {length} lines, more than {FUNCTION_LINES}")
    return found


if __name__ == "__main__":
    for part in find_long_parts(ROOT):
        print(f"long: {part}")  # noqa: T201
