"""The form in which every store keeps the pods and moments of a job: named parts of bytes. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping

from tjworker.base import Json
from tjworker.history.records import Entry, Moment, Story, Summary, by_creation
from tjworker.history.store import MOST_MOMENTS, MOST_PODS

ROOMS = {"pod": MOST_PODS, "at": MOST_MOMENTS}
LEAST_ROOM = min(ROOMS.values())


def parts_of(entry: Entry, write: Callable[[Json], bytes]) -> dict[str, bytes]:
    """Name -> content of each pod and moment. A pod or moment keeps its name, so writing it again replaces it."""
    pods = {f"pod/{uid}": write(pod) for uid, pod in entry.pods.items()}
    return pods | {f"at/{moment.at}/{moment.phase}": moment.message.encode() for moment in entry.moments}


def fitting(parts: Mapping[str, bytes], known: Collection[str]) -> dict[str, bytes]:
    """The parts that replace one of `known`, and as many others of each sort as there is room for next to `known`."""
    taken = Counter(_sort(name) for name in known)
    fit = {}
    for name, data in parts.items():
        if name not in known:
            if taken[_sort(name)] >= ROOMS[_sort(name)]:
                continue
            taken[_sort(name)] += 1
        fit[name] = data
    return fit


def _sort(name: str) -> str:
    return name.partition("/")[0]


def story_of(summary: Summary, job: bytes, parts: Mapping[str, bytes], read: Callable[[bytes], Json]) -> Story:
    """The story of stored parts. `read`: the inverse of `write` in `parts_of`; {} for invalid data, which is left
    out."""
    pods, moments = [], []
    for name, data in parts.items():
        sort, _, rest = name.partition("/")
        if sort == "pod" and (pod := read(data)):
            pods.append(pod)
        elif sort == "at":
            at, _, phase = rest.partition("/")
            moments.append(Moment(at, phase, data.decode(errors="replace")))
    return Story(summary, read(job), by_creation(pods), tuple(sorted(moments, key=lambda moment: moment.at)))
