"""Breaks lines between words to fit a width; continued lines begin below the last column of a table row. Pure.

Every command that prints sentences wraps them here. Names of pods, paths, addresses and text in backticks are not
broken, so that they can be copied: a longer one than the width has a line of its own.
"""

from __future__ import annotations

import re
import textwrap

_COLUMNS = re.compile(r" *(?:\S+(?: \S+)* {2,})+(?=\S)")
_COMMAND = re.compile(r"`[^`]+`")
_KEPT_BLANK = "\0"
_WIDEST_LABEL = 0.65
"""The widest label below which text continues, as a part of the width: beyond it the column would be too narrow."""


def wrap(line: str, width: int, *, under: int | None = None) -> list[str]:
    """The lines. `under`: the column in which continued lines begin; by default below the line's last column, or two
    further in than the line."""
    if len(line) <= width:
        return [line]
    start = len(line) - len(line.lstrip(" "))
    columns = _COLUMNS.match(line)
    if under is None:
        under = columns.end() if columns and columns.end() <= width * _WIDEST_LABEL else start + 2
    # textwrap breaks at any blank, so the blanks of a command are hidden from it.
    text = _COMMAND.sub(lambda found: found[0].replace(" ", _KEPT_BLANK), line)
    # A list without blanks, such as a setting's value, breaks behind a comma; in a command that would be two arguments.
    text = " ".join(w.replace(",", ", ") if len(w) > width - under and "`" not in w else w for w in text.split(" "))
    parts = textwrap.wrap(text, width, subsequent_indent=" " * under, break_long_words=False, break_on_hyphens=False)
    return [part.replace(_KEPT_BLANK, " ") for part in parts]
