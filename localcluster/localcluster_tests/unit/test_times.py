"""Times as a kube-apiserver 1.36.3 showed them when it was given these (its words for what is none: contract/api)."""

from __future__ import annotations

import pytest

from localcluster.times import NoTimeError, canonical_time, format_time, seconds_of

SHOWN = {
    "2026-01-01T00:00:00Z": "2026-01-01T00:00:00Z",
    "0001-01-01T00:00:00Z": None,
    "0001-01-01T00:00:01Z": "0001-01-01T00:00:01Z",
    "0000-01-01T00:00:00Z": "0000-01-01T00:00:00Z",
    "0001-01-01T00:00:00+23:59": "0000-12-31T00:01:00Z",
    "0000-01-01T00:00:00+10:00": "-0001-12-31T14:00:00Z",
    "9999-12-31T23:59:59Z": "9999-12-31T23:59:59Z",
    "9999-12-31T23:59:59-12:00": "10000-01-01T11:59:59Z",
    "2026-01-01T00:00:00+24:00": "2025-12-31T00:00:00Z",
    "2026-01-01T00:00:00.5+00:30": "2025-12-31T23:30:00Z",
    "2026-01-01T00:00:00,5Z": "2026-01-01T00:00:00Z",
    "2026-01-01T0:00:00Z": "2026-01-01T00:00:00Z",
}


@pytest.mark.parametrize(("given", "want"), SHOWN.items(), ids=SHOWN)
def test_a_time_is_shown_as_kubernetes_shows_it(given: str, want: str | None) -> None:
    assert canonical_time(given, micro=False) == want


@pytest.mark.parametrize("text", [text for text in SHOWN.values() if text])
def test_what_is_shown_can_be_counted_with(text: str) -> None:
    assert format_time(int(seconds_of(text))) == text


def test_microseconds_are_kept() -> None:
    assert canonical_time("2026-01-01T00:00:00.123456+01:00", micro=True) == "2025-12-31T23:00:00.123456Z"
    assert seconds_of("2026-01-01T00:00:00.500000Z") - seconds_of("2026-01-01T00:00:00Z") == 0.5


@pytest.mark.parametrize("text", ["2026-02-29T00:00:00Z", "1900-02-29T00:00:00Z", "2026-04-31T00:00:00Z"])
def test_no_month_has_more_days_than_it_has(text: str) -> None:
    with pytest.raises(NoTimeError, match="day out of range"):
        canonical_time(text, micro=False)


def test_leap_days_are_days() -> None:
    assert canonical_time("2000-02-29T23:30:00-01:00", micro=False) == "2000-03-01T00:30:00Z"
