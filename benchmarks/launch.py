"""The last step before a service's program: ask the kernel to end it when its parent dies, then become that program.

Run as a script: `python -I -S launch.py <parent pid> <program> <argument>...`. It replaces `preexec_fn`, which is
not safe in a process with threads. PR_SET_PDEATHSIG survives execve; it is not inherited by children, so pods are not
touched by it. SIGTERM rather than SIGKILL: the local cluster must still be able to stop its pods, and Celery its own
children. Linux only.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(argv: list[str]) -> int:
    parent, command = int(argv[1]), argv[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:  # it died before the request was made
        return 1
    try:
        os.execvp(command[0], command)  # noqa: S606  becoming the program is the point
    except OSError as error:
        sys.stderr.write(f"cannot start {command[0]}: {error.strerror}\n")
        return 127


if __name__ == "__main__":
    sys.exit(main(sys.argv))
