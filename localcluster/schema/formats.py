"""The string formats that a CRD schema may ask for, as k8s.io/kube-openapi/pkg/validation/strfmt checks them.

A format that is not in the table is ignored, as apiextensions strips it. Pure.
"""

from __future__ import annotations

import datetime
import ipaddress
import re
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urlsplit

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
_HOSTNAME: Final = re.compile(
    r"^([^\W_]((-?[^\W_]{0,62})?)|([^\W_](([^\W_]|-){0,61}[^\W_])?\.)+([a-zA-Z]|[^\W\d_]){2,63})$"
)
_ATOM: Final = r"[^\s@<>()\[\]\\,;:\".]+"
_DOTTED: Final = rf"{_ATOM}(?:\.{_ATOM})*"
_ADDRESS: Final = re.compile(rf"(?:[^<>@]*<)?(?P<local>{_DOTTED}|\"[^\"]*\")@(?:{_DOTTED}|\[[^\]]*\])>?")
_BASE64: Final = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})")
_HEX: Final = "[0-9a-f]"


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


def _is_hostname(text: str) -> bool:
    return (
        bool(_HOSTNAME.match(text))
        and len(text.encode("utf-8", "replace")) <= 255
        and all(len(p) <= 63 for p in text.split("."))
    )


def _is_email(text: str) -> bool:
    match = _ADDRESS.fullmatch(text.strip())
    return match is not None and ".." not in match["local"]


def _is_address(version: int) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            return ipaddress.ip_address(text).version == version and "%" not in text
        except ValueError:
            return False

    return check


def _is_cidr(text: str) -> bool:
    try:
        return "/" in text and text.rpartition("/")[2].isdigit() and ipaddress.ip_interface(text) is not None
    except ValueError:
        return False


def _is_request_uri(text: str) -> bool:
    if not text or any(c in text for c in " \x7f") or any(ord(c) < 0x20 for c in text):
        return False
    try:
        parts = urlsplit(text)
        return text.startswith("/") or bool(parts.scheme)
    except ValueError:
        return False


def _is_byte(text: str) -> bool:
    return _BASE64.fullmatch(text) is not None


def _digits_check(text: str, length: int) -> bool:
    digits = re.sub(r"[\s-]+", "", text)
    if length == 10:
        return (
            bool(re.fullmatch(r"[0-9]{9}[0-9X]", digits))
            and sum((10 if c == "X" else int(c)) * (i + 1) for i, c in enumerate(digits)) % 11 == 0
        )
    return (
        bool(re.fullmatch(r"[0-9]{13}", digits))
        and sum(int(c) * (3 if i % 2 else 1) for i, c in enumerate(digits)) % 10 == 0
    )


def _is_credit_card(text: str) -> bool:
    digits = re.sub(r"[^0-9]+", "", text)
    total = sum(sum(divmod(int(c) * (2 if i % 2 else 1), 10)) for i, c in enumerate(reversed(digits)))
    pattern = (
        r"4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}"
        r"|(?:2131|1800|35\d{3})\d{11}"
    )
    return bool(re.fullmatch(pattern, digits)) and total % 10 == 0


def _matches(pattern: str) -> Callable[[str], bool]:
    compiled = re.compile(pattern, re.ASCII)
    return lambda text: compiled.fullmatch(text) is not None


def _uuid(third: str, fourth: str = f"{_HEX}{{4}}") -> Callable[[str], bool]:
    return _matches(f"(?i:{_HEX}{{8}}-?{_HEX}{{4}}-?{third}-?{fourth}-?{_HEX}{{12}})")


_BYTE_VALUE: Final = r"([01]?[0-9]?[0-9]|2[0-4][0-9]|25[0-5])"
_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_short_name, _long_name = _matches(_LABEL), _matches(rf"{_LABEL}(\.{_LABEL})*")

FORMATS: Final[Mapping[str, Callable[[str], bool]]] = {
    "bsonobjectid": _matches("(?i:[0-9a-f]{24})"),
    "uri": _is_request_uri,
    "email": _is_email,
    "hostname": _is_hostname,
    "ipv4": _is_address(4),
    "ipv6": _is_address(6),
    "cidr": _is_cidr,
    "mac": _matches(
        r"(?i:([0-9a-f]{2}([:-])([0-9a-f]{2}\2){4}[0-9a-f]{2}|([0-9a-f]{2}([:-])){7}[0-9a-f]{2}|([0-9a-f]{4}\.){2,3}[0-9a-f]{4}))"
    ),
    "uuid": _uuid(f"{_HEX}{{4}}"),
    "uuid3": _uuid(f"3{_HEX}{{3}}"),
    "uuid4": _uuid(f"4{_HEX}{{3}}", f"[89ab]{_HEX}{{3}}"),
    "uuid5": _uuid(f"5{_HEX}{{3}}", f"[89ab]{_HEX}{{3}}"),
    "isbn": lambda text: _digits_check(text, 10) or _digits_check(text, 13),
    "isbn10": lambda text: _digits_check(text, 10),
    "isbn13": lambda text: _digits_check(text, 13),
    "creditcard": _is_credit_card,
    "ssn": _matches(r"\d{3}[- ]?\d{2}[- ]?\d{4}"),
    "hexcolor": _matches("#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "rgbcolor": _matches(rf"rgb\(\s*{_BYTE_VALUE}\s*,\s*{_BYTE_VALUE}\s*,\s*{_BYTE_VALUE}\s*\)"),
    "byte": _is_byte,
    "password": lambda text: True,
    "date": _is_date,
    "duration": lambda text: parse_duration(text) is not None,
    "datetime": _is_date_time,
    "k8sshortname": lambda text: len(text) <= 63 and _short_name(text),
    "k8slongname": lambda text: len(text) <= 253 and _long_name(text),
}


def normalize(name: str) -> str:
    """`date-time` and `datetime` are one format."""
    return name.replace("-", "")


def known(schema_type: str, name: str) -> bool:
    """Does the API server act on this format, on this type? Others are accepted and have no effect."""
    if schema_type in ("", "string"):
        return normalize(name) in FORMATS
    return name in {"integer": ("int32", "int64"), "number": ("float", "double")}.get(schema_type, (name,))
