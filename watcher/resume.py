"""Whether a watcher may resume the watches of the last one, and from which versions. PURE, but for the fingerprint of
this code.

Redis keeps with the projection how far each watch had got. A new watcher resumes each watch from there while it lists,
if the projection is whole (a writer had it synced), is of a cluster that has a name, and was made by this very code.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable

from tjworker.base import GroupResource
from tjworker.kube.resources import RESOURCES
from tjworker.scope import Scope
from tjworker.store.projection import Checkpoint
from watcher.progress import is_counting

_MAKERS = ("watcher", "tjworker.api", "tjworker.kube", "tjworker.store")
"""Packages that say what stands in the projection and how."""


@dataclass(frozen=True, slots=True)
class Start:
    """`positions`: source -> resourceVersion from which its watch may be resumed; a source that needs a list has
    none."""

    cluster: str = ""
    """The one that the projection is of; elsewhere the positions mean nothing."""
    positions: Mapping[str, int] = field(default_factory=dict)


FROM_NOTHING = Start()


def start_from(checkpoint: Checkpoint, sources: Collection[str], form: str) -> Start:
    """Where a watcher whose records have this form may resume."""
    if not (checkpoint.synced and checkpoint.cluster and form and checkpoint.form == form):
        return FROM_NOTHING
    # A source without progress is of a kind that was not installed. Those outside of namespaces (nodes) are few and
    # change with every heartbeat; the store keeps no order of theirs, so that only one of two may write them. Sums of
    # requests need every pod.
    return Start(
        checkpoint.cluster,
        {
            source: checkpoint.progress[source]
            for source in sources
            if RESOURCES[GroupResource(source.partition("/")[0])].namespaced
            and not is_counting(source)
            and checkpoint.progress.get(source)
        },
    )


@cache
def this_form(scope: Scope = Scope()) -> str:  # noqa: B008  frozen
    """A fingerprint of the code that writes the projection, so that no number has to be raised by hand: another
    version lists. '' where the sources cannot be read; then nothing is trusted. And of the namespaces that it serves: a
    watch that is resumed would show of a namespace that is new only what changes there."""
    code = fingerprint([files(package) for package in _MAKERS])
    if not code or scope == Scope():
        return code
    return sha256(f"{code} {scope}".encode()).hexdigest()[:16]


def fingerprint(folders: Iterable[Traversable]) -> str:
    """Of the sources in them: '' when one of them has none, as where only compiled code is installed."""
    digest = sha256()
    for folder in folders:
        sources = sorted(_sources(folder, folder.name))
        if not sources:
            return ""
        for name, text in sources:
            digest.update(f"{name}\0{len(text)}\0".encode() + text)
    return digest.hexdigest()[:16]


def _sources(folder: Traversable, path: str) -> Iterator[tuple[str, bytes]]:
    for entry in folder.iterdir():
        name = f"{path}/{entry.name}"
        if entry.is_dir():
            yield from _sources(entry, name)
        elif name.endswith((".py", ".lua")):
            yield name, entry.read_bytes()
