"""The garbage collector after a process has loaded what it keeps: it passes over that, and still finds what is new."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from tjworker.collector import YOUNG, settle


@pytest.fixture(autouse=True)
def collector_as_it_was() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


def test_it_does_not_look_at_what_a_pass_makes_and_gives_up() -> None:
    settle()
    looked: list[str] = []

    def told(phase: str, _info: dict[str, int]) -> None:
        looked.append(phase)

    gc.callbacks.append(told)
    for _ in range(10 * YOUNG):
        assert [{}]
    gc.callbacks.remove(told)
    assert looked == []
