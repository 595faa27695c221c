"""Counts requests in the API server's audit log: which user sent how many of what. Reads a file; changes nothing.

A line is there when the answer has been sent (a watch: when it has begun), so a count that follows an answer holds it.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Requests = Counter[tuple[str, str]]
"""(verb, resource or resource/subresource) -> how often. Verbs as RBAC names them: get, list, watch, create, patch
..."""


class AuditLog:
    """The audit log of one API server. Each count reads only the lines since the last: a log grows by some MB a minute,
    and a caller that waits for silence counts again and again. For one thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0
        """The end of the last line that was counted."""
        self._counts: defaultdict[tuple[str, str], Requests] = defaultdict(Counter)
        """(user, namespace) -> its requests; those about no namespace under ''."""

    def lines(self) -> Iterator[dict[str, Any]]:
        """Yields every event of the log."""
        return (event for event, _ in self._read_events(0))

    def count(self, user: str = "", *, namespace: str = "") -> Requests:
        """Counts the requests of one user about one namespace ('' for all)."""
        for event, end in self._read_events(self._at):
            self._count_event(event)
            self._at = end
        found: Requests = Counter()
        for (who, where), requests in self._counts.items():
            if user in ("", who) and namespace in ("", where):
                found.update(requests)
        return found

    def _read_events(self, at: int) -> Iterator[tuple[dict[str, Any], int]]:
        """Yields each event from that offset on, with the offset of its end. Skips a last line that is half written."""
        try:
            with self._path.open("rb") as file:
                file.seek(at)
                for line in file:
                    if not line.endswith(b"\n"):
                        return
                    at += len(line)
                    yield json.loads(line), at
        except FileNotFoundError:
            return

    def _count_event(self, event: dict[str, Any]) -> None:
        watch = event.get("verb") == "watch"
        if event.get("stage") != ("ResponseStarted" if watch else "ResponseComplete"):
            return
        if about := event.get("objectRef"):
            parts = (about.get("resource", ""), about.get("subresource", ""))
            where = (event["user"].get("username", ""), about.get("namespace", ""))
            self._counts[where][event["verb"], "/".join(part for part in parts if part)] += 1
