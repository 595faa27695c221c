"""The requests of the pods on each node, other owners' pods included. Updated change by change, never recounted. Pure.

A book has an entry for each unfinished pod, and the sum of the entries of each node. Sums are integers, so they do not
drift; a test compares them with a recount. Pods without a node count under WAITING, unless scheduling gates hold them
or they are being deleted. A waiting pod counts a second time, in the group of pods like it (`api.waiting_pods`). Equal
requests are stored once: 20,000 pods cost a few MB. Putting the same pod twice does no harm.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tjworker.api.node_requests import NOTHING, WAITING, NodeRequests, encode_node_requests, pod_requests
from tjworker.api.observed import ENDED_PHASES
from tjworker.api.waiting_pods import WaitingPods, encode_waiting_pods, is_waiting_name, waiting_name, waiting_pod
from tjworker.base import Json

Identity = tuple[str, str]
"""(namespace, name)"""


@dataclass(frozen=True, slots=True)
class _PodRequests:
    rv: int
    node: str
    requests: NodeRequests
    waits_as: str = ""
    """Name of the group of waiting pods like this one; '' for a pod that has a node."""


Sum = NodeRequests | WaitingPods
"""The requests on a node or under WAITING, or a group of waiting pods that are alike."""


class RequestBook:
    """Requests of the pods that one reflector shows."""

    def __init__(self) -> None:
        self._entries: dict[Identity, _PodRequests] = {}
        self._sums: dict[str, NodeRequests] = {}
        self._touched: set[str] = set()
        self._shared: dict[NodeRequests, NodeRequests] = {}
        self._waiting: dict[str, dict[Identity, WaitingPods]] = {}
        """Name of a group -> its pods. The first pod is the group's example."""

    def put(self, identity: Identity, pod: Json, rv: int) -> None:
        known = self._entries.get(identity)
        # Lists and watches may show an older state, or the same state twice.
        if known is not None and rv <= known.rv:
            return
        node = _node_of(pod)
        if node is None:
            self.remove(identity)
            return
        try:
            requests = pod_requests(pod.get("spec") or {}, pod.get("status"))
        except (ValueError, TypeError, AttributeError):
            # No API server admits such a pod. If one does, the other pods must still be counted.
            requests = NodeRequests(pods=1)
        # The pods of a job request the same, so they share one object in memory.
        requests = self._shared.setdefault(requests, requests)
        waiting = waiting_pod("/".join(identity), pod, requests) if node == WAITING else None
        waits_as = waiting_name(waiting) if waiting is not None else ""
        self._entries[identity] = _PodRequests(rv, node, requests, waits_as)
        # Most changes of a pod are of its status. They must not make the writer write the sum of its node.
        if known is not None and (known.node, known.requests, known.waits_as) == (node, requests, waits_as):
            return
        if known is not None:
            self._forget(identity, known)
        self._add_to_sum(self._entries[identity], 1)
        if waiting is not None:
            self._waiting.setdefault(waits_as, {})[identity] = waiting
            self._touched.add(waits_as)

    def remove(self, identity: Identity) -> None:
        known = self._entries.pop(identity, None)
        if known is not None:
            self._forget(identity, known)

    def keep(self, exists: Callable[[Identity], bool]) -> None:
        """Remove the pods that a complete list did not show."""
        for identity in [identity for identity in self._entries if not exists(identity)]:
            self.remove(identity)

    def touched(self) -> dict[str, Sum]:
        """Name -> sum, for each sum that has changed since the last call; NOTHING for a node without pods."""
        names, self._touched = self._touched, set()
        return {
            name: self._sum_group(name) if is_waiting_name(name) else self._sums.get(name, NOTHING) for name in names
        }

    def _sum_group(self, name: str) -> Sum:
        alike = self._waiting.get(name)
        return replace(next(iter(alike.values())), pods=len(alike)) if alike else NOTHING

    def _forget(self, identity: Identity, known: _PodRequests) -> None:
        self._add_to_sum(known, -1)
        if known.waits_as:
            alike = self._waiting[known.waits_as]
            del alike[identity]
            if not alike:
                del self._waiting[known.waits_as]
            self._touched.add(known.waits_as)

    def _add_to_sum(self, entry: _PodRequests, times: int) -> None:
        total = self._sums.get(entry.node, NOTHING).plus(entry.requests, times)
        if total.pods:
            self._sums[entry.node] = total
        else:
            self._sums.pop(entry.node, None)
        self._touched.add(entry.node)


def _node_of(pod: Json) -> str | None:
    """The node that the pod counts on, or WAITING; None if the pod does not count."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    if status.get("phase") in ENDED_PHASES:
        return None
    if node := spec.get("nodeName"):
        return str(node)
    # The scheduler does not look at a pod with gates, and will not place one that is being deleted.
    return None if spec.get("schedulingGates") or pod["metadata"].get("deletionTimestamp") else WAITING


class ClusterRequests:
    """The sums over all reflectors of pods, for the writer. There are several reflectors if the operator serves chosen
    namespaces."""

    def __init__(self) -> None:
        self._by_source: dict[str, dict[str, Sum]] = {}
        self._touched: set[str] = set()

    def update(self, source: str, requests: Mapping[str, Sum]) -> None:
        sums = self._by_source.setdefault(source, {})
        for node, sum_ in requests.items():
            if sum_.pods:
                sums[node] = sum_
            else:
                sums.pop(node, None)
        self._touched.update(requests)

    def take_changed(self) -> dict[str, bytes | None]:
        """The records of the nodes that have changed since the last call; None for a node without pods."""
        nodes, self._touched = self._touched, set()
        return {node: _encode(sum_) if sum_.pods else None for node in sorted(nodes) for sum_ in (self._sum(node),)}

    def take_all(self) -> dict[str, bytes | None]:
        """The records of all nodes that have pods."""
        self._touched = {node for sums in self._by_source.values() for node in sums}
        return self.take_changed()

    def _sum(self, name: str) -> Sum:
        total = NOTHING
        for sums in self._by_source.values():
            sum_ = sums.get(name, NOTHING)
            # The pods of a group are of one namespace, which only one reflector shows.
            if isinstance(sum_, WaitingPods):
                return sum_
            total = total.plus(sum_)
        return total


def _encode(sum_: Sum) -> bytes:
    return encode_waiting_pods(sum_) if isinstance(sum_, WaitingPods) else encode_node_requests(sum_)
