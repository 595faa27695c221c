"""Kubernetes quantities ("500m", "2", "1.5Gi", 4) as whole numbers of the unit that sums are made in. Pure.

Rounded up, as the scheduler rounds. Raises ValueError for what is no quantity; the caller knows whose mistake that
is.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from functools import lru_cache

_FORM = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([KMGTPE]i)|([numkMGTPE])|[eE]([+-]?\d{1,3}))?", re.ASCII)
_BINARY = {f"{prefix}i": 2 ** (10 * power) for power, prefix in enumerate("KMGTPE", 1)}
_DECIMAL = {
    prefix: Decimal(10) ** power
    for prefix, power in (
        ("n", -9),
        ("u", -6),
        ("m", -3),
        ("k", 3),
        ("M", 6),
        ("G", 9),
        ("T", 12),
        ("P", 15),
        ("E", 18),
    )
}
_LONGEST = 64
"""In characters, the API server's own bound."""


@lru_cache(maxsize=4096)
def _value(text: str) -> Decimal:
    match = _FORM.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        raise ValueError(f"{text[:_LONGEST]!r} is no quantity such as 500m, 2 or 1.5Gi")
    number, binary, decimal, exponent = match.groups()
    if exponent:
        return Decimal(number).scaleb(int(exponent))
    return Decimal(number) * (_BINARY[binary] if binary else _DECIMAL[decimal] if decimal else 1)


@lru_cache(maxsize=4096)
def _scaled(text: str, scale: int) -> int:
    return math.ceil(_value(text) * scale)


def milli(quantity: object) -> int:
    """Thousandths: of CPUs."""
    return _scaled(_text(quantity), 1000)


def whole(quantity: object) -> int:
    """Bytes, or pieces of an extended resource."""
    return _scaled(_text(quantity), 1)


def mega(size_bytes: int) -> int:
    """10^6 bytes: 100Mi is 105."""
    return -(-size_bytes // 1_000_000)


def _text(quantity: object) -> str:
    if isinstance(quantity, bool) or not isinstance(quantity, str | int | float):
        raise ValueError(f"{quantity!r} is no quantity such as 500m, 2 or 1.5Gi")
    return str(quantity)
