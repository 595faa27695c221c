"""The string formats that change what a value is (CEL sees a time, a duration, bytes), as
k8s.io/kube-openapi/pkg/validation/strfmt checks them.

A format that is not in the table is ignored, as apiextensions strips what it does not know. Pure.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping
from typing import Final

_DURATION_PART: Final = re.compile(r"(\d+)\s*([A-Za-zµ]+)")
_GO_DURATION: Final = re.compile(r"[-+]?(0|((\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h))+)")
_GO_DURATION_PART: Final = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)")
_UNITS: Final = (
    (1, ("ns", "nano")),
    (1e3, ("us", "µs", "micro")),
    (1e6, ("ms", "milli")),
    (1e9, ("s", "sec")),
    (60e9, ("m", "min")),
    (3600e9, ("h", "hr", "hour")),
    (86400e9, ("d", "day")),
    (604800e9, ("w", "wk", "week")),
)
_GO_UNIT_NANOSECONDS: Final = {"ns": 1.0, "us": 1e3, "µs": 1e3, "μs": 1e3, "ms": 1e6, "s": 1e9, "m": 60e9, "h": 3600e9}
_TIME: Final = re.compile(r"^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$")
_BASE64: Final = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})")


def parse_duration(text: str) -> datetime.timedelta | None:
    """Go's time.ParseDuration, then Scala's syntax (`3 days`); None when it is neither."""
    if _GO_DURATION.fullmatch(text):
        nanoseconds = sum(float(n) * _GO_UNIT_NANOSECONDS[unit] for n, unit in _GO_DURATION_PART.findall(text))
        return datetime.timedelta(microseconds=(-nanoseconds if text.startswith("-") else nanoseconds) / 1e3)
    total: float | None = None
    for number, name in _DURATION_PART.findall(text):
        unit = name.lower().strip()
        for factor, variants in _UNITS:
            if unit in variants or unit.startswith(variants[-1]):
                total = (total or 0) + int(number) * factor
    if total is None:
        return None
    try:
        return datetime.timedelta(microseconds=total / 1e3)
    except OverflowError:
        return None


def _is_date(text: str) -> bool:
    try:
        return (
            bool(re.fullmatch(r"\d{4}-\d{2}-\d{2}", text, re.ASCII)) and datetime.date.fromisoformat(text) is not None
        )
    except ValueError:
        return False


def _is_date_time(text: str) -> bool:
    date, separator, time = text.lower().partition("t")
    match = _TIME.match(time.split("t", maxsplit=1)[0]) if separator and _is_date(date) else None
    return match is not None and match[1] <= "23" and match[2] <= "59" and match[3] <= "59"


def _is_byte(text: str) -> bool:
    return _BASE64.fullmatch(text) is not None


FORMATS: Final[Mapping[str, Callable[[str], bool]]] = {
    "byte": _is_byte,
    "password": lambda text: True,
    "date": _is_date,
    "duration": lambda text: parse_duration(text) is not None,
    "datetime": _is_date_time,
}


def normalize_name(name: str) -> str:
    """`date-time` and `datetime` are one format."""
    return name.replace("-", "")


def is_known(schema_type: str, name: str) -> bool:
    """Does the API server act on this format, on this type? Others are accepted and have no effect."""
    if schema_type in ("", "string"):
        return normalize_name(name) in FORMATS
    return name in {"integer": ("int32", "int64"), "number": ("float", "double")}.get(schema_type, (name,))
