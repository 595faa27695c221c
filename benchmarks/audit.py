"""What was asked of the API server, by whom: counts out of its audit log (one JSON line a request). Reads only."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import orjson

POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: Metadata
"""

AUDIT_MEGABYTES = 100_000
"""The whole log of a run in one file: three rounds with the peer are more than the default of 100."""

Requests = Counter[tuple[str, str, str]]
"""(user, verb, resource or resource/subresource) -> requests."""


class AuditLog:
    """Reads one file. The API server begins another one at 100 MB unless `AUDIT_MEGABYTES` prevents it, and a position
    in one file has no meaning in the other."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._inode = 0

    def position(self) -> int:
        if not self._path.exists():
            return 0
        there = self._path.stat()
        self._must_be_the_same(there.st_ino)
        return there.st_size

    def since(self, position: int) -> Requests:
        found: Requests = Counter()
        with self._path.open("rb") as file:
            self._must_be_the_same(os.fstat(file.fileno()).st_ino)
            file.seek(position)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                event = orjson.loads(line)
                about = event.get("objectRef") or {}
                resource = about.get("resource", "-")
                if about.get("subresource"):
                    resource += f"/{about['subresource']}"
                found[event["user"]["username"], event["verb"], resource] += 1
        return found

    def _must_be_the_same(self, inode: int) -> None:
        if self._inode not in (0, inode):
            raise SystemExit(
                f"the API server has begun another {self._path.name} in {self._path.parent}: requests would be counted"
                " wrong; give it a larger --audit-log-maxsize"
            )
        self._inode = inode

    def quiet_since(
        self,
        position: int,
        counts: Callable[[str, str, str], bool],
        *,
        quiet_seconds: float = 0.7,
        deadline_seconds: float = 20,
    ) -> Requests:
        """The requests since `position`, once those that `counts` picks have stopped coming."""
        deadline = time.monotonic() + deadline_seconds
        before, changed = self.since(position), time.monotonic()
        while time.monotonic() < deadline and time.monotonic() - changed < quiet_seconds:
            time.sleep(0.1)
            now = self.since(position)
            if {k: n for k, n in now.items() if counts(*k)} != {k: n for k, n in before.items() if counts(*k)}:
                changed = time.monotonic()
            before = now
        return before
