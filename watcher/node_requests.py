"""What the pods on each node request, strangers' pods too: kept up to date change by change, never counted again. PURE.

A book has an entry for each pod that has not finished, and per node the sum of its entries. Sums are whole numbers, so
adding and subtracting never drifts; a test compares them with a recount. Pods that wait for a node stand under WAITING,
except those that may not be scheduled yet (gates) or are being deleted. Equal requests are kept once: 20,000 pods cost
a few MB. Safe to be given the same pod twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tjworker.api.node_requests import NOTHING, WAITING, NodeRequests, pod_requests
from tjworker.api.observed import ENDED_PHASES

Json = Mapping[str, Any]
Identity = tuple[str, str]
"""(namespace, name)"""


@dataclass(frozen=True, slots=True)
class _Entry:
    rv: int
    node: str
    requests: NodeRequests


class RequestBook:
    """Requests of the pods that one reflector shows."""

    def __init__(self) -> None:
        self._entries: dict[Identity, _Entry] = {}
        self._sums: dict[str, NodeRequests] = {}
        self._touched: set[str] = set()
        self._shared: dict[NodeRequests, NodeRequests] = {}

    def put(self, identity: Identity, pod: Json, rv: int) -> None:
        known = self._entries.get(identity)
        if known is not None and rv <= known.rv:
            return
        node = _node(pod)
        if node is None:
            self.remove(identity)
            return
        try:
            requests = pod_requests(pod.get("spec") or {}, pod.get("status"))
        except (ValueError, TypeError, AttributeError):
            requests = NodeRequests(
                pods=1
            )  # no API server lets such a pod in; if one did, the others count all the same
        requests = self._shared.setdefault(requests, requests)
        self._entries[identity] = _Entry(rv, node, requests)
        if known is not None and (known.node, known.requests) == (node, requests):
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

    def touched(self) -> dict[str, NodeRequests]:
        """The sums that have changed since the last call; NOTHING for a node without pods."""
        nodes, self._touched = self._touched, set()
        return {node: self._sums.get(node, NOTHING) for node in nodes}

    def _count(self, entry: _Entry, times: int) -> None:
        left = self._sums.get(entry.node, NOTHING).plus(entry.requests, times)
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


class ClusterRequests:
    """The sums of all reflectors together (one a namespace, where not all are served), for the writer."""

    def __init__(self) -> None:
        self._of: dict[str, dict[str, NodeRequests]] = {}
        self._touched: set[str] = set()

    def update(self, source: str, requests: Mapping[str, NodeRequests]) -> None:
        mine = self._of.setdefault(source, {})
        for node, its in requests.items():
            if its.pods:
                mine[node] = its
            else:
                mine.pop(node, None)
        self._touched.update(requests)

    def touched(self) -> dict[str, NodeRequests]:
        nodes, self._touched = self._touched, set()
        return {node: self._sum(node) for node in sorted(nodes)}

    def everything(self) -> dict[str, NodeRequests]:
        self._touched.clear()
        return {node: self._sum(node) for node in sorted({node for mine in self._of.values() for node in mine})}

    def _sum(self, node: str) -> NodeRequests:
        total = NOTHING
        for mine in self._of.values():
            total = total.plus(mine.get(node, NOTHING))
        return total
