"""How everything that `tj` says gets out, and here alone (a test holds it): what came from a cluster was written by
others, and nothing of it may be obeyed by a terminal.

`echo` for the commands that print and end. A `Reporter` for `tj up` and `tj demo`: one line for each thing that
happens, with the time since the start, above a live table if there is one; thread-safe.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

import click

from tjworker.base import printable
from tjworker.cli.wrapping import wrap

if TYPE_CHECKING:
    from rich.console import Console


LINES = "\n\t"
NO_END = 100_000


def echo(
    text: str = "", *, head: str = "", paint: Callable[[str], str] | None = None, err: bool = False, nl: bool = True
) -> None:
    """`head`, our own, may be styled and comes first; `paint` styles words of a text that nothing can be hidden in any
    more. Styles reach a terminal alone, and none where NO_COLOR is set (no-color.org)."""
    text = printable(text, keep=LINES)
    colour = False if os.environ.get("NO_COLOR") else None
    click.echo(head + (paint(text) if paint else text), err=err, nl=nl, color=colour)


def wrapped(text: str, *, indent: str = "", after: str | None = None) -> list[str]:
    """As lines no wider than the terminal; as they are where nobody looks. `after`: further indent of what follows."""
    under = None if after is None else len(indent + after)
    return [part for line in text.split("\n") for part in wrap(indent + line, terminal_width(sys.stdout), under=under)]


def complain(text: str) -> None:
    """A message on stderr, in lines no wider than a terminal that shows it."""
    width = terminal_width(sys.stderr)
    echo("\n".join(part for line in text.split("\n") for part in wrap(line, width)), err=True)


def terminal_width(stream: TextIO) -> int:
    """Without end for a file or a program: nothing is wrapped there."""
    return max(40, shutil.get_terminal_size().columns) if stream.isatty() else NO_END


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
        """Text as it stands, but for what a terminal would obey and for the lines that it would break within a word."""
        text = printable(text, keep=LINES)
        with self._lock:
            if self.rich is not None:
                text = "\n".join(part for line in text.split("\n") for part in wrap(line, self.rich.width))
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
