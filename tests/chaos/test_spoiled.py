"""What comes of the lines of a watch, by its fate; and how often a resource has been listed. Random, with the seed
printed."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

import pytest

from tests.chaos.disturbances import closest_lists
from tests.chaos.proxy import Listed
from tests.chaos.spoiled import WHOLE_LINES, Fate, cut_at, spoiled
from tests.support.seeds import the_seed

LINES = [f'{{"type":"ADDED","object":{{"note":"läuft, 訓練中 🚀","n":{n}}}}}\n'.encode() for n in range(8)]
ERROR = b'{"type":"ERROR","object":{'


async def come(lines: Sequence[bytes]) -> AsyncIterator[bytes]:
    for line in lines:
        yield line


def pieces(fate: Fate, rng: random.Random, lines: Sequence[bytes] = LINES) -> list[bytes]:
    async def collect() -> list[bytes]:
        return [piece async for piece in spoiled(fate, come(lines), rng)]

    return asyncio.run(collect())


def whole_lines_then(end: Callable[[bytes, bytes], bool]) -> Callable[[list[bytes]], bool]:
    """`end` is asked of the last piece and the line that would have come."""

    def holds(got: list[bytes]) -> bool:
        whole = len(got) - 1
        return whole <= WHOLE_LINES and got[:-1] == LINES[:whole] and end(got[-1], LINES[whole])

    return holds


def is_within_a_character(piece: bytes, line: bytes) -> bool:
    return line.startswith(piece) and line[len(piece)] & 0xC0 == 0x80


@dataclass(frozen=True)
class Case:
    fate: Fate
    want: Callable[[list[bytes]], bool]


CASES: dict[str, Case] = {
    "An ERROR event comes after some whole events, and nothing after it.": Case(
        Fate.ERROR, whole_lines_then(lambda piece, line: piece.startswith(ERROR) and piece.endswith(b"}\n"))
    ),
    "A cut is within a character, where the line has one of several bytes.": Case(
        Fate.CUT, whole_lines_then(is_within_a_character)
    ),
    "A half-open watch stops between two lines, or within a character of one.": Case(
        Fate.SILENT, whole_lines_then(lambda piece, line: not piece or is_within_a_character(piece, line))
    ),
    "What is split comes whole, in more pieces than there are lines.": Case(
        Fate.SPLIT, lambda got: b"".join(got) == b"".join(LINES) and len(got) > len(LINES)
    ),
    "Events that come again are followed by nothing else, and the last of each is where it was.": Case(
        Fate.TWICE,
        lambda got: (
            got[::2] == LINES and all(again in LINES[max(0, n - 2) : n + 1] for n, again in enumerate(got[1::2]))
        ),
    ),
    "An empty bookmark comes after each event.": Case(
        Fate.EMPTY, lambda got: got[::2] == LINES and all(b'"BOOKMARK"' in piece for piece in got[1::2])
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_fate(name: str) -> None:
    seed = the_seed()
    for number in range(50):
        got = pieces(CASES[name].fate, random.Random(f"{seed} {number}"))
        assert CASES[name].want(got), f"seed {seed} {number}: {got}"


def test_each_fate_of_a_stream_is_in_the_table() -> None:
    assert {case.fate for case in CASES.values()} == set(Fate) - {Fate.GONE}


@pytest.mark.parametrize("fate", sorted(set(Fate) - {Fate.GONE}))
def test_a_watch_in_which_nothing_happens_has_its_fate_all_the_same(fate: Fate) -> None:
    got = pieces(fate, random.Random(1), [])
    assert [piece[: len(ERROR)] for piece in got if piece] == ([ERROR] if fate is Fate.ERROR else [])


@pytest.mark.parametrize("fate", [Fate.CUT, Fate.SILENT])
def test_a_line_that_has_come_whole_does_not_come_again_in_part(fate: Fate) -> None:
    assert [LINES[0], b""] in [pieces(fate, random.Random(n), LINES[:1]) for n in range(20)]


def test_a_line_of_single_bytes_is_cut_before_its_end() -> None:
    assert {cut_at(b"{}\n", random.Random(n)) for n in range(50)} == {0, 1, 2}


def listed(*asked: tuple[float, str, str]) -> list[Listed]:
    return [Listed(*one) for one in asked]


LISTS: dict[str, tuple[list[Listed], float]] = {
    "None at all": ([], math.inf),
    "One of each resource": (listed((0, "watcher1", "pods"), (1, "watcher1", "nodes")), math.inf),
    "The same by another watcher, which has a need of its own": (
        listed((0, "watcher1", "pods"), (1, "watcher2", "pods")),
        math.inf,
    ),
    "Three of one resource": (listed((0, "watcher1", "pods"), (40, "watcher1", "pods"), (71, "watcher1", "pods")), 31),
    "Two of one, among others": (
        listed((0, "watcher1", "pods"), (2, "watcher1", "nodes"), (5, "watcher1", "pods"), (40, "watcher1", "nodes")),
        5,
    ),
}


@pytest.mark.parametrize("what", LISTS)
def test_how_close_two_lists_of_a_resource_are(what: str) -> None:
    lists, want = LISTS[what]
    assert closest_lists(lists) == want
