"""A log that is followed: each line once, over a rotation, as far as was asked for. On files, without a container."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from localcluster.kubelet.logs import Follower, LogOptions

STAMP = "2026-01-01T00:00:00.000000000Z"
Step = Callable[[Path], object]


def writes(*words: str) -> Step:
    def step(folder: Path) -> None:
        with (folder / "log").open("a", encoding="utf-8") as log:
            log.writelines(f"{STAMP} stdout F {word}\n" for word in words)

    return step


def writes_raw(text: str) -> Step:
    def step(folder: Path) -> None:
        with (folder / "log").open("a", encoding="utf-8") as log:
            log.write(text)

    return step


def rotates(folder: Path) -> None:
    (folder / "log").rename(folder / "log.1")


def in_turn(*steps: Step) -> Step:
    """Between two looks."""
    return lambda folder: [step(folder) for step in steps]


FOLLOWED: dict[str, tuple[LogOptions, tuple[Step, ...], list[str]]] = {
    # options, what happens before each look, what each look gives
    "what is there, then what comes": (
        LogOptions(),
        (writes("one"), writes("two", "three")),
        ["one\n", "two\nthree\n"],
    ),
    "nothing new is nothing": (LogOptions(), (writes("one"), writes(), writes("two")), ["one\n", "", "two\n"]),
    "a log that begins later": (LogOptions(), (lambda folder: None, writes("one")), ["", "one\n"]),
    "what came just before a rotation, and what after it": (
        LogOptions(),
        (writes("one"), in_turn(writes("two"), rotates, writes("three"))),
        ["one\n", "two\nthree\n"],
    ),
    "what came just before the pod was deleted, with its folder": (
        LogOptions(),
        (writes("one"), in_turn(writes("two"), lambda folder: (folder / "log").unlink())),
        ["one\n", "two\n"],
    ),
    "a line that is half written waits for its end": (
        LogOptions(),
        (writes("one"), writes_raw(f"{STAMP} stdout F tw"), writes_raw("o\n")),
        ["one\n", "", "two\n"],
    ),
    "the last line alone of what was there, all of what comes": (
        LogOptions(tail_lines=1),
        (writes("one", "two"), writes("three", "four")),
        ["two\n", "three\nfour\n"],
    ),
    "none of what was there": (LogOptions(tail_lines=0), (writes("one"), writes("two")), ["", "two\n"]),
    "so many bytes in all, and no more": (
        LogOptions(limit_bytes=6),
        (writes("one"), writes("two"), writes("three")),
        ["one\n", "tw", ""],
    ),
}


@pytest.mark.parametrize("name", FOLLOWED)
def test_a_log_that_is_followed(name: str, tmp_path: Path) -> None:
    options, steps, want = FOLLOWED[name]
    steps[0](tmp_path)
    follower = Follower(tmp_path, options, lambda: False)
    seen = [follower.poll()]
    for step in steps[1:]:
        step(tmp_path)
        seen.append(follower.poll())
    assert [data.decode() for data in seen] == want
    assert follower.done is (sum(map(len, seen)) == options.limit_bytes), "with its last byte it is over"
