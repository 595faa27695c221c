"""Every question with its answer as a short digest, and the file that has them as they were.

A line is one life, or the manifests of a kind ten by ten; a word of it is one answer, so that a difference is found
where it begins. Two bytes of a digest are enough: a change that they hide in one answer shows in the next.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from tests.recorded.clusters import draw_cluster
from tests.recorded.lives import Life
from tests.recorded.manifests import answer, bases, draw_manifest

RECORD = Path(__file__).with_name("record.txt")
PYTHON = (3, 11)
"""Of which the record is. Another may draw otherwise by the same seeds, and word its errors otherwise."""
LIVES, MANIFESTS, CLUSTERS = 240, 24, 396
A_LINE = 12
"""Manifests of a kind, or clusters, of one line."""
Answers = Iterator[tuple[str, Any]]
"""What was asked, in words, and the answer."""


@dataclass(frozen=True)
class Question:
    name: str
    ask: Callable[[], Answers]

    def digests(self) -> str:
        return " ".join(digest(said) for _, said in self.ask())


def questions() -> Sequence[Question]:
    lives = [Question(f"life-{seed}", _life(seed)) for seed in range(LIVES)]
    kinds = [
        Question(f"manifests-{name.replace(' ', '-').replace(',', '')}-{first}", _manifests(name, first))
        for name in bases()
        for first in range(0, MANIFESTS, A_LINE)
    ]
    clusters = [Question(f"clusters-{first}", _clusters(first)) for first in range(0, CLUSTERS, A_LINE)]
    return [*lives, *kinds, *clusters]


def _life(seed: int) -> Callable[[], Answers]:
    # A life is lived once: each asking begins another one.
    return lambda: Life(seed).play()


def _manifests(name: str, first: int) -> Callable[[], Answers]:
    def ask() -> Answers:
        for number in range(first, first + A_LINE):
            raw = draw_manifest(name, number)
            yield str(raw), answer(raw, f"{name} {number}")

    return ask


def _clusters(first: int) -> Callable[[], Answers]:
    return lambda: (draw_cluster(seed) for seed in range(first, first + A_LINE))


def recorded() -> Mapping[str, str]:
    lines = RECORD.read_text(encoding="utf-8").splitlines()
    return {name: digests for name, _, digests in (line.partition(" ") for line in lines)}


def is_comparable() -> bool:
    """Whether this Python is that of the record."""
    return sys.version_info[:2] == PYTHON


def record() -> None:
    if not is_comparable():
        raise SystemExit("the record is of Python {}.{}: write it down with that one".format(*PYTHON))
    lines = [f"{question.name} {question.digests()}\n" for question in questions()]
    RECORD.write_text("".join(lines), encoding="utf-8")


def digest(said: Any) -> str:
    return hashlib.sha256(dump(said)).hexdigest()[:4]


def dump(said: Any, option: int = 0) -> bytes:
    return orjson.dumps(said, default=_plain, option=option)


def _plain(value: Any) -> Any:
    """For orjson: what it does not know."""
    if hasattr(value, "to_json"):
        return value.to_json()
    return sorted(value) if isinstance(value, frozenset | set) else repr(value)
