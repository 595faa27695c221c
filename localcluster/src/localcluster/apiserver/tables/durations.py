"""Ages as kubectl prints them (`duration.HumanDuration`). Pure."""

from __future__ import annotations

from localcluster.apiserver.meta import parse_time


def format_duration(seconds: float) -> str:  # noqa: PLR0911  one line a row of Kubernetes' table
    """`2d4h` for a span. Negative spans of more than two seconds are invalid, as there."""
    if seconds < -1:
        return "<invalid>"
    if seconds < 0:
        return "0s"
    whole = int(seconds)
    if whole < 60 * 2:
        return f"{whole}s"
    minutes = whole // 60
    if minutes < 10:
        rest = whole % 60
        return f"{minutes}m{rest}s" if rest else f"{minutes}m"
    if minutes < 60 * 3:
        return f"{minutes}m"
    hours = minutes // 60
    if hours < 8:
        rest = minutes % 60
        return f"{hours}h{rest}m" if rest else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    days = hours // 24
    if hours < 24 * 8:
        rest = hours % 24
        return f"{days}d{rest}h" if rest else f"{days}d"
    if hours < 24 * 365 * 2:
        return f"{days}d"
    years = days // 365
    if hours < 24 * 365 * 8:
        rest = days % 365
        return f"{years}y{rest}d" if rest else f"{years}y"
    return f"{years}y"


def age_since(text: str | None, now: float) -> str:
    start = parse_time(text)
    return "<unknown>" if start is None else format_duration(now - start)
