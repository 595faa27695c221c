"""How everything that `tj` says gets out, and here alone (a test holds it): what came from a cluster was written by
others, and nothing of it may be obeyed by a terminal.

`echo` for the commands that print and end. A `Reporter` for `tj up` and `tj demo`: one line for each thing that
happens, with the time since the start, above a live table if there is one; thread-safe.
"""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from tjworker.base import printable

if TYPE_CHECKING:
    from rich.console import Console


LINES = "\n\t"


def echo(
    text: str = "", *, head: str = "", paint: Callable[[str], str] | None = None, err: bool = False, nl: bool = True
) -> None:
    """`head`, our own, may be styled and comes first; `paint` styles words of a text that nothing can be hidden in any
    more. Styles reach a terminal alone, and none where NO_COLOR is set (no-color.org)."""
    text = printable(text, keep=LINES)
    colour = False if os.environ.get("NO_COLOR") else None
    click.echo(head + (paint(text) if paint else text), err=err, nl=nl, color=colour)


def wrapped(text: str, *, indent: str = "", after: str = "") -> list[str]:
    """As lines no wider than the terminal; as one where nobody looks. `after`: further indent of what follows."""
    import shutil
    import textwrap

    width = max(40, shutil.get_terminal_size().columns) if sys.stdout.isatty() else 10_000
    return textwrap.wrap(text, width, initial_indent=indent, subsequent_indent=indent + after)


def complain(text: str) -> None:
    """A message on stderr, in lines no wider than a terminal that shows it. What stands in backticks stays in one line,
    to be copied."""
    import shutil

    if sys.stderr.isatty():
        width = max(40, shutil.get_terminal_size().columns)
        text = "\n".join(part for line in text.split("\n") for part in _folded(line, width))
    echo(text, err=True)


_COMMAND = re.compile("`[^`]+`")
_KEPT_BLANK = "\0"


def _folded(line: str, width: int) -> list[str]:
    """The lines after the first are indented further."""
    import textwrap

    indent = " " * (len(line) - len(line.lstrip()) + 4)
    kept = _COMMAND.sub(lambda found: found[0].replace(" ", _KEPT_BLANK), line)
    parts = textwrap.wrap(kept, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return [part.replace(_KEPT_BLANK, " ") for part in parts] or [""]


class Reporter:
    """`plain`: no colours, no table; each line is flushed, so that a pipe or a CI log shows it at once."""

    def __init__(self, *, plain: bool) -> None:
        self.plain = plain
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self.rich: Console | None = None
        """The console that a live table must share, else lines and table would overwrite each other."""
        if not plain:
            from rich.console import Console

            self.rich = Console(highlight=False)

    def elapsed_seconds(self) -> float:
        return time.monotonic() - self._began

    def say(self, line: str, *, style: str = "") -> None:
        """One thing that happened."""
        self.line(f"{self.elapsed_seconds():6.1f}s  {line}", style=style)

    def line(self, text: str = "", *, style: str = "") -> None:
        """Text as it stands, but for what a terminal would obey."""
        text = printable(text, keep=LINES)
        with self._lock:
            if self.rich is not None:
                self.rich.print(text, style=style or None, markup=False, soft_wrap=True)
                return
            try:
                sys.stdout.write(text + "\n")
                sys.stdout.flush()
            except BrokenPipeError:
                pass  # the reader has gone; the stack must still be stopped in order


def wants_plain(asked: bool) -> bool:
    """A table needs a terminal that can move its cursor."""
    return asked or not sys.stdout.isatty() or os.environ.get("TERM", "dumb") == "dumb"
