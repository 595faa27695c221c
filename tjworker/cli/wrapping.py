"""Lines that fit a width, broken between words: what follows stands below the column that the line ends with. Pure.

Every command that prints sentences wraps them here. Names of pods, paths, addresses and what stands in backticks stay
whole, so that they can be copied; one that is wider than the width stands in a line of its own.
"""

from __future__ import annotations

import re
import textwrap

_COLUMNS = re.compile(r" *(?:\S+(?: \S+)* {2,})+(?=\S)")
_COMMAND = re.compile(r"`[^`]+`")
_KEPT_BLANK = "\0"
_WIDEST_LABEL = 0.65
"""Of the width: below a wider label there would be too little room."""


def wrap(line: str, width: int, *, under: int | None = None) -> list[str]:
    """`under`: in which column what follows begins; without it below the last column of the line, or two further in."""
    if len(line) <= width:
        return [line]
    start = len(line) - len(line.lstrip(" "))
    columns = _COLUMNS.match(line)
    if under is None:
        under = columns.end() if columns and columns.end() <= width * _WIDEST_LABEL else start + 2
    text = _COMMAND.sub(lambda found: found[0].replace(" ", _KEPT_BLANK), line)
    # A list without blanks, as in a setting, is broken behind its commas; in a command that would be two arguments.
    text = " ".join(w.replace(",", ", ") if len(w) > width - under and "`" not in w else w for w in text.split(" "))
    parts = textwrap.wrap(text, width, subsequent_indent=" " * under, break_long_words=False, break_on_hyphens=False)
    return [part.replace(_KEPT_BLANK, " ") for part in parts]
