"""The Events of a job and of the objects that it owns, oldest first. Both of Kubernetes' forms of an Event become one
`Happening`. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from tjworker.api import naming
from tjworker.base import Json
from tjworker.cli import rows

_SECONDS = len("2026-01-01T00:00:00")
"""`eventTime` has microseconds, the other times do not."""


@dataclass(frozen=True, slots=True)
class Happening:
    """One Event object."""

    first: str
    last: str
    """RFC 3339."""
    count: int
    type: str
    reason: str
    object: str
    """The object, as kubectl prints it: `pod/digits-trainer-0`."""
    message: str
    uid: str = ""
    """The object's UID: successive pods have the same name."""


def of_job(events: Iterable[Json], job: Json, roles: Iterable[str]) -> list[Happening]:
    """The events, by time, of this job and of the pods, services and owners of its roles since the job was created. An
    object that is gone is known only by its name, so that an object of another job can count if it is younger than this
    job and has such a name."""
    metadata = job["metadata"]
    name, uid, made = str(metadata["name"]), metadata["uid"], rows.parse_time(metadata.get("creationTimestamp"))
    owned = _names_of(name, roles).fullmatch
    found: list[tuple[int, Happening]] = []
    for event in events:
        about = event.get("involvedObject") or {}
        if about.get("uid") != uid and not (about.get("kind") != job.get("kind") and owned(str(about.get("name", "")))):
            continue
        happening = _happening(event, about)
        last = rows.parse_time(happening.last)
        # Events outlive their object by up to an hour: an earlier job of this name has left its own.
        if made is None or last is None or last >= made:
            found.append((_version(event), happening))
    return [happening for _, happening in sorted(found, key=lambda f: (f[1].last[:_SECONDS], f[0]))]


def _version(event: Json) -> int:
    """The resourceVersion, which orders events within a second."""
    version = str((event.get("metadata") or {}).get("resourceVersion", ""))
    return int(version) if version.isdigit() else 0


def _names_of(job: str, roles: Iterable[str]) -> re.Pattern[str]:
    """Matches the names of the job's children: `<job>-<role>`, with an index or a controller's random letters."""
    of_roles = "|".join(sorted({re.escape(naming.owner_name(job, role).lower()) for role in roles})) or "$^"
    return re.compile(rf"(?:{of_roles})(?:-[a-z0-9]+)*", re.IGNORECASE)


def _happening(event: Json, about: Json) -> Happening:
    """An Event as a Happening. events.k8s.io has `series` and `eventTime`, core/v1 has `count` and `lastTimestamp`."""
    # Both are read through core/v1, where an Event of the other API keeps its own fields and has null for the old
    # times.
    series = event.get("series") or {}
    made = (event.get("metadata") or {}).get("creationTimestamp")
    first = event.get("firstTimestamp") or event.get("eventTime") or made or ""
    last = series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime") or first
    kind = str(about.get("kind", "")).lower()
    return Happening(
        first=str(first),
        last=str(last),
        count=int(series.get("count") or event.get("count") or 1),
        type=str(event.get("type") or "Normal"),
        reason=str(event.get("reason") or ""),
        object=f"{kind}/{about.get('name', '')}",
        message=str(event.get("message") or "").strip(),
        uid=str(about.get("uid") or ""),
    )


HEADER = ("LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE")


def row(happening: Happening, now: datetime) -> tuple[str, ...]:
    seen = rows.age(happening.last, now)
    if happening.count > 1:
        seen += f" (x{happening.count} over {rows.age(happening.first, now)})"
    return seen, happening.type, happening.reason, happening.object, " ".join(happening.message.split())
