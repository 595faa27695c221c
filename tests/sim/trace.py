"""What happened, in the order in which it happened, for a person to read. Kept as it comes, put into words only when asked."""

from __future__ import annotations


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
        began = self._lines[0][0]
        return "\n".join(f"{at - began:9.3f} s  {actor:<9} {what}" for at, actor, what in self._lines)

    def __len__(self) -> int:
        return len(self._lines)
