"""What the pods on each node request, strangers' pods too: kept up to date change by change, never counted again. PURE.

A book has an entry for each pod that has not finished, and per node the sum of its entries. Sums are whole numbers, so
adding and subtracting never drifts; a test compares them with a recount. Pods that wait for a node stand under WAITING,
except those that may not be scheduled yet (gates) or are being deleted; and once more together with those that are like
them (`api.waiting_pods`). Equal requests are kept once: 20,000 pods cost a few MB. Safe to be given the same pod twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tjworker.api.node_requests import NOTHING, WAITING, NodeRequests, encode_node_requests, pod_requests
from tjworker.api.observed import ENDED_PHASES
from tjworker.api.waiting_pods import WaitingPods, encode_waiting_pods, is_waiting_name, waiting_name, waiting_pod

Json = Mapping[str, Any]
Identity = tuple[str, str]
"""(namespace, name)"""


@dataclass(frozen=True, slots=True)
class _Entry:
    rv: int
    node: str
    requests: NodeRequests
    waits_as: str = ""
    """Under which name it stands with those that are like it; '' for a pod that has a node."""


Sum = NodeRequests | WaitingPods
"""Of a node, or under WAITING; of pods that wait and are alike."""


class RequestBook:
    """Requests of the pods that one reflector shows."""

    def __init__(self) -> None:
        self._entries: dict[Identity, _Entry] = {}
        self._sums: dict[str, NodeRequests] = {}
        self._touched: set[str] = set()
        self._shared: dict[NodeRequests, NodeRequests] = {}
        self._waiting: dict[str, dict[Identity, WaitingPods]] = {}
        """By name, those that are alike, the first of them the example."""

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
        waiting = waiting_pod("/".join(identity), pod, requests) if node == WAITING else None
        waits_as = waiting_name(waiting) if waiting is not None else ""
        self._entries[identity] = _Entry(rv, node, requests, waits_as)
        if known is not None and (known.node, known.requests, known.waits_as) == (node, requests, waits_as):
            return
        if known is not None:
            self._forget(identity, known)
        self._count(self._entries[identity], 1)
        if waiting is not None:
            self._waiting.setdefault(waits_as, {})[identity] = waiting
            self._touched.add(waits_as)

    def remove(self, identity: Identity) -> None:
        known = self._entries.pop(identity, None)
        if known is not None:
            self._forget(identity, known)

    def keep(self, exists: Callable[[Identity], bool]) -> None:
        """A whole list has been seen: what it did not show is gone."""
        for identity in [one for one in self._entries if not exists(one)]:
            self.remove(identity)

    def touched(self) -> dict[str, Sum]:
        """The sums that have changed since the last call; NOTHING for a node without pods."""
        names, self._touched = self._touched, set()
        return {name: self._alike(name) if is_waiting_name(name) else self._sums.get(name, NOTHING) for name in names}

    def _alike(self, name: str) -> Sum:
        alike = self._waiting.get(name)
        return replace(next(iter(alike.values())), pods=len(alike)) if alike else NOTHING

    def _forget(self, identity: Identity, known: _Entry) -> None:
        self._count(known, -1)
        if known.waits_as:
            alike = self._waiting[known.waits_as]
            del alike[identity]
            if not alike:
                del self._waiting[known.waits_as]
            self._touched.add(known.waits_as)

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
        self._of: dict[str, dict[str, Sum]] = {}
        self._touched: set[str] = set()

    def update(self, source: str, requests: Mapping[str, Sum]) -> None:
        mine = self._of.setdefault(source, {})
        for node, its in requests.items():
            if its.pods:
                mine[node] = its
            else:
                mine.pop(node, None)
        self._touched.update(requests)

    def touched(self) -> dict[str, Sum]:
        nodes, self._touched = self._touched, set()
        return {node: self._sum(node) for node in sorted(nodes)}

    def everything(self) -> dict[str, Sum]:
        self._touched.clear()
        return {node: self._sum(node) for node in sorted({node for mine in self._of.values() for node in mine})}

    def _sum(self, name: str) -> Sum:
        total = NOTHING
        for mine in self._of.values():
            its = mine.get(name, NOTHING)
            if isinstance(its, WaitingPods):
                return its  # they are of one namespace, which one reflector shows
            total = total.plus(its)
        return total


def encode(sum_: Sum) -> bytes:
    return encode_waiting_pods(sum_) if isinstance(sum_, WaitingPods) else encode_node_requests(sum_)
