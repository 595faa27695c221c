"""Times as Go reads and writes them: RFC 3339, with the words of `time.Parse` for what is none, and any year. Pure.

Python's datetime knows the years 1 to 9999 and offsets below 24 hours. An API server takes the year 0, and an offset
may carry a time out of either end: it then shows years such as -0001 or 10000. So days are counted here, as in
https://howardhinnant.github.io/date_algorithms.html.
"""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import datetime
from functools import lru_cache

_DAY = 86_400
_SHOWN = re.compile(r"(-?\d{4,})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(\.\d+)?(?:Z|([+-])(\d\d):(\d\d))")
_RFC3339, _MICRO = "2006-01-02T15:04:05Z07:00", "2006-01-02T15:04:05.000000Z07:00"
_ZERO_SECONDS = -62_135_596_800
"""0001-01-01T00:00:00Z: the time that is none."""
_FRACTION_DIGITS = 6


class NoTimeError(ValueError):
    """In the words of Go."""


@lru_cache(maxsize=4096)
def seconds_of(text: str) -> float:
    """Unix seconds of a metav1.Time or MicroTime. Raises ValueError."""
    with suppress(ValueError):  # by far the fastest, for the years that it knows
        return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    found = _SHOWN.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no time such as 2026-01-01T00:00:00Z")
    year, month, day, hour, minute, second = map(int, found.groups()[:6])
    ahead = 0 if found[8] is None else (int(found[9]) * 60 + int(found[10])) * (-60 if found[8] == "-" else 60)
    return _to_seconds(year, month, day, hour, minute, second) - ahead + float(found[7] or 0)


def format_time(seconds: int, fraction: str = "") -> str:
    """In UTC, as Go formats it."""
    days, rest = divmod(seconds, _DAY)
    year, month, day = _to_date(days)
    sign, digits = ("-" if year < 0 else ""), f"{abs(year):04}"
    return f"{sign}{digits}-{month:02}-{day:02}T{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}{fraction}Z"


_PLAIN = re.compile(
    r"(?!0001-01-01T00:00:00)\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{6})?Z",
    re.ASCII,
)
"""A time that is canonical already, with or without microseconds. Most are."""


@lru_cache(maxsize=4096)
def canonical_time(text: str, *, micro: bool) -> str | None:
    """What a metav1.Time (a MicroTime) is stored and shown as; None for the time that is none, which is shown as null.
    Raises NoTimeError."""
    plain = _PLAIN.fullmatch(text)
    if plain is not None and bool(plain[1]) == micro:
        return text
    reader = _TimeReader(text, _MICRO if micro else _RFC3339)
    seconds, fraction = reader.read(micro=micro)
    return (
        None
        if seconds == _ZERO_SECONDS and not fraction.strip(".0")
        else format_time(seconds, fraction if micro else "")
    )


def _to_seconds(year: int, month: int, day: int, hour: int, minute: int, second: int) -> int:
    return _to_days(year, month, day) * _DAY + hour * 3600 + minute * 60 + second


def _to_days(year: int, month: int, day: int) -> int:
    """Since 1970-01-01."""
    shifted = year - (month <= 2)  # a year begins with March, so that a leap day is its last
    era, of_era = divmod(shifted, 400)
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def _to_date(days: int) -> tuple[int, int, int]:
    """Year, month and day."""
    era, of_era = divmod(days + 719_468, 146_097)
    year = (of_era - of_era // 1_460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    return year + era * 400 + (month >= 10), month + 3 if month < 10 else month - 9, day


def _days_in(month: int, year: int) -> int:
    following = (year + 1, 1) if month == 12 else (year, month + 1)
    return _to_days(*following, 1) - _to_days(year, month, 1)


class _TimeReader:
    """`time.Parse`: one element of the layout after another (go1.26 src/time/format.go, `parse`)."""

    def __init__(self, text: str, layout: str) -> None:
        self._text = text
        self._layout = layout
        self._left = text

    def read(self, *, micro: bool) -> tuple[int, str]:
        """Unix seconds, and the fraction's text, cut to microseconds."""
        year = self._read_number("2006", "year", 4, 4)
        self._skip("-")
        month = self._read_number("01", "month", 2, 2, 1, 12)
        self._skip("-")
        day = self._read_number("02", "day", 2, 2)
        self._skip("T")
        hour = self._read_number("15", "hour", 1, 2, 0, 23)
        self._skip(":")
        minute = self._read_number("04", "minute", 2, 2, 0, 59)
        self._skip(":")
        second = self._read_number("05", "second", 2, 2, 0, 59)
        fraction = self._take(r"[.,]\d{6}", ".000000") if micro else self._maybe(r"[.,]\d+")
        ahead = self._read_offset()
        if self._left:
            raise self._make_error(f': extra text: "{self._left}"')
        if not 1 <= day <= _days_in(month, year):
            raise self._make_error(": day out of range")
        whole = "." + fraction[1 : _FRACTION_DIGITS + 1].ljust(_FRACTION_DIGITS, "0") if fraction else ""
        return _to_seconds(year, month, day, hour, minute, second) - ahead, whole

    def _read_number(self, element: str, name: str, least: int, most: int, low: int = 0, high: int = 9999) -> int:
        value = int(self._take(rf"\d{{{least},{most}}}", element))
        if not low <= value <= high:
            raise self._make_error(f": {name} out of range")
        return value

    def _read_offset(self) -> int:
        if self._maybe("Z"):
            return 0
        text = self._take(r"[+-]\d\d:\d\d", "Z07:00")
        hours, minutes = int(text[1:3]), int(text[4:])
        if hours > 24:  # Go takes 24, and 60 minutes
            raise self._make_error(": time zone offset hour out of range")
        if minutes > 60:
            raise self._make_error(": time zone offset minute out of range")
        return (hours * 60 + minutes) * (-60 if text[0] == "-" else 60)

    def _skip(self, text: str) -> None:
        self._take(re.escape(text), text)

    def _take(self, pattern: str, element: str) -> str:
        found = self._maybe(pattern)
        if not found:
            why = f'cannot parse "{self._left}" as "{element}"'
            raise NoTimeError(f'parsing time "{self._text}" as "{self._layout}": {why}')
        return found

    def _maybe(self, pattern: str) -> str:
        found = re.match(pattern, self._left, re.ASCII)
        if found is None:
            return ""
        self._left = self._left[found.end() :]
        return found[0]

    def _make_error(self, why: str) -> NoTimeError:
        return NoTimeError(f'parsing time "{self._text}"{why}')
