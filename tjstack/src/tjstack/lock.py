"""A stack owns its state folder while it holds a lock in it. The kernel releases the lock when its holders die, even by
kill -9. The warden holds it as well as `tj up`, so that no other stack starts before the warden has cleaned up."""

from __future__ import annotations

import fcntl
import os
import time
from typing import IO

from tjstack import processes
from tjstack.paths import StatePaths
from tjworker.cli.errors import UserError

_WARDEN_SECONDS = 15.0


def take(paths: StatePaths) -> IO[str]:
    """The open lock file; closing it gives the folder back. Raises UserError when another stack runs in it."""
    try:
        paths.root.mkdir(mode=0o700, parents=True, exist_ok=True)  # it holds credentials
        paths.gitignore.write_text("*\n", encoding="utf-8")
        handle = paths.lock.open("a+", encoding="utf-8")
    except OSError as error:
        raise UserError(
            f"cannot use the state folder {paths.root}: {error.strerror}; choose another with --state-dir DIR"
        ) from None
    deadline = time.monotonic() + _WARDEN_SECONDS
    while not _try(handle):
        handle.seek(0)
        owner = handle.read().strip() or "unknown"
        # A dead owner's lock is its warden's, for a moment; a new owner writes its pid a moment after it has the lock.
        passing = owner == "unknown" or (owner.isdigit() and not processes.exists(int(owner)))
        if not passing or time.monotonic() > deadline:
            handle.close()
            raise UserError(
                f"a stack already runs in {paths.root} (pid {owner}); use it (export KUBECONFIG={paths.kubeconfig}), "
                f"stop it (kill {owner}), or start a second one with --state-dir DIR"
            )
        time.sleep(0.1)
    handle.truncate(0)
    handle.write(f"{os.getpid()}\n")
    handle.flush()
    return handle


def _try(handle: IO[str]) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
