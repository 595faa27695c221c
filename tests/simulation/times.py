"""Times in a status that cannot be, seen at each write of one: before the job was, in the future, moved although
nothing has moved, out of order. What is later than it should be shows at the end of a life (`oracles.judge`)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from tjworker.api.timefmt import from_rfc3339

Json = dict[str, Any]
_ONCE = ("startTime", "startRunningTime", "completionTime")
_IN_ORDER = ("startTime", "startRunningTime", "completionTime", "lastReconcileTime")


def untimely(before: Json, after: Json, created: str, now: float) -> Iterator[str]:
    """`before`, `after`: the status as it was and as it is written, at `now`, of a job that was created then."""
    earliest, latest = int(from_rfc3339(created) or 0), int(now)
    for path, text in _times(after):
        seconds = from_rfc3339(text)
        if seconds is None or not earliest <= seconds <= latest:
            yield f"{path} is {text}: of a job of {created}, written {now - (seconds or 0):.0f} s after it"
    for name in _ONCE:
        if name in before and after.get(name) != before[name]:
            yield f"{name} was {before[name]} and is {after.get(name, 'gone')}"
    stamps = [(name, after[name]) for name in _IN_ORDER if name in after]
    for (name, first), (later, second) in pairwise(stamps):
        if first > second:
            yield f"{name} {first} is later than {later} {second}"
    yield from _moved_alone(before, after)


def _times(status: Json) -> Iterator[tuple[str, str]]:
    yield from ((name, value) for name, value in status.items() if name.endswith("Time"))
    yield from ((f"missingNodes.{node}", since) for node, since in status.get("missingNodes", {}).items())
    for name in ("failures", "scaleRecords"):
        yield from ((f"{name}[{n}].time", entry["time"]) for n, entry in enumerate(status.get(name, ())))
    yield from ((f"{c['type']}.lastTransitionTime", c["lastTransitionTime"]) for c in status.get("conditions", ()))
    if "ending" in status:
        yield "ending.time", status["ending"]["time"]


def _moved_alone(before: Json, after: Json) -> Iterator[str]:
    """A condition's lastTransitionTime moves with its status and never without; the end's time never moves."""
    known = {c["type"]: c for c in before.get("conditions", ())}
    for new in after.get("conditions", ()):
        old = known.get(new["type"])
        if old is None:
            continue
        was, now_is = old["lastTransitionTime"], new["lastTransitionTime"]
        if old["status"] == new["status"] and was != now_is:
            yield f"{new['type']} is {new['status']} as before, and its lastTransitionTime moved: {was}, {now_is}"
        elif old["status"] != new["status"] and now_is < before.get("lastReconcileTime", was):
            yield f"{new['type']} became {new['status']} at {now_is}, before the status of which it was not"
    if "ending" in before and "ending" in after and before["ending"]["time"] != after["ending"]["time"]:
        yield f"ending.time was {before['ending']['time']} and is {after['ending']['time']}"
