"""How the report of a failed test reads."""

from __future__ import annotations

_COMPARED = "\nassert "


def comparison_first(message: str) -> str:
    """The words of a failed `assert`, with what was compared before the test's own message. pytest writes it behind,
    and a message may hold the logs of a whole stack: reports that are cut would lose it."""
    words, mark, compared = message.rpartition(_COMPARED)
    return f"{mark.lstrip()}{compared}\n{words}" if mark else message
