"""Kubernetes quantities as whole numbers, rounded up."""

from __future__ import annotations

import pytest

from tjworker.api.quantity import MOST, mega, milli, whole

CASES: dict[object, tuple[int, int]] = {
    "0": (0, 0),
    "1": (1000, 1),
    4: (4000, 4),
    0.5: (500, 1),
    "100m": (100, 1),
    "1500m": (1500, 2),
    "0.1m": (1, 1),
    "2.5": (2500, 3),
    ".5": (500, 1),
    "5.": (5000, 5),
    "1k": (1_000_000, 1000),
    "1Ki": (1_024_000, 1024),
    "1.5Gi": (1_610_612_736_000, 1_610_612_736),
    "1e3": (1_000_000, 1000),
    "1E3": (1_000_000, 1000),
    "1E": (MOST, 10**18),
    "9E": (MOST, 9 * 10**18),
    "100E": (MOST, MOST),
    "1e400": (MOST, MOST),
    "-1e400": (-MOST, -MOST),
    "1e99999999999999999999": (MOST, MOST),
    "1e-400": (1, 1),
    "0e400": (0, 0),
    "9" * 64: (MOST, MOST),
    "12e-1": (1200, 2),
    "100n": (1, 1),
    "+2": (2000, 2),
    "-1": (-1000, -1),
    "1Ei": (MOST, 2**60),
}
WRONG: list[object] = ["", "x", "1 Gi", "1gi", "Gi", "1.2.3", "0x10", "NaN", "Infinity", None, True, [], "9" * 65]


@pytest.mark.parametrize("text", CASES)
def test_a_quantity(text: object) -> None:
    assert (milli(text), whole(text)) == CASES[text]


@pytest.mark.parametrize("text", WRONG, ids=repr)
def test_what_is_no_quantity(text: object) -> None:
    with pytest.raises(ValueError, match="is no quantity such as 500m"):
        milli(text)


def test_mega_is_rounded_up() -> None:
    assert mega(whole("100Mi")) == 105
    assert (mega(0), mega(1), mega(1_000_000), mega(1_000_001)) == (0, 1, 1, 2)
