"""Each `python -m` of the workbench starts as the first thing that its process loads: no module needs that another one
was there before it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.paths import ROOT

COMMANDS = sorted(
    ".".join(path.relative_to(ROOT).parent.parts)
    for folder in ("tests", "benchmarks")
    for path in (ROOT / folder).glob("*/__main__.py" if folder == "tests" else "**/__main__.py")
)


@pytest.mark.parametrize("command", COMMANDS)
def test_it_starts(command: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"import {command}.__main__"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
