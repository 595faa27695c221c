"""How `tj up` and `tj demo` say what happens: one line each, with the time since the start, above a live table if there
is one. Thread-safe. What came from a cluster was written by others, and no terminal obeys it (`tjworker.cli.console`).
"""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import TYPE_CHECKING

from tjworker.base import printable
from tjworker.cli.console import LINES
from tjworker.cli.wrapping import wrap

if TYPE_CHECKING:
    from rich.console import Console


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
        """Report one event."""
        self.line(f"{self.elapsed_seconds():6.1f}s  {line}", style=style)

    def line(self, text: str = "", *, style: str = "") -> None:
        """Print text unchanged, without what a terminal would obey, and with lines broken between words."""
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
