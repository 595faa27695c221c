"""One finding of `tj doctor`. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

CLOCK_SECONDS = 5.0
State = Literal["ok", "warning", "failed", "skipped"]


@dataclass(frozen=True, slots=True)
class Check:
    subject: str
    """Redis, cluster, operator ...: `tj doctor` groups checks by subject."""
    name: str
    state: State
    detail: str
    """The finding, with the values."""
    advice: str = ""
    """The next step of the user; every warning and failure has one."""


class Subject(str):
    """The subject of checks: `Subject("Redis").ok("clock", "0.1 s behind")`."""

    def ok(self, name: str, detail: str) -> Check:
        return Check(self, name, "ok", detail)

    def skipped(self, name: str, detail: str) -> Check:
        return Check(self, name, "skipped", detail)

    def warning(self, name: str, detail: str, advice: str) -> Check:
        return Check(self, name, "warning", detail, advice)

    def failed(self, name: str, detail: str, advice: str) -> Check:
        return Check(self, name, "failed", detail, advice)

    def clock(self, ahead_seconds: float, digits: int, at_stake: str) -> Check:
        """Compare a clock with this machine's. `digits`: of the seconds that are shown. `at_stake`: what goes wrong."""
        detail = f"{abs(ahead_seconds):.{digits}f} s {'ahead of' if ahead_seconds > 0 else 'behind'} this machine's"
        if abs(ahead_seconds) > CLOCK_SECONDS:
            return self.warning("clock", detail, f"run NTP on both machines: {at_stake}")
        return self.ok("clock", detail)


def good(checks: Iterable[Check]) -> bool:
    """True if no check has failed. A warning is not a failure: the operator works."""
    return all(check.state != "failed" for check in checks)
