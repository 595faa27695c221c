"""The requests of a pod, counted as the scheduler counts them. Pure. Never raises for JSON that the API server has
accepted.

Containers run side by side, and so do init containers that keep running (`restartPolicy: Always`). The other init
containers run before them, one after another, so the greater of the two amounts counts. Requests of the whole pod
replace the sum of its containers; overhead is added. A container without a request requests its limit, as the API
server's defaulting does. While a pod is resized in place, the greater of its request and its actual amount counts.
Source: `PodRequests` in k8s.io/component-helpers/resource.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from tjworker.api.quantity import milli, saturated, whole
from tjworker.base import Json, Terminal

Amounts = dict[str, int]
"""Resource -> amount: cpu in thousandths, memory in bytes, extended resources in pieces."""
_OF_THE_POD = ("cpu", "memory")
"""The resources that a pod may request as a whole."""


@dataclass(frozen=True, slots=True)
class NodeRequests:
    """Requests and limits of one pod, or the sum over the pods of a node."""

    cpu_milli: int = 0
    memory_bytes: int = 0
    cpu_limit_milli: int = 0
    memory_limit_bytes: int = 0
    pods: int = 0
    extended: tuple[tuple[str, int], ...] = ()
    """(name, amount), sorted by name. The requests and limits of an extended resource are always equal."""

    def amount(self, name: str) -> int:
        return next((n for kind, n in self.extended if kind == name), 0)

    def plus(self, other: NodeRequests, times: int = 1) -> NodeRequests:
        """The sum of both, with `other` taken `times` times; -1 subtracts it."""
        extended = dict(self.extended)
        for name, n in other.extended:
            extended[name] = extended.get(name, 0) + times * n
        return NodeRequests(
            self.cpu_milli + times * other.cpu_milli,
            self.memory_bytes + times * other.memory_bytes,
            self.cpu_limit_milli + times * other.cpu_limit_milli,
            self.memory_limit_bytes + times * other.memory_limit_bytes,
            self.pods + times * other.pods,
            tuple(sorted((name, n) for name, n in extended.items() if n)),
        )


NOTHING = NodeRequests()
WAITING = "-"
"""The node name of pods that wait for a node. No node can have this name."""
VALUES = 6
"""The number of values in a record of requests."""


def encode_node_requests(requests: NodeRequests) -> bytes:
    """Compact JSON: cpu, memory, their limits, pods, then the extended resources by name. Sums saturate only here, so
    that an amount that was added can be subtracted again."""
    return orjson.dumps(amounts(requests))


def amounts(requests: NodeRequests) -> list[Any]:
    return [
        saturated(requests.cpu_milli),
        saturated(requests.memory_bytes),
        saturated(requests.cpu_limit_milli),
        saturated(requests.memory_limit_bytes),
        requests.pods,
        {name: saturated(n) for name, n in requests.extended},
    ]


def decode_node_requests(data: bytes) -> NodeRequests:
    """The requests in a record of `encode_node_requests`. Ignores values that a later version appends. Raises Terminal
    for anything else."""
    try:
        *amounts, extended = orjson.loads(data)[:VALUES]
        cpu, memory, cpu_limit, memory_limit, pods = (int(n) for n in amounts)
        return NodeRequests(cpu, memory, cpu_limit, memory_limit, pods, tuple(sorted(extended.items())))
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise Terminal(f"the projection of a node's requests cannot be read: {error} in {data[:80]!r}") from error


def pod_requests(spec: Json, status: Json | None = None) -> NodeRequests:
    """The requests of a pod, or of a template, by its spec. Raises ValueError for an invalid quantity, which only a
    template can have."""
    requests = _whole_pod(spec, "requests", _statuses(spec, status))
    limits = _whole_pod(spec, "limits", {})
    return NodeRequests(
        cpu_milli=requests.pop("cpu", 0),
        memory_bytes=requests.pop("memory", 0),
        cpu_limit_milli=limits.get("cpu", 0),
        memory_limit_bytes=limits.get("memory", 0),
        pods=1,
        extended=tuple(sorted((name, n) for name, n in requests.items() if "/" in name and n)),
    )


def _whole_pod(spec: Json, side: str, has: Mapping[str, Json]) -> Amounts:
    running: Amounts = {}
    # The peak while init containers run. A pod holds the greater of it and of its main containers all its life: the
    # scheduler does not reduce a pod's requests when its init containers have ended.
    highest: Amounts = {}
    for container in spec.get("initContainers") or ():
        amounts = _container(container, side, has)
        # A sidecar runs on, so it adds to each init container after it and to the main containers.
        if container.get("restartPolicy") == "Always":
            _add(running, amounts)
            _raise(highest, running)
        else:
            _raise(highest, _sum(running, amounts))
    for container in spec.get("containers") or ():
        _add(running, _container(container, side, has))
    _raise(running, highest)
    resources = spec.get("resources") or {}
    asked = resources.get(side) or (resources.get("limits") if side == "requests" else None) or {}
    # The whole pod can also request hugepages, which no decision counts.
    running |= {name: _amount(name, asked[name]) for name in _OF_THE_POD if name in asked}
    # Overhead is no limit if no container has one.
    if side == "requests" or running:
        _add(running, _amounts(spec.get("overhead") or {}))
    return running


def _container(container: Json, side: str, has: Mapping[str, Json]) -> Amounts:
    resources = container.get("resources") or {}
    given = resources.get(side) or {}
    if side == "requests":
        # A template lacks the defaults that the API server sets.
        given = {**(resources.get("limits") or {}), **given}
    amounts = _amounts(given)
    # A container that shrinks holds its old amount until the kubelet has applied the new one; for a container that
    # grows, the scheduler reserves the new amount at once.
    if side == "requests" and (actual := has.get(container.get("name", ""))):
        _raise(amounts, _amounts(actual))
    return amounts


def _statuses(spec: Json, status: Json | None) -> dict[str, Json]:
    """Container -> its actual requests, as the kubelet reports them."""
    statuses: Iterable[Json] = [
        *((status or {}).get("initContainerStatuses") or ()),
        *((status or {}).get("containerStatuses") or ()),
    ]
    return {entry.get("name", ""): (entry.get("resources") or {}).get("requests") or {} for entry in statuses}


def _amounts(given: Json) -> Amounts:
    return {name: _amount(name, value) for name, value in given.items()}


def _amount(name: str, value: object) -> int:
    return milli(value) if name == "cpu" else whole(value)


def _add(into: Amounts, more: Amounts) -> None:
    for name, amount in more.items():
        into[name] = into.get(name, 0) + amount


def _raise(into: Amounts, least: Amounts) -> None:
    for name, amount in least.items():
        into[name] = max(into.get(name, 0), amount)


def _sum(left: Amounts, right: Amounts) -> Amounts:
    out = dict(left)
    _add(out, right)
    return out
