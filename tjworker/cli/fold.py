"""Prints equal tracebacks of several replicas once: an error in one replica is most often in all. Pure.

Only a terminal gets folded tracebacks; a file or a program gets each log as it was written.
"""

from __future__ import annotations

from collections.abc import Iterator

_BEGINS = "Traceback (most recent call last):"
MAX_LINES = 500
"""The longest traceback that is held back; a longer one is printed."""


class Fold:
    """Takes the lines of several logs and gives (label, line). Not thread-safe: the caller holds a lock."""

    def __init__(self) -> None:
        self._open: dict[str, list[str]] = {}
        self._printed: dict[tuple[str, ...], str] = {}
        """Traceback -> the label of the log that had it first."""

    def line(self, label: str, line: str) -> Iterator[tuple[str, str]]:
        held = self._open.get(label)
        if held is None:
            if line.strip() != _BEGINS:
                yield label, line
                return
            self._open[label] = [line]
            return
        held.append(line)
        # A program may print the first line and never an end. Its log must not be held back for ever.
        if len(held) > MAX_LINES:
            yield from self._pass_on(label)
        elif _ends(line):
            yield from self._close(label)

    def rest(self) -> Iterator[tuple[str, str]]:
        """The tracebacks that are incomplete at the end of the logs."""
        for label in list(self._open):
            yield from self._pass_on(label)

    def _pass_on(self, label: str) -> Iterator[tuple[str, str]]:
        yield from ((label, line) for line in self._open.pop(label))

    def _close(self, label: str) -> Iterator[tuple[str, str]]:
        lines = tuple(self._open[label])
        first = self._printed.get(lines)
        self._printed.setdefault(lines, label)
        if first is None:
            yield from self._pass_on(label)
        else:
            del self._open[label]
            yield label, f"... the same traceback as of {first} ({len(lines)} lines): {lines[-1]}"


def _ends(line: str) -> bool:
    """True for the line of the exception: the first line that is not indented."""
    return bool(line.strip()) and not line[0].isspace()
