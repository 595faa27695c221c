"""How Go prints a JSON value: `%v` of a number, `%q` of a string, encoding/json of the rest.

Messages of the API server are compared word for word, so Python's own repr will not do. Pure.
"""

from __future__ import annotations

import math
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

import orjson

_ESCAPES: Final = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\\": "\\\\",
    '"': '\\"',
}
INT64_MAX: Final = 2**63 - 1
INT64_MIN: Final = -(2**63)


def go_quote(text: str) -> str:
    """strconv.Quote: printable characters stay, the rest is escaped."""
    out = []
    for char in text:
        code = ord(char)
        if char in _ESCAPES:
            out.append(_ESCAPES[char])
        elif char.isprintable():
            out.append(char)
        elif code < 0x80:
            out.append(f"\\x{code:02x}")
        elif code < 0x10000:
            out.append(f"\\u{code:04x}")
        else:
            out.append(f"\\U{code:08x}")
    return '"' + "".join(out) + '"'


def _exponent_form(value: float) -> str:
    mantissa, _, exponent = f"{Decimal(repr(value)):e}".partition("e")
    if "." in mantissa:
        mantissa = mantissa.rstrip("0").rstrip(".")
    sign = "-" if exponent.startswith("-") else "+"
    return f"{mantissa}e{sign}{exponent.lstrip('+-').zfill(2)}"


def go_float(value: float, *, smallest_exponent: int = -4) -> str:
    """`%v` of a float64: the shortest digits, an exponent from 1e21 on and below 1e-4 (encoding/json: below 1e-6)."""
    if math.isnan(value) or math.isinf(value):
        return "NaN" if math.isnan(value) else ("+Inf" if value > 0 else "-Inf")
    if value == 0:
        return "-0" if math.copysign(1, value) < 0 else "0"
    if abs(value) >= 1e21 or abs(value) < 10.0**smallest_exponent:
        return _exponent_form(value)
    text = f"{Decimal(repr(value)):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


class GoStruct(dict[str, Any]):
    """Printed with its keys in their own order, as Go prints a struct."""


def _json(value: Any) -> str:
    if isinstance(value, dict):
        keys = value if isinstance(value, GoStruct) else sorted(value)
        return "{" + ",".join(f"{_json_string(str(k))}:{_json(value[k])}" for k in keys) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_json, value)) + "]"
    if isinstance(value, str):
        return _json_string(value)
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, int):
        return str(value) if INT64_MIN <= value <= INT64_MAX else go_float(float(value), smallest_exponent=-6)
    text = go_float(float(value), smallest_exponent=-6)
    return text.replace("e-0", "e-") if "e-0" in text else text


@lru_cache(maxsize=8192)
def _json_string(text: str) -> str:
    try:
        quoted = orjson.dumps(text).decode()
    except orjson.JSONEncodeError:  # a lone surrogate, which Go would have replaced when it read it
        quoted = orjson.dumps(text.encode("utf-8", "replace").decode()).decode()
    # encoding/json escapes HTML and the two line separators of JavaScript by default.
    for char, escape in (
        ("<", "\\u003c"),
        (">", "\\u003e"),
        ("&", "\\u0026"),
        ("\u2028", "\\u2028"),
        ("\u2029", "\\u2029"),
        ("\x7f", "\x7f"),
    ):
        quoted = quoted.replace(char, escape)
    return quoted


def go_json(value: Any) -> str:
    """encoding/json: no blanks, keys sorted, <, > and & escaped."""
    return _json(value)


def go_value(value: Any) -> str:
    """A bad value in a field error: strings quoted, numbers and booleans plain, all else as JSON."""
    if isinstance(value, str):
        return go_quote(value)
    if isinstance(value, float):
        return go_float(value)
    return go_json(value)
