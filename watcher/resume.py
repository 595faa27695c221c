"""Decides whether a watcher may resume the watches of the last one, and from which versions. PURE, except for the
fingerprint of this code.

Redis keeps how far each watch has come. A new watcher resumes each watch from there while it lists, if the projection
is complete (a writer marked it synced), belongs to a cluster with a known id, and was written by the same code.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable

from tjworker.kube.resources import RESOURCES
from tjworker.scope import Scope
from tjworker.store.projection import Checkpoint
from watcher.progress import is_counting, resource_of

_MAKERS = ("watcher", "tjworker.api", "tjworker.kube", "tjworker.store")
"""Packages that determine the contents and the form of the projection."""


@dataclass(frozen=True, slots=True)
class Start:
    """`positions`: source -> resourceVersion from which its watch may be resumed. A source that needs a list is
    missing."""

    cluster: str = ""
    """Cluster of the projection. In another cluster the positions mean nothing."""
    positions: Mapping[str, int] = field(default_factory=dict)


FROM_NOTHING = Start()


def start_from(checkpoint: Checkpoint, sources: Collection[str], form: str) -> Start:
    """From where a watcher may resume whose records have this form."""
    if not (checkpoint.synced and checkpoint.cluster and form and checkpoint.form == form):
        return FROM_NOTHING
    # A source without progress is a kind that was not installed. Cluster-wide resources (nodes) are few and change with
    # every heartbeat; the store does not order their changes, so a list and a watch must not write them concurrently.
    # Sums of requests need every pod.
    return Start(
        checkpoint.cluster,
        {
            source: checkpoint.progress[source]
            for source in sources
            if _may_resume(source) and checkpoint.progress.get(source)
        },
    )


def _may_resume(source: str) -> bool:
    row = RESOURCES[resource_of(source)]
    return (row.namespaced or row.is_named) and not is_counting(source)


@cache
def this_form(scope: Scope = Scope()) -> str:  # noqa: B008  frozen
    """A fingerprint of the code that writes the projection and of the namespaces that it serves. '' if the sources
    cannot be read: then no projection is trusted."""
    # Of the code, so that no version number must be raised by hand: another version lists. Of the namespaces, because
    # a resumed watch would show only changes of a new namespace, not its objects.
    code = fingerprint([files(package) for package in _MAKERS])
    if not code or scope == Scope():
        return code
    return sha256(f"{code} {scope}".encode()).hexdigest()[:16]


def fingerprint(folders: Iterable[Traversable]) -> str:
    """A digest of the sources in these folders; '' if one has none, for instance if only compiled code is installed."""
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
