"""Times as Kubernetes writes them, and those at the ends of what it takes."""

from __future__ import annotations

import pytest

from tjworker.api.timefmt import EARLIEST, LATEST, deletion_seconds, from_rfc3339, to_rfc3339, unix_seconds

READ: dict[str | None, float | None] = {
    "2023-11-14T22:13:20Z": 1_700_000_000.0,
    "2023-11-14T22:13:20.5Z": 1_700_000_000.5,
    "2023-11-14T22:13:20.123456789Z": 1_700_000_000.123456,
    "2023-11-15T22:12:20+23:59": 1_700_000_000.0,
    "0001-01-01T00:00:00Z": EARLIEST,
    "0000-01-01T00:00:00Z": EARLIEST,
    "-0001-01-01T00:00:00Z": EARLIEST,
    "9999-12-31T23:59:59Z": LATEST,
    "33714-01-01T00:00:00Z": LATEST,
    "": None,
    None: None,
    "yesterday": None,
    "2026-13-45T99:99:99Z": None,
}


@pytest.mark.parametrize("text", READ, ids=str)
def test_a_time_is_read(text: str | None) -> None:
    assert from_rfc3339(text) == READ[text]


def test_the_time_of_an_object_has_no_fraction() -> None:
    assert [unix_seconds(text) for text in ("2023-11-14T22:13:20.9Z", "yesterday", None)] == [1_700_000_000, None, None]


DELETIONS: dict[str, tuple[object, int | None]] = {
    "the object stays": (None, None),
    "it goes at that time": ("2023-11-14T22:13:20Z", 1_700_000_000),
    "its time is garbled: it goes, and is never overdue": ("yesterday", LATEST),
    "its time is no text": (7, LATEST),
}


@pytest.mark.parametrize(("stamp", "want"), DELETIONS.values(), ids=DELETIONS)
def test_when_an_object_is_to_be_gone(stamp: object, want: int | None) -> None:
    assert deletion_seconds({"deletionTimestamp": stamp}) == want


WRITTEN: dict[float, str] = {
    1_700_000_000.7: "2023-11-14T22:13:20Z",
    EARLIEST: "0001-01-01T00:00:00Z",
    -1e300: "0001-01-01T00:00:00Z",
    LATEST: "9999-12-31T23:59:59Z",
    1e300: "9999-12-31T23:59:59Z",
    float("inf"): "9999-12-31T23:59:59Z",
    float("-inf"): "0001-01-01T00:00:00Z",
}


@pytest.mark.parametrize("seconds", WRITTEN)
def test_a_time_is_written(seconds: float) -> None:
    assert to_rfc3339(seconds) == WRITTEN[seconds]
    assert len(to_rfc3339(seconds)) == 20, "times are compared as text"
