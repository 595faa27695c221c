"""A service's output in a file that stays bounded: the process writes to it directly, so that nothing is lost when the
supervisor dies; once it is too long, its content moves to `<name>.log.1` and the file is emptied in place.

What is written between copy and truncation is lost: a few lines of a debug log, against a pump for every byte.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

MAX_BYTES = 5_000_000


def open_log(path: Path) -> int:
    """A descriptor for appending, so that the writer goes on at the new end; the caller closes it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


def bound(path: Path, max_bytes: int = MAX_BYTES) -> bool:
    """Move the content away when there is too much. True when it did."""
    try:
        if path.stat().st_size <= max_bytes:
            return False
        shutil.copyfile(path, path.with_name(path.name + ".1"))
        os.truncate(path, 0)
    except OSError:
        return False
    return True


def tail(path: Path, lines: int = 10) -> list[str]:
    """The last lines, [] when there are none."""
    try:
        return path.read_bytes().decode("utf-8", "replace").splitlines()[-lines:]
    except OSError:
        return []
