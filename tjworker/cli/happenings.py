"""The Events of a job and of what it owns, oldest first, in one shape for all of Kubernetes' ways to write them. Pure:
objects in, events out.
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
"""`eventTime` has microseconds, the other times have not."""


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
    """As kubectl writes it: `pod/digits-trainer-0`."""
    message: str
    uid: str = ""
    """Of that object: pods of one name come one after another."""


def of_job(events: Iterable[Json], job: Json, roles: Iterable[str]) -> list[Happening]:
    """Those of this job and of the pods, services and owners of its roles since it was made, by time. An object that is
    gone is known by its name alone, so one of another job of this very name counts when it is younger than this one."""
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
        if made is None or last is None or last >= made:
            found.append((_version(event), happening))
    return [happening for _, happening in sorted(found, key=lambda f: (f[1].last[:_SECONDS], f[0]))]


def _version(event: Json) -> int:
    """Later writes have higher ones: the order within a second."""
    version = str((event.get("metadata") or {}).get("resourceVersion", ""))
    return int(version) if version.isdigit() else 0


def _names_of(job: str, roles: Iterable[str]) -> re.Pattern[str]:
    """The names of the job's children: `<job>-<role>`, with an index, or a controller's letters."""
    of_roles = "|".join(sorted({re.escape(naming.owner_name(job, role).lower()) for role in roles})) or "$^"
    return re.compile(rf"(?:{of_roles})(?:-[a-z0-9]+)*", re.IGNORECASE)


def _happening(event: Json, about: Json) -> Happening:
    """`series` and `eventTime` are those of events.k8s.io; `count` and `lastTimestamp` those of core/v1."""
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
