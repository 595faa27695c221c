"""Prints everything that `tj` prints; a test checks that no other module does. Text from a cluster is not trusted: a
terminal must not obey an escape sequence in it. The local stack has a `tjstack.reporter` instead.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from typing import TextIO

import click

from tjworker.base import printable
from tjworker.cli.wrapping import wrap

LINES = "\n\t"
NO_END = 100_000


def echo(
    text: str = "", *, head: str = "", paint: Callable[[str], str] | None = None, err: bool = False, nl: bool = True
) -> None:
    """Print `head`, which may be styled, then `text` without control characters, styled by `paint`. Styles are only for
    a terminal, and not if NO_COLOR is set (no-color.org)."""
    # Not `head`: its styles are escape sequences of `tj` itself.
    text = printable(text, keep=LINES)
    colour = False if os.environ.get("NO_COLOR") else None
    click.echo(head + (paint(text) if paint else text), err=err, nl=nl, color=colour)


def wrapped(text: str, *, indent: str = "", after: str | None = None) -> list[str]:
    """The text in lines no wider than the terminal; unwrapped in a file or pipe. `after`: the further indent of
    continued lines."""
    under = None if after is None else len(indent + after)
    return [part for line in text.split("\n") for part in wrap(indent + line, terminal_width(sys.stdout), under=under)]


def complain(text: str) -> None:
    """Print a message on stderr, in lines no wider than the terminal."""
    width = terminal_width(sys.stderr)
    echo("\n".join(part for line in text.split("\n") for part in wrap(line, width)), err=True)


def terminal_width(stream: TextIO) -> int:
    """Columns; NO_END for a file or a pipe, where nothing is wrapped."""
    return max(40, shutil.get_terminal_size().columns) if stream.isatty() else NO_END
