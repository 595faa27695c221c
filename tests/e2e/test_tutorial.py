"""docs/tutorial.md, typed as it stands: each command succeeds, and prints what the page says."""

from __future__ import annotations

import doctest
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.stack import CALL_SECONDS, ROOT, LocalStack

pytestmark = [pytest.mark.e2e(minutes=2), pytest.mark.long, pytest.mark.xdist_group("tutorial")]
FIRST_TERMINAL = "make up\n"
FOLDER_OF_STATE = "$PWD/.tj/kubeconfig"
LIKE = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass(frozen=True)
class Typed:
    commands: str
    prints: str
    """'' where the page does not say."""


def blocks() -> list[tuple[str, str]]:
    """(what is said behind the fence, content)."""
    page = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    return re.findall(r"^```(\w*)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def typed() -> list[Typed]:
    found: list[Typed] = []
    for kind, text in blocks():
        if kind == "text":
            found[-1] = Typed(found[-1].commands, text)
        elif not kind:
            found.append(Typed(text, ""))
    return found


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[LocalStack]:
    one = LocalStack(tmp_path / "state")
    try:
        one.start()
        yield one
    finally:
        one.clear()


def test_every_command_of_the_tutorial_does_what_the_page_says(stack: LocalStack, tmp_path: Path) -> None:
    first, export, *others = typed()
    assert first.commands == FIRST_TERMINAL
    assert FOLDER_OF_STATE in export.commands
    (manifest,) = (text for kind, text in blocks() if kind == "yaml")
    (tmp_path / "tutorial").mkdir()
    (tmp_path / "tutorial" / "hello.yaml").write_text(manifest, encoding="utf-8")
    set_up = export.commands.replace(FOLDER_OF_STATE, str(stack.paths.kubeconfig))
    went = set_up
    for one in [Typed("", ""), *others]:
        done = subprocess.run(
            ["bash", "-e", "-c", f"{set_up if not one.commands else set_up.rpartition('tj doctor')[0]}{one.commands}"],
            cwd=ROOT,
            env={**os.environ, "HOME": str(tmp_path), "COLUMNS": "160"},
            capture_output=True,
            text=True,
            check=False,
            timeout=2 * CALL_SECONDS,
        )
        went += f"\n$ {one.commands}{done.stdout}{done.stderr}"
        assert done.returncode == 0, went
        assert doctest.OutputChecker().check_output(f"...{one.prints.strip()}...", done.stdout, LIKE), went
