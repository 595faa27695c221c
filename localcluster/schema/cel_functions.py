"""The functions of Kubernetes' CEL environment that the CEL library lacks, and three that it gets wrong.

Sources: apiserver's cel/library (lists, regex, urls, quantity), cel-go's ext/strings and ext/sets. Each takes and returns CEL
values as Python has them; a ValueError's text is the text of the CEL error. Quantities and URLs travel as one-entry maps.
Pure.
"""

from __future__ import annotations

import datetime
import itertools
import re
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from localcluster.schema.correlate import same
from localcluster.schema.gotext import INT64_MAX, INT64_MIN, go_float
from localcluster.schema.pattern import PatternError, compile_pattern

NO_OVERLOAD: Final = "no such overload"
_QUANTITY: Final = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([KMGTPE]i)|([numkMGTPE])|[eE]([+-]?\d+))?")
_BINARY: Final = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_QUANTITY_RULE: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_Q: Final = "@quantity"
_URL: Final = "@url"


def _want(condition: bool) -> None:
    if not condition:
        raise ValueError(NO_OVERLOAD)


def _size(value: Any) -> int:
    _want(isinstance(value, str | bytes | list | dict))
    return len(value)


def _string(value: Any) -> str:  # noqa: PLR0911 - one line a type
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return go_float(value)
    if isinstance(value, datetime.datetime):
        return value.isoformat().replace("+00:00", "Z")
    _want(isinstance(value, datetime.timedelta))
    return f"{go_float(value.total_seconds())}s"


def _bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if value in ("true", "TRUE", "True", "t", "T", "1"):
        return True
    if value in ("false", "FALSE", "False", "f", "F", "0"):
        return False
    raise ValueError(
        f"type conversion error from 'string' to 'bool': {value!r}" if isinstance(value, str) else NO_OVERLOAD
    )


def _sum(values: Any) -> Any:
    _want(isinstance(values, list))
    if not values:
        return 0
    total = values[0]
    for value in values[1:]:
        total = total + value
    if isinstance(total, int) and not INT64_MIN <= total <= INT64_MAX:
        raise ValueError("integer overflow")
    return total


def _extreme(name: str, choose: Callable[[list[Any]], Any]) -> Callable[[Any], Any]:
    def pick(values: Any) -> Any:
        _want(isinstance(values, list))
        if not values:
            raise ValueError(f"{name} called on empty list")
        return choose(values)

    return pick


def _is_sorted(values: Any) -> bool:
    _want(isinstance(values, list))
    return all(a <= b for a, b in itertools.pairwise(values))


def _index_of(value: str | list[Any], wanted: Any, offset: int = 0) -> int:
    if isinstance(value, list):
        return next((i for i, item in enumerate(value) if same(item, wanted)), -1)
    _want(isinstance(value, str) and isinstance(wanted, str))
    if not 0 <= offset <= len(value):
        raise ValueError(f"index out of range: {offset}")
    return value.find(wanted, offset)


def _last_index_of(value: str | list[Any], wanted: Any, offset: int | None = None) -> int:
    if isinstance(value, list):
        return next((i for i in range(len(value) - 1, -1, -1) if same(value[i], wanted)), -1)
    _want(isinstance(value, str) and isinstance(wanted, str))
    return value.rfind(wanted) if offset is None else value.rfind(wanted, 0, offset + len(wanted))


def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise ValueError(f"index out of range: {index}")
    return text[index : index + 1]


def _substring(text: str, start: int, end: int | None = None) -> str:
    stop = len(text) if end is None else end
    if not 0 <= start <= len(text):
        raise ValueError(f"index out of range: {start}")
    if not 0 <= stop <= len(text):
        raise ValueError(f"index out of range: {stop}")
    if start > stop:
        raise ValueError(f"invalid substring range. start: {start}, end: {stop}")
    return text[start:stop]


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    parts = text.split(separator) if separator else list(text)
    if 0 < limit < len(parts):
        parts = [*parts[: limit - 1], separator.join(parts[limit - 1 :])]
    return parts


def _join(values: list[str], separator: str = "") -> str:
    _want(all(isinstance(value, str) for value in values))
    return separator.join(values)


def _ascii(change: Callable[[str], str]) -> Callable[[str], str]:
    def convert(text: str) -> str:
        _want(isinstance(text, str))
        return "".join(change(c) if c.isascii() else c for c in text)

    return convert


def _pattern(pattern: str) -> re.Pattern[str]:
    try:
        return compile_pattern(pattern)
    except PatternError as error:
        raise ValueError(str(error)) from error


def _find(text: str, pattern: str) -> str:
    match = _pattern(pattern).search(text)
    return match[0] if match else ""


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    found = [match[0] for match in _pattern(pattern).finditer(text)]
    return found if limit < 0 else found[:limit]


def _format_one(verb: str, precision: str, value: Any) -> str:
    if verb == "d":
        return str(value)
    if verb == "f":
        return f"{float(value):.{precision or 6}f}"
    if verb == "e":
        return f"{float(value):.{precision or 6}e}"
    if verb in "xX" and isinstance(value, str | bytes):
        digits = (value.encode() if isinstance(value, str) else value).hex()
        return digits.upper() if verb == "X" else digits
    if verb in "xXob":
        return f"{value:{verb}}"
    return _format_text(value)


def _format_text(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(_format_text, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_format_text(k)}: {_format_text(v)}" for k, v in sorted(value.items())) + "}"
    return "null" if value is None else _string(value)


def _format(template: str, values: list[Any]) -> str:
    remaining = iter(values)

    def one(match: re.Match[str]) -> str:
        if match[2] == "%":
            return "%"
        try:
            return _format_one(match[2], match[1] or "", next(remaining))
        except StopIteration:
            raise ValueError(f"index {len(values)} out of range") from None

    return re.sub(r"%(?:\.(\d+))?([sdfexXob%])", one, template)


def parse_quantity(text: str) -> Decimal | None:
    """The number that a resource quantity stands for."""
    match = _QUANTITY.fullmatch(text)
    if match is None:
        return None
    try:
        number = Decimal(match[1])
        if match[2]:
            return number * _BINARY[match[2]]
        return number.scaleb(_DECIMAL[match[3]] if match[3] else int(match[4] or 0))
    except (InvalidOperation, ArithmeticError):
        return None


def _boxed(number: Decimal) -> dict[str, str]:
    return {_Q: f"{number.normalize():f}"}


def _quantity(text: str) -> dict[str, str]:
    number = parse_quantity(text)
    if number is None:
        raise ValueError(_QUANTITY_RULE)
    return _boxed(number)


def _number(boxed: Any) -> Decimal:
    _want(isinstance(boxed, dict) and _Q in boxed)
    return Decimal(boxed[_Q])


def _operand(value: Any) -> Decimal:
    return Decimal(value) if isinstance(value, int) else _number(value)


def _as_integer(boxed: Any) -> int:
    number = _number(boxed)
    if number != number.to_integral_value() or not INT64_MIN <= number <= INT64_MAX:
        raise ValueError("cannot convert value to integer")
    return int(number)


def _is_integer(boxed: Any) -> bool:
    number = _number(boxed)
    return number == number.to_integral_value() and INT64_MIN <= number <= INT64_MAX


def _compare(a: Any, b: Any) -> int:
    left, right = _number(a), _number(b)
    return (left > right) - (left < right)


def _sign(boxed: Any) -> int:
    number = _number(boxed)
    return (number > 0) - (number < 0)


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        return False
    return bool(parts.scheme) or text.startswith("/")


def _url(text: str) -> dict[str, str]:
    if not _is_url(text):
        raise ValueError(f'URL parse error during conversion from string: parse "{text}": invalid URI for request')
    return {_URL: text}


def _url_part(pick: Callable[[str], Any]) -> Callable[[Any], Any]:
    def part(boxed: Any) -> Any:
        _want(isinstance(boxed, dict) and _URL in boxed)
        return pick(boxed[_URL])

    return part


def _contains_all(values: list[Any], wanted: list[Any]) -> bool:
    return all(any(same(value, one) for value in values) for one in wanted)


RENAMED: Final[Mapping[str, str]] = {"size": "k8s_size", "string": "k8s_string", "bool": "k8s_bool"}
"""The library's size() counts bytes, its string() knows no booleans, bool() is missing: calls are renamed to ours."""

FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "k8s_size": _size,
    "k8s_string": _string,
    "k8s_bool": _bool,
    "sum": _sum,
    "min": _extreme("min", min),
    "max": _extreme("max", max),
    "isSorted": _is_sorted,
    "indexOf": _index_of,
    "lastIndexOf": _last_index_of,
    "charAt": _char_at,
    "substring": _substring,
    "split": _split,
    "join": _join,
    "trim": str.strip,
    "replace": lambda text, old, new, count=-1: text.replace(old, new, count),
    "lowerAscii": _ascii(str.lower),
    "upperAscii": _ascii(str.upper),
    "format": _format,
    "find": _find,
    "findAll": _find_all,
    "quantity": _quantity,
    "isQuantity": lambda text: isinstance(text, str) and parse_quantity(text) is not None,
    "isInteger": _is_integer,
    "asInteger": _as_integer,
    "asApproximateFloat": lambda q: float(_number(q)),
    "sign": _sign,
    "isLessThan": lambda a, b: _compare(a, b) < 0,
    "isGreaterThan": lambda a, b: _compare(a, b) > 0,
    "compareTo": _compare,
    "add": lambda a, b: _boxed(_number(a) + _operand(b)),
    "sub": lambda a, b: _boxed(_number(a) - _operand(b)),
    "isURL": _is_url,
    "url": _url,
    "getScheme": _url_part(lambda u: urlsplit(u).scheme),
    "getHost": _url_part(lambda u: urlsplit(u).netloc.rpartition("@")[2]),
    "getHostname": _url_part(lambda u: urlsplit(u).hostname or ""),
    "getPort": _url_part(lambda u: str(urlsplit(u).port or "")),
    "getEscapedPath": _url_part(lambda u: urlsplit(u).path),
    "getQuery": _url_part(lambda u: parse_qs(urlsplit(u).query, keep_blank_values=True)),
    "sets_contains": _contains_all,
    "sets_intersects": lambda a, b: any(_contains_all(b, [one]) for one in a),
    "sets_equivalent": lambda a, b: _contains_all(a, b) and _contains_all(b, a),
}

BUILT_IN: Final = frozenset(
    {
        "contains",
        "startsWith",
        "endsWith",
        "matches",
        "int",
        "uint",
        "double",
        "bytes",
        "dyn",
        "type",
        "duration",
        "timestamp",
        "getFullYear",
        "getMonth",
        "getDayOfYear",
        "getDayOfMonth",
        "getDate",
        "getDayOfWeek",
        "getHours",
        "getMinutes",
        "getSeconds",
        "getMilliseconds",
        "value",
        "hasValue",
        "orValue",
        "or",
        "of",
        "none",
        "ofNonZeroValue",
        "has",
        "all",
        "exists",
        "exists_one",
        "map",
        "filter",
        "size",
        "string",
        "bool",
        "optMap",
        "optFlatMap",
        "bind",
        "intersects",
        "equivalent",
    }
)
"""What a rule may call besides FUNCTIONS."""
