"""How pods and moments of an entry are stored: named pieces of bytes, which every store keeps in its own way. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tjworker.history.records import Entry, Json, Moment, Story, Summary, by_creation


def parts_of(entry: Entry, write: Callable[[Json], bytes]) -> dict[str, bytes]:
    """Name -> content, of each pod and moment. The same pod or moment has the same name."""
    pods = {f"pod/{uid}": write(pod) for uid, pod in entry.pods.items()}
    return pods | {f"at/{one.at}/{one.phase}": one.message.encode() for one in entry.moments}


def story_of(summary: Summary, job: bytes, parts: Mapping[str, bytes], read: Callable[[bytes], Json]) -> Story:
    """`read`: the opposite of `write` above; {} for what is none of it, which is left out."""
    pods, moments = [], []
    for name, data in parts.items():
        what, _, rest = name.partition("/")
        if what == "pod" and (pod := read(data)):
            pods.append(pod)
        elif what == "at":
            at, _, phase = rest.partition("/")
            moments.append(Moment(at, phase, data.decode(errors="replace")))
    return Story(summary, read(job), by_creation(pods), tuple(sorted(moments, key=lambda one: one.at)))
