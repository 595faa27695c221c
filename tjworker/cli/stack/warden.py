"""Cleans up after a `tj up` that could not: waits for its parent's death, then ends every process of that run.

`python -m tjworker.cli.stack.warden <state folder> <run id>`, with a pipe from the parent as standard input: the end of
the pipe is the parent's end, even by kill -9. It first lets the services stop by themselves (the kernel has told them, see
`launch`), so that the local cluster can stop its pods in order, then kills what is left. It touches only processes that
carry this run's mark: a stack started meanwhile in the same folder is another run. Standard library only.
"""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

from tjworker.cli.stack import roster
from tjworker.cli.stack.paths import StatePaths

_GRACE_SECONDS = 6.0


def main(argv: list[str]) -> int:
    paths, run_id = StatePaths(Path(argv[1])), argv[2]
    for signum in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(signum, signal.SIG_IGN)  # it goes last, and by itself
    sys.stdin.buffer.read()
    deadline = time.monotonic() + _GRACE_SECONDS
    while time.monotonic() < deadline and roster.leftovers(paths, run_id):
        time.sleep(0.1)
    with paths.lock.open("a") as handle:
        # Pods belong to the folder: they are ours to end unless another stack has taken it.
        roster.sweep(paths, run_id, and_pods=roster.try_lock(handle), grace_seconds=1.0)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
