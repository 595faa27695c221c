"""Resource quantities (`100m`, `1Gi`, `1e3`): parsing and Kubernetes' canonical form. Pure."""

from __future__ import annotations

import re
from decimal import ROUND_UP, Decimal
from functools import lru_cache

_FORM = re.compile(r"^([+-]?(?:\d+(?:\.\d*)?|\.\d+))(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E|[eE][+-]?\d+)?$")
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BAD = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


class BadQuantity(ValueError):
    """Kubernetes' own words."""


@lru_cache(4096)
def parse(text: str) -> Decimal:
    """The exact value. Raises BadQuantity."""
    found = _FORM.match(text)
    if found is None:
        raise BadQuantity("unable to parse quantity's suffix" if re.match(r"^[+-]?[0-9.]+[A-Za-z]", text) else _BAD)
    number, suffix = Decimal(found.group(1)), found.group(2) or ""
    if suffix in _BINARY:
        return number * Decimal(1 << _BINARY[suffix])
    if suffix[:1] in ("e", "E") and len(suffix) > 1:
        return number.scaleb(int(suffix[1:]))
    return number.scaleb(_DECIMAL[suffix])


@lru_cache(4096)
def canonical_quantity(text: str) -> str:
    """The form that Kubernetes stores: no fraction, the largest suffix that keeps the value whole. Raises
    BadQuantity."""
    value = parse(text)
    suffix = re.sub(r"^[+-]?[0-9.]+", "", text)
    sign, value = ("-", -value) if value < 0 else ("", value)
    if value == 0:
        return "0"
    if suffix in _BINARY and (value >= 1024 or value == value.to_integral_value()):
        whole = int(value.to_integral_value(ROUND_UP))
        power = 0
        while whole % 1024 == 0 and power < 60:
            whole, power = whole // 1024, power + 10
        return f"{sign}{whole}{next((name for name, bits in _BINARY.items() if bits == power), '')}"
    nano = int(value.scaleb(9).to_integral_value(ROUND_UP))
    exponent = -9
    while nano % 1000 == 0 and exponent < 18:
        nano, exponent = nano // 1000, exponent + 3
    if suffix[:1] in ("e", "E") and len(suffix) > 1:
        return f"{sign}{nano}e{exponent}" if exponent else f"{sign}{nano}"
    return f"{sign}{nano}{next(name for name, power in _DECIMAL.items() if power == exponent)}"
