"""Counts requests in the API server's audit log: which user sent how many of what. Reads a file; changes nothing.

A line is there when the answer has been sent (a watch: when it has begun), so a count that follows an answer holds it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

Requests = Counter[tuple[str, str]]
"""(verb, resource or resource/subresource) -> how often. Verbs as RBAC names them: get, list, watch, create, patch
..."""


def lines(log: Path) -> Iterator[dict[str, Any]]:
    """Whole lines only: the last one may be half written."""
    try:
        with log.open("rb") as file:
            for line in file:
                if line.endswith(b"\n"):
                    yield json.loads(line)
    except FileNotFoundError:
        return


def count(events: Iterable[dict[str, Any]], user: str = "", *, namespace: str = "", since: str = "") -> Requests:
    """Of one user and about one namespace ('' for all), received at or after `since` (RFC 3339, UTC, with microseconds,
    as the log writes it)."""
    found: Requests = Counter()
    for event in events:
        watch = event.get("verb") == "watch"
        if event.get("stage") != ("ResponseStarted" if watch else "ResponseComplete"):
            continue
        if (user and event["user"].get("username") != user) or event.get("requestReceivedTimestamp", "") < since:
            continue
        about = event.get("objectRef")
        if about and namespace in ("", about.get("namespace", "")):
            parts = (about.get("resource", ""), about.get("subresource", ""))
            found[event["verb"], "/".join(part for part in parts if part)] += 1
    return found
