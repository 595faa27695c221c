"""One finding of `tj doctor`. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "warning", "failed", "skipped"]


@dataclass(frozen=True, slots=True)
class Check:
    subject: str
    """Redis, cluster, operator ...: checks of one subject stand together."""
    name: str
    state: State
    detail: str
    """What was found, with the values."""
    advice: str = ""
    """What to do next; for every warning and failure."""


def good(checks: Iterable[Check]) -> bool:
    """Whether nothing has failed. A warning is not a failure: the operator works."""
    return all(check.state != "failed" for check in checks)
