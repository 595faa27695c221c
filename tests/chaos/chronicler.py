"""The chronicle of a real API server, from watches of its resources, for the model (`tests/model`) to judge.

Watches are independent of each other and may be behind; the resourceVersion puts their events in order, which etcd
counts for all of them together. A write was no later than it was seen, nor than any later write was. What was written
just before the API server died may be seen as one write.

Who asked for a write does not show. What a job kind controls was made by the operator; of everything else the author is
unknown, and what only the operator may not do is not judged.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import cast

from tests.chaos.watching import Json, Watch
from tests.model.chronicle import Author, Chronicle
from tests.model.chronicle import Kind as WriteKind
from tjworker.api import kinds
from tjworker.api.kinds import KINDS
from tjworker.api.resources import BATCH_JOBS, NODES, PODS, REPLICASETS, SERVICES
from tjworker.base import GroupResource
from tjworker.kube.resources import RESOURCES

WATCHED = (*KINDS, PODS, SERVICES, REPLICASETS, BATCH_JOBS, NODES)


@dataclass(frozen=True, slots=True)
class Seen:
    version: int
    at: float
    kind: WriteKind
    resource: GroupResource
    obj: Json


class Chronicler:
    """Of the namespaces that begin so, and of all nodes."""

    def __init__(self, kubeconfig: Path, prefix: str) -> None:
        self._prefix = prefix
        self._seen: list[Seen] = []
        self._mutex = threading.Lock()
        self._watches = [Watch(kubeconfig, resource, self._taker(resource)) for resource in WATCHED]

    def __enter__(self) -> Chronicler:
        for watch in self._watches:
            watch.start()
        return self

    def __exit__(self, *_: object) -> None:
        for watch in self._watches:
            watch.stop()

    @property
    def gaps(self) -> int:
        return sum(watch.gaps for watch in self._watches)

    def chronicle(self) -> Chronicle:
        with self._mutex:
            return chronicle_of(self._seen)

    def _taker(self, resource: GroupResource):  # type: ignore[no-untyped-def]
        def take(kind: str, obj: Json) -> None:
            meta = obj["metadata"]
            if resource == NODES or meta["namespace"].startswith(self._prefix):
                version = int(meta["resourceVersion"])
                with self._mutex:
                    self._seen.append(Seen(version, time.time(), cast(WriteKind, kind), resource, obj))

        return take


def chronicle_of(seen: list[Seen]) -> Chronicle:
    """In the order in which it was written, with the times at which it must have been at the latest."""
    ordered = sorted(seen, key=lambda one: one.version)
    times = [one.at for one in ordered]
    for number in range(len(times) - 2, -1, -1):
        times[number] = min(times[number], times[number + 1])
    assert all(first <= second for first, second in pairwise(times))
    chronicle, newest = Chronicle(), dict[str, Json]()
    for at, one in zip(times, ordered, strict=True):
        row = RESOURCES[one.resource]
        # The items of a list have neither kind nor apiVersion.
        obj = {"kind": KINDS[one.resource].kind, **one.obj} if one.resource in KINDS else one.obj
        uid = obj["metadata"]["uid"]
        bucket = f"{row.group}/{row.plural}" if row.group else row.plural
        chronicle.author = _author(one.kind, obj)
        chronicle.note(at, one.kind, bucket, obj["metadata"]["name"], obj, newest.get(uid))
        newest[uid] = obj
    return chronicle


def _author(kind: WriteKind, obj: Json) -> Author:
    owners = (one for one in obj["metadata"].get("ownerReferences") or () if one.get("controller"))
    mine = any((one["apiVersion"].partition("/")[0], one["kind"]) in kinds.OWNERS for one in owners)
    return "operator" if kind == "ADDED" and mine else "unknown"
