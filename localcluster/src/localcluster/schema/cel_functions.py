"""The functions that rules of our CRDs call and the CEL library lacks or gets wrong.

Kubernetes' other libraries (strings, regex, url, quantity, sets) and the optional syntax are not served: a CRD
whose rule uses one is refused when it is applied. Each function takes and returns CEL values as Python has them; the
text of a ValueError is the text of the CEL error. Pure.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from localcluster.schema.gotext import INT64_MAX, INT64_MIN, go_float

NO_OVERLOAD: Final = "no such overload"
_ABSENT: Final = object()


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
    _want(isinstance(value, str))
    raise ValueError(f"type conversion error from 'string' to 'bool': {value!r}")


def _sum(values: Any) -> Any:
    _want(isinstance(values, list))
    total = sum(values)
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


def _text(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(_text, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_text(k)}: {_text(v)}" for k, v in sorted(value.items())) + "}"
    return "null" if value is None else _string(value)


def _format(template: str, values: list[Any]) -> str:
    """%s, %d, %f with a precision, %%; the verbs of other bases are not served."""
    remaining = iter(values)

    def one(match: re.Match[str]) -> str:
        if match[2] == "%":
            return "%"
        value: Any = next(remaining, _ABSENT)
        if value is _ABSENT:
            raise ValueError(f"index {len(values)} out of range")
        return f"{float(value):.{match[1] or 6}f}" if match[2] == "f" else _text(value)

    return re.sub(r"%(?:\.(\d+))?([sdf%])", one, template)


RENAMED: Final[Mapping[str, str]] = {"size": "k8s_size", "string": "k8s_string", "bool": "k8s_bool"}
"""The library's size() counts bytes, its string() knows no booleans, bool() is missing: calls are renamed to ours."""

FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "k8s_size": _size,
    "k8s_string": _string,
    "k8s_bool": _bool,
    "sum": _sum,
    "min": _extreme("min", min),
    "max": _extreme("max", max),
    "format": _format,
}

_BUILT_IN: Final = """
contains startsWith endsWith matches int uint double bytes dyn type duration timestamp getFullYear getMonth getDayOfYear
getDayOfMonth getDate getDayOfWeek getHours getMinutes getSeconds getMilliseconds value hasValue orValue has all exists
exists_one map filter size string bool
"""
BUILT_IN: Final = frozenset(_BUILT_IN.split())
"""What a rule may call besides FUNCTIONS."""
