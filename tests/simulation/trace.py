"""What happened, in the order in which it happened, for a person to read. Kept as it comes, put into words only when
asked."""

from __future__ import annotations

IDLE = "(no changes)"
_IDLE_WORDS = (IDLE, ": take_due", ": once ", ": resync ", ": 0 published", ": 0 deleted")


class Trace:
    def __init__(self) -> None:
        self._lines: list[tuple[float, str, str]] = []

    def step(self, at_seconds: float, kind: str, number: int, actor: str, what: str) -> None:
        self._lines.append((at_seconds, actor, f"{kind} {number}: {what}"))

    def note(self, at_seconds: float, actor: str, what: str) -> None:
        self._lines.append((at_seconds, actor, what))

    def __str__(self) -> str:
        if not self._lines:
            return "(nothing happened)"
        began, idle = self._lines[0][0], 0
        out = []
        for at, actor, what in self._lines:
            if any(word in what for word in _IDLE_WORDS):
                idle += 1
                continue
            if idle:
                out.append(f"{'...':>11}  ({idle} steps that found nothing to do)")
                idle = 0
            out.append(f"{at - began:9.3f} s  {actor:<9} {what[:240]}")
        return "\n".join(out)

    def __len__(self) -> int:
        return len(self._lines)
