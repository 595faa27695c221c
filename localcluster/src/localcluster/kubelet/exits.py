"""Notifies the kubelet when a process has ended or a container runner has reported, without polling: one thread sleeps
in epoll.

Calls back with the caller's key, from its own thread. On a system without pidfds the caller has to poll
(`can_watch_processes` is false). Closing twice is harmless.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import threading
from collections import deque
from collections.abc import Callable


class Exits:
    def __init__(self, notify: Callable[[str], None]) -> None:
        self.can_watch_processes = hasattr(os, "pidfd_open")
        self._notify = notify
        self._wanted: deque[tuple[int, str, bool]] = deque()
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="exits", daemon=True)
        self._thread.start()

    def watch_process(self, pid: int, key: str) -> None:
        """Notifies with `key` once, when the process has ended (at once when there is none)."""
        if not self.can_watch_processes:
            return
        try:
            fd = os.pidfd_open(pid)
        except OSError:
            self._notify(key)
            return
        self._add(fd, key, True)

    def watch_end(self, fd: int, key: str) -> None:
        """Notifies with `key` once, when this pipe has ended. The descriptor stays the caller's."""
        self._add(os.dup(fd), key, True)

    def _add(self, fd: int, key: str, owned: bool) -> None:
        if self._closed:
            os.close(fd)
            return
        self._wanted.append((fd, key, owned))
        with contextlib.suppress(OSError):
            os.write(self._wake_write, b".")

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            with contextlib.suppress(OSError):
                os.write(self._wake_write, b".")
            self._thread.join(timeout=2.0)

    def _run(self) -> None:
        selector = selectors.DefaultSelector()
        selector.register(self._wake_read, selectors.EVENT_READ, "")
        while not self._closed:
            for ready, _ in selector.select():
                if ready.data == "":
                    with contextlib.suppress(BlockingIOError):
                        os.read(ready.fd, 4096)
                    continue
                selector.unregister(ready.fd)
                os.close(ready.fd)
                self._notify(ready.data)
            while self._wanted:
                fd, key, _ = self._wanted.popleft()
                selector.register(fd, selectors.EVENT_READ, key)
        for key_ in list(selector.get_map().values()):
            if key_.data != "":
                os.close(key_.fd)
        selector.close()
        os.close(self._wake_read)
        os.close(self._wake_write)
