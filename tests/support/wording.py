"""A word list against prose that reads as translated. `make check` holds it in the product, its tools and its pages.

Looks at docstrings, comments and messages, at names that are one of the words, and at the prose of pages.
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

HELD = (
    "tjworker",
    "watcher",
    "tjstack/src",
    "beat_schedule.py",
    "benchmarks",
    "charts",
    "controlplane/src",
    "docsite",
    "localcluster",
    "releasing",
    "tests/support",
)
"""Directories and files with held Python and Lua. To hold another directory, rewrite its prose and add it."""
NOT_YET = frozenset({"tests/support/wording.py"})
"""Files below HELD that are not held: the list itself, and files that are still to be rewritten."""
PAGES = (
    "*.md",
    "charts/**/*.md",
    "controlplane/*.md",
    "docs/**/*.md",
    "examples/**/*.md",
    "localcluster/*.md",
    "tjstack/*.md",
)
WORDS: Mapping[str, str] = {
    r"(?:told|tells?)(?! (?:\w+ ){0,3}apart)": "reported, says, shows; or name what is returned",
    r"nobody": "no + the noun: no worker, no watcher",
    r"whoever": "the noun: the caller, the user, the executor",
    r"anew": "again; or say what starts from zero",
    r"of ours|of theirs": "the owner: the operator's own, the job's",
    r"beside": "concurrently, besides, optional, next to",
    r"stands?(?! still| by\b)": "is, means, applies",
    r"let be": "left alone, not deleted",
    r"who has": "the noun and a verb",
    r"for so long|so many a|so old": "the number's name: the seconds, the limit",
    r"one a (process|pass|term|task|job)": "one per",
    r"hangs? on": "depends on",
    r"keeps? (the|no) others?": "block, hold back",
    r"comes? of it|becomes? of": "say what happens",
    r"who (?:asks|begins|comes|finds|looks|reads|waits|wants)": "the noun and a verb: a caller that waits",
    r"he|him|his|himself": "the noun, or it: the caller, the worker",
    r"(?:the|own) word of|own word": "as the API server reports; by the status",
    r"says? of|said of": "reports, describes; the Events of",
    r"hears? of|heard of": "sees, learns, gets",
    r"comes? to (?:its|their|an) end": "ends, finishes",
    r"comes? about|came about": "happens; or the state: is ready, has succeeded",
    r"by half|by halves": "partly",
    r"where not|than we": "a whole clause",
}
_WORD = re.compile(r"\b(?:" + "|".join(WORDS) + r")\b", re.IGNORECASE)
_CODE_OF_PAGE = re.compile(r"^```.*?^```|`[^`]*`|\]\([^)]*\)|<!--.*?-->", re.MULTILINE | re.DOTALL)
_OPENING = re.compile(r"(Of|As|Where|Such|Those|Whose|Whether) ")
"""A docstring that opens so lacks its subject: "Of the plan." """


def find_old_manner(name: str, source: str) -> list[str]:
    """`FILE:LINE: what is found, and what to write instead` for each place in a Python or Lua file or a page."""
    read = {".lua": _lua_comments, ".md": _page_prose}.get(Path(name).suffix, _python_prose)
    found = []
    for line, text, is_docstring in read(source):
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


def _page_prose(source: str) -> Iterator[tuple[int, str, bool]]:
    # Keep the line numbers: replace code, commands and targets of links by their line breaks.
    prose = _CODE_OF_PAGE.sub(lambda match: "\n" * match[0].count("\n"), source)
    for line, text in enumerate(prose.splitlines(), 1):
        yield line, text, False


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


def held_files(root: Path = ROOT) -> list[str]:
    """Paths of the held files, relative to `root`."""
    found: set[Path] = {page for pattern in PAGES for page in root.glob(pattern)}
    for place in HELD:
        path = root / place
        found |= {path} if path.is_file() else {*path.rglob("*.py"), *path.rglob("*.lua")}
    return sorted({str(path.relative_to(root)) for path in found} - NOT_YET)


def check(root: Path = ROOT) -> list[str]:
    return [
        place for name in held_files(root) for place in find_old_manner(name, (root / name).read_text(encoding="utf-8"))
    ]


if __name__ == "__main__":
    places = check()
    sys.exit("\n".join(("wording:", *places)) if places else 0)
