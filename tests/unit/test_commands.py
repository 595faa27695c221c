"""Each `python -m` of the workbench starts as the first thing that its process loads: no module needs that another one
was there before it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT

pytestmark = pytest.mark.long  # a process each: it guards the imports of tools that developers start

NEEDS_MORE = {"tests.sdk.session", "tests.sdk.trainer_session"}
"""Kubeflow's clients, which `make test-sdk` installs."""


def _is_a_command(path: Path) -> bool:
    return path.name == "__main__.py" or '\nif __name__ == "__main__":' in path.read_text()


COMMANDS = sorted(
    {
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for folder in ("tests", "benchmarks")
        for path in (ROOT / folder).rglob("*.py")
        if _is_a_command(path)
    }
    - NEEDS_MORE
)


def test_there_are_many() -> None:
    assert {"benchmarks.__main__", "benchmarks.parts", "tests.chaos.__main__", "tests.simulation.__main__"} <= set(
        COMMANDS
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_it_starts(command: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"import {command}"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
