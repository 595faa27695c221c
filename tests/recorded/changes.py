"""Says in words which recorded answer has changed, and how.

The record holds digests alone. The old answer is computed again, by the tree of the commit that last wrote the record,
and counts only if its digest is the recorded one.
"""

from __future__ import annotations

import difflib
import io
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import Any

import orjson

from tests.recorded.answers import RECORD, Question, digest, dump

ROOT = Path(__file__).parents[2]
MOST_LINES = 60
"""Of one difference."""
ORDER = "--since-the-record"


def show(answers: Sequence[tuple[str, Any]]) -> str:
    return "".join(
        f"# {n}: {what}\n{dump(said, orjson.OPT_INDENT_2).decode()}\n" for n, (what, said) in enumerate(answers)
    )


@cache
def show_old(name: str) -> str:
    """What `show` of the tree prints that wrote the record. Raises OSError or CalledProcessError without git, or where
    the checkout lacks that commit."""
    git = ("git", "-C", str(ROOT))
    log = subprocess.run([*git, "log", "-1", "--format=%H", "--", str(RECORD)], check=True, capture_output=True)
    commit = log.stdout.decode().strip()
    tree = subprocess.run([*git, "archive", commit], check=True, capture_output=True)
    with tempfile.TemporaryDirectory(prefix="recorded-") as folder:
        with tarfile.open(fileobj=io.BytesIO(tree.stdout)) as tar:
            tar.extractall(folder, filter="data")
        shown = subprocess.run(
            [sys.executable, "-m", "tests.recorded", "show", name],
            cwd=folder,
            env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
            check=True,
            capture_output=True,
        )
    return shown.stdout.decode()


def tell_change(question: Question, was: Sequence[str], old: Callable[[str], str] | None) -> str:
    """What has changed against the recorded digests `was`; '' when nothing has. `old` gives the old answers as `show`
    prints them, None where they are not worth the time."""
    answers = list(question.ask())
    now = [digest(said) for _, said in answers]
    changed = [i for i, (a, b) in enumerate(zip_longest(was, now)) if a != b]
    if not changed:
        return ""
    first = changed[0]
    more = f", and {len(changed) - 1} later answers" if len(changed) > 1 else ""
    led = "; ".join(what for what, _ in answers[: first + 1])[-2000:]
    if first >= len(now):
        what = f"answer {first} no longer comes: the question ends after {len(now)} answers, the record has {len(was)}"
    elif first >= len(was):
        what = f"answer {first} is new: the record ends after {len(was)} answers, the question has {len(now)}"
    else:
        what = f"answer {first} is not the recorded one{more}"
    return (
        f"{question.name}: {what}.\n"
        f"asked: {led}\n"
        f"{_difference(question.name, first, was, show(answers), old)}\n"
        "If you did not mean this change, your code has a side effect: mend the code. If you meant it, "
        "`python -m tests.recorded` writes the record again; commit it."
    )


def _difference(name: str, first: int, was: Sequence[str], new: str, old: Callable[[str], str] | None) -> str:
    hint = f"`python -m tests.recorded show {name} {ORDER}` shows the old answer beside the new one."
    if old is None:
        return hint
    try:
        before = _sections(old(name))
    except (OSError, subprocess.CalledProcessError) as error:
        return f"The old answer cannot be shown ({type(error).__name__}: no git, or no commit that wrote the record)."
    text = before[first] if first < len(before) else ""
    if first < len(was) and (not text or digest(orjson.loads(text.partition("\n")[2])) != was[first]):
        return "The old answer cannot be shown: the last commit that changed the record does not give it, either."
    after = _sections(new)
    lines = difflib.unified_diff(
        text.splitlines(),
        (after[first] if first < len(after) else "").splitlines(),
        "answer of the record",
        "answer now",
        lineterm="",
    )
    shown = list(lines)
    left = f"\n... {len(shown) - MOST_LINES} more lines: {hint}" if len(shown) > MOST_LINES else ""
    return "\n".join(shown[:MOST_LINES]) + left


def _sections(shown: str) -> list[str]:
    """Of what `show` prints: each answer, under the line that says what was asked."""
    return re.split(r"(?m)^(?=# \d+: )", shown)[1:]
