"""What was asked of the API server, by whom: counts out of its audit log (one JSON line a request). Reads only."""

from __future__ import annotations

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

Requests = Counter[tuple[str, str, str]]
"""(user, verb, resource or resource/subresource) -> requests."""


class AuditLog:
    def __init__(self, path: Path) -> None:
        self._path = path

    def position(self) -> int:
        return self._path.stat().st_size if self._path.exists() else 0

    def since(self, position: int) -> Requests:
        found: Requests = Counter()
        with self._path.open("rb") as file:
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
