"""The bugs of `tests/mutation/bugs/`: one patch file each, with a head that says what is wrong, and which test is
likely to notice. The whole suite judges; that test is tried first.

    Bug: one sentence.
    Breaks: the sentence of the docs that it contradicts (may be left out)
    Caught-by: a test file, or one test (once or more; not at all in a folder of bugs that nobody has met yet)

    diff --git a/... b/...

A patch that no longer applies, because the code has moved on, is mended by hand: make the same mistake in the new code,
and put the new `git diff -U2` under the same head.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.mutation.suite import package_of

FOLDER = Path(__file__).with_name("bugs")


@dataclass(frozen=True, slots=True)
class Bug:
    name: str
    sentence: str
    caught_by: tuple[str, ...]
    patch: Path
    files: tuple[str, ...]
    """That it spoils."""

    @property
    def package(self) -> str:
        return package_of(self.files[0])


def read_bugs(folder: Path = FOLDER) -> dict[str, Bug]:
    return {path.stem: _read(path) for path in sorted(folder.glob("*.patch"))}


def _read(path: Path) -> Bug:
    text = path.read_text(encoding="utf-8")
    head = text.partition("\ndiff --git ")[0]
    fields = [line.partition(": ") for line in head.splitlines() if line]
    sentences = [value for name, _, value in fields if name == "Bug"]
    tests = tuple(value for name, _, value in fields if name == "Caught-by")
    if len(sentences) != 1 or not {name for name, _, _ in fields} <= {"Bug", "Breaks", "Caught-by"}:
        raise ValueError(f"{path}: a head of one line `Bug: ...` and lines `Caught-by: ...` is needed, found {head!r}")
    return Bug(path.stem, sentences[0], tests, path, tuple(re.findall(r"(?m)^--- a/(\S+)$", text)))


def apply(bug: Bug, tree: Path, *options: str) -> str:
    """'' when it went well, else what git says. Options: --check, --reverse."""
    done = subprocess.run(
        ["git", "apply", "-C1", *options, str(bug.patch)], cwd=tree, capture_output=True, text=True, check=False
    )
    return "" if done.returncode == 0 else done.stderr
