"""What `tj up` and `tj demo` say: one line a thing, with the time since the start in front, above a live table when there is
one. Thread-safe.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


class Reporter:
    """`plain`: no colours, no table; each line is flushed, so that a pipe or a CI log shows it at once."""

    def __init__(self, *, plain: bool) -> None:
        self.plain = plain
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._rich: Console | None = None
        if not plain:
            from rich.console import Console

            self._rich = Console(highlight=False)

    @property
    def rich(self) -> Console:
        """The console that a live table must share, else lines and table would overwrite each other."""
        if self._rich is None:
            raise RuntimeError("plain output has no rich console")
        return self._rich

    def elapsed_seconds(self) -> float:
        return time.monotonic() - self._began

    def say(self, line: str, *, style: str = "") -> None:
        """One thing that happened."""
        self.line(f"{self.elapsed_seconds():6.1f}s  {line}", style=style)

    def line(self, text: str = "", *, style: str = "") -> None:
        """Text as it stands."""
        with self._lock:
            if self._rich is not None:
                self._rich.print(text, style=style or None, markup=False, soft_wrap=True)
                return
            try:
                sys.stdout.write(text + "\n")
                sys.stdout.flush()
            except BrokenPipeError:
                pass  # nobody reads any more; the stack must still be stopped in order


def wants_plain(asked: bool) -> bool:
    """A table needs a terminal that can move its cursor."""
    import os

    return asked or not sys.stdout.isatty() or os.environ.get("TERM", "dumb") == "dumb"
