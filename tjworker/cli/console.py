"""How everything that `tj` says gets out, and here alone (a test holds it): what came from a cluster was written by
others, and nothing of it may be obeyed by a terminal. The local stack has a `tjstack.reporter` instead.
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
