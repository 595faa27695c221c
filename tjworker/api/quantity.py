"""Kubernetes quantities ("500m", "2", "1.5Gi", 4) as whole numbers of the unit that sums are made in. Pure.

Rounded up, as the scheduler rounds. What is beyond 64 bits is the greatest number of 64 bits: the API server accepts
`100E` and `1e400`, and says so for them too. Raises ValueError for what is no quantity; the caller knows whose mistake
that is.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any

_FORM = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([KMGTPE]i)|([numkMGTPE])|[eE]([+-]?\d+))?", re.ASCII)
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
MOST = 2**63 - 1
"""Sums and records saturate here: Kubernetes' own numbers do, and JSON is written with 64 bits."""
_GREATEST_EXPONENT = 100
"""Beyond any digits that a quantity has room for: it is MOST, or next to nothing."""


def saturated(number: int) -> int:
    return max(-MOST, min(MOST, number))


# A cluster has few different quantities, and the watcher reads those of a pod at each of its changes.
@lru_cache(maxsize=4096)
def _value(text: str) -> Decimal:
    match = _FORM.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        raise ValueError(f"{text[:_LONGEST]!r} is no quantity such as 500m, 2 or 1.5Gi")
    number, binary, decimal, exponent = match.groups()
    # Without the bound `1e999999` would make an integer of a million digits.
    if exponent:
        return Decimal(number).scaleb(max(-_GREATEST_EXPONENT, min(_GREATEST_EXPONENT, int(exponent))))
    return Decimal(number) * (_BINARY[binary] if binary else _DECIMAL[decimal] if decimal else 1)


@lru_cache(maxsize=4096)
def _scaled(text: str, scale: int) -> int:
    return saturated(math.ceil(_value(text) * scale))


def milli(quantity: object) -> int:
    """Thousandths: of CPUs."""
    return _scaled(_text(quantity), 1000)


def whole(quantity: object) -> int:
    """Bytes, or pieces of an extended resource."""
    return _scaled(_text(quantity), 1)


def asked_whole(container: Mapping[str, Any], resource: str) -> int:
    """What a container requests, else its limit, in whole pieces or bytes; 0 for nothing, and for what is no
    quantity."""
    resources = container.get("resources")
    given = [resources.get(part) for part in ("requests", "limits")] if isinstance(resources, Mapping) else []
    found = next((one[resource] for one in given if isinstance(one, Mapping) and resource in one), 0)
    try:
        return max(0, whole(found))
    except ValueError:
        return 0


def mega(size_bytes: int) -> int:
    """10^6 bytes: 100Mi is 105."""
    return -(-size_bytes // 1_000_000)


def _text(quantity: object) -> str:
    # YAML's `true` is an int to Python.
    if isinstance(quantity, bool) or not isinstance(quantity, str | int | float):
        raise ValueError(f"{quantity!r} is no quantity such as 500m, 2 or 1.5Gi")
    return str(quantity)
