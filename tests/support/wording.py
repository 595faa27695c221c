"""A word list against prose that reads as translated. `make check` holds it in all modules but those that NOT_YET
names.

Looks at docstrings, comments and messages, and at names that are one of the words.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.support.paths import ROOT

FOLDERS = ("tjstack/src", "tjworker", "watcher")
NOT_YET = (
    "tjworker/api/kinds/__init__.py",
    "tjworker/api/kinds/aitrainingjob/checks.py",
    "tjworker/api/kinds/aitrainingjob/rules.py",
    "tjworker/api/kinds/aitrainingjob/spec.py",
    "tjworker/api/kinds/base.py",
    "tjworker/api/kinds/guests/__init__.py",
    "tjworker/api/kinds/guests/mpipods.py",
    "tjworker/api/kinds/guests/parse.py",
    "tjworker/api/kinds/guests/spec.py",
    "tjworker/api/kinds/guests/status.py",
    "tjworker/api/kinds/kubedl/elasticdljob.py",
    "tjworker/api/kinds/kubedl/family.py",
    "tjworker/api/kinds/kubedl/marsjob.py",
    "tjworker/api/kinds/kubedl/mpijob.py",
    "tjworker/api/kinds/kubedl/spec.py",
    "tjworker/api/kinds/kubeflow/family.py",
    "tjworker/api/kinds/kubeflow/mpijob.py",
    "tjworker/api/kinds/kubeflow/spec.py",
    "tjworker/api/kinds/quantity.py",
    "tjworker/api/kinds/salvage.py",
    "tjworker/api/kinds/trainer/claims.py",
    "tjworker/api/kinds/trainer/patches.py",
    "tjworker/api/kinds/trainer/patchspec.py",
    "tjworker/api/kinds/trainer/policies.py",
    "tjworker/api/kinds/trainer/spec.py",
    "tjworker/api/kinds/trainer/status.py",
    "tjworker/api/kinds/trainer/steps.py",
    "tjworker/api/kinds/trainer/torchtune.py",
    "tjworker/api/kinds/trainer/trainjob.py",
    "tjworker/api/kinds/trainingjob/__init__.py",
    "tjworker/api/kinds/trainingjob/environment.py",
    "tjworker/api/kinds/trainingjob/pods.py",
    "tjworker/api/kinds/trainingjob/spec.py",
    "tjworker/api/observed.py",
    "tjworker/api/podgroups.py",
    "tjworker/api/podtemplate.py",
    "tjworker/api/reference.py",
    "tjworker/api/status.py",
    "tjworker/reconcile/pod_group.py",
)
"""Modules that are still to be rewritten."""
ROOMS = tuple(
    room
    for folder in FOLDERS
    for path in sorted((ROOT / folder).rglob("*"))
    if path.suffix in (".py", ".lua") and (room := path.relative_to(ROOT).as_posix()) not in NOT_YET
)
WORDS: Mapping[str, str] = {
    r"told|tells?": "reported, says, shows; or name what is returned",
    r"nobody": "no + the noun: no worker, no watcher",
    r"whoever": "the noun: the caller, the user, the executor",
    r"anew": "again; or say what starts from zero",
    r"of ours|of theirs": "the owner: the operator's own, the job's",
    r"beside": "concurrently, besides, optional, next to",
    r"stands?": "is, means, applies",
    r"let be": "left alone, not deleted",
    r"who has": "the noun and a verb",
    r"for so long|so many a|so old": "the number's name: the seconds, the limit",
    r"one a (process|pass|term|task|job)": "one per",
    r"hangs? on": "depends on",
    r"keeps? (the|no) others?": "block, hold back",
    r"comes? of it|becomes? of": "say what happens",
}
_WORD = re.compile(r"\b(?:" + "|".join(WORDS) + r")\b", re.IGNORECASE)
_OPENING = re.compile(r"(Of|As|Where|Such|Those|Whose|Whether) ")
"""A docstring that opens so lacks its subject: "Of the plan." """


def find_old_manner(name: str, source: str) -> list[str]:
    """`FILE:LINE: what is found, and what to write instead` for each place in a Python or Lua file."""
    prose = _lua_comments(source) if name.endswith(".lua") else _python_prose(source)
    found = []
    for line, text, is_docstring in prose:
        for match in _WORD.finditer(text):
            better = next(b for word, b in WORDS.items() if re.fullmatch(word, match[0], re.IGNORECASE))
            found.append(f"{name}:{line}: {match[0]!r} -> {better}")
        if is_docstring and (opening := _OPENING.match(text)):
            found.append(f"{name}:{line}: a docstring opens with {opening[1]!r} -> begin with the subject, or a verb")
    return found


def _lua_comments(source: str) -> Iterator[tuple[int, str, bool]]:
    for line, text in enumerate(source.splitlines(), 1):
        _, dashes, comment = text.partition("--")
        if dashes:
            yield line, comment, False


def _python_prose(source: str) -> Iterator[tuple[int, str, bool]]:
    """(line, text, whether it is a docstring): comments, docstrings, strings of several words, and whole names."""
    documented = {
        node.value.lineno: node.value.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    }
    for line, text in documented.items():
        # Names of code in a docstring are checked where they are defined.
        yield line, re.sub(r"`[^`]*`", "", text), True
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        line = token.start[0]
        is_message = token.type == tokenize.STRING and line not in documented and " " in token.string
        if is_message or token.type in (tokenize.COMMENT, tokenize.NAME):
            yield line, token.string, False


def check(root: Path = ROOT) -> list[str]:
    return [place for room in ROOMS for place in find_old_manner(room, (root / room).read_text(encoding="utf-8"))]


if __name__ == "__main__":
    places = check()
    sys.exit("\n".join(("wording:", *places)) if places else 0)
