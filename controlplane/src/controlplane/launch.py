"""The last step before a program: ask the kernel to end it when its parent dies, then become it.

Run as a script: `python -I -S launch.py <parent pid> <program> <argument>...`. It replaces `preexec_fn`, which is
not safe in a process with threads. The programs have no children of their own, and etcd loses nothing by SIGKILL, so
that is the signal. The kernel watches the *thread* that started the program: start a control plane in a thread that
lives as long.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import NoReturn

_PR_SET_PDEATHSIG = 1


def main(argv: list[str]) -> NoReturn:
    parent, command = int(argv[1]), argv[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it died before the request was made: no signal would ever come
        sys.exit(1)
    os.execv(command[0], command)  # noqa: S606  becoming the program is the point


if __name__ == "__main__":
    main(sys.argv)
