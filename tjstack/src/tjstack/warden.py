"""Cleans up after a `tj up` that could not: waits for its parent's death, then ends every process of the stack.

`python -m tjstack.warden <state folder>`, with a pipe from the parent as standard input: the end of the pipe
is the parent's end, even by kill -9. It inherits the folder's lock, so what it ends is never a later stack's.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from tjstack import processes
from tjstack.paths import StatePaths

_GRACE_SECONDS = 6.0


def main(argv: list[str]) -> int:
    for signum in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(signum, signal.SIG_IGN)  # it ends last, and by itself
    sys.stdin.buffer.read()
    processes.end_all(StatePaths(Path(argv[1])), grace_seconds=_GRACE_SECONDS)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
