"""What the pods of each node ask for, everybody's pods: kept up to date change by change, never by counting again. PURE.

A book has an entry for each pod that has not finished, other people's too, and per node the sum of its entries. Sums are
whole numbers, so adding and taking away never drifts; a test compares them with a recount. Pods that wait for a node stand
under WAITING, but for those that may not be scheduled yet (gates) or are being deleted. Equal loads are kept once: 20,000
pods cost a few MB. Being told the same twice changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tjworker.api.observed import ENDED_PHASES
from tjworker.api.podload import NOTHING, WAITING, PodLoad, pod_load

Json = Mapping[str, Any]
Identity = tuple[str, str]
"""(namespace, name)"""


@dataclass(frozen=True, slots=True)
class _Entry:
    rv: int
    node: str
    load: PodLoad


class LoadBook:
    """Of the pods that one informer shows."""

    def __init__(self) -> None:
        self._entries: dict[Identity, _Entry] = {}
        self._sums: dict[str, PodLoad] = {}
        self._touched: set[str] = set()
        self._shared: dict[PodLoad, PodLoad] = {}

    def put(self, identity: Identity, pod: Json, rv: int) -> None:
        known = self._entries.get(identity)
        if known is not None and rv <= known.rv:
            return
        node = _node(pod)
        if node is None:
            self.remove(identity)
            return
        try:
            load = pod_load(pod.get("spec") or {}, pod.get("status"))
        except (ValueError, TypeError, AttributeError):
            load = PodLoad(pods=1)  # no API server lets such a pod in; if one did, the others count all the same
        load = self._shared.setdefault(load, load)
        self._entries[identity] = _Entry(rv, node, load)
        if known is not None and (known.node, known.load) == (node, load):
            return
        if known is not None:
            self._count(known, -1)
        self._count(self._entries[identity], 1)

    def remove(self, identity: Identity) -> None:
        known = self._entries.pop(identity, None)
        if known is not None:
            self._count(known, -1)

    def keep(self, exists: Callable[[Identity], bool]) -> None:
        """A whole list has been seen: what it did not show is gone."""
        for identity in [one for one in self._entries if not exists(one)]:
            self.remove(identity)

    def clear(self) -> None:
        self._touched.update(self._sums)
        self._entries.clear()
        self._sums.clear()
        self._shared.clear()

    def touched(self) -> dict[str, PodLoad]:
        """The sums that have changed since the last call; NOTHING for a node without pods."""
        nodes, self._touched = self._touched, set()
        return {node: self._sums.get(node, NOTHING) for node in nodes}

    def _count(self, entry: _Entry, times: int) -> None:
        left = self._sums.get(entry.node, NOTHING).plus(entry.load, times)
        if left.pods:
            self._sums[entry.node] = left
        else:
            self._sums.pop(entry.node, None)
        self._touched.add(entry.node)


def _node(pod: Json) -> str | None:
    """Where the pod counts; None when it does not."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    if status.get("phase") in ENDED_PHASES:
        return None
    if node := spec.get("nodeName"):
        return str(node)
    return None if spec.get("schedulingGates") or pod["metadata"].get("deletionTimestamp") else WAITING


class ClusterLoads:
    """The sums of all informers together (one a namespace, where not all are served), for the writer."""

    def __init__(self) -> None:
        self._of: dict[str, dict[str, PodLoad]] = {}
        self._touched: set[str] = set()

    def update(self, source: str, loads: Mapping[str, PodLoad]) -> None:
        mine = self._of.setdefault(source, {})
        for node, load in loads.items():
            if load.pods:
                mine[node] = load
            else:
                mine.pop(node, None)
        self._touched.update(loads)

    def touched(self) -> dict[str, PodLoad]:
        nodes, self._touched = self._touched, set()
        return {node: self._sum(node) for node in sorted(nodes)}

    def everything(self) -> dict[str, PodLoad]:
        self._touched.clear()
        return {node: self._sum(node) for node in sorted({node for mine in self._of.values() for node in mine})}

    def clear(self) -> None:
        self._of.clear()
        self._touched.clear()

    def _sum(self, node: str) -> PodLoad:
        total = NOTHING
        for mine in self._of.values():
            total = total.plus(mine.get(node, NOTHING))
        return total
