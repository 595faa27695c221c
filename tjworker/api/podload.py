"""What a pod takes of its node, counted as the scheduler counts it. Pure; never raises for JSON that the API server let in.

Containers run side by side, and so do init containers that keep running (`restartPolicy: Always`); the others run before
them, one after another, so the greater of the two counts. Requests of the whole pod stand in for the sum of its containers;
overhead comes on top. A container without a request asks for its limit, as the API server's defaulting has it. While a pod
is resized in place the greater of what it asks for and what it has counts. Source: `PodRequests` in
k8s.io/component-helpers/resource.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from tjworker.api.quantity import milli, whole
from tjworker.base import Terminal

Json = Mapping[str, Any]
Amounts = dict[str, int]
"""cpu in thousandths, memory in bytes, extended resources in pieces."""
_OF_THE_POD = ("cpu", "memory")
"""Which resources a pod may ask for as a whole."""


@dataclass(frozen=True, slots=True)
class PodLoad:
    """Requests and limits of one pod, or the sum of many."""

    cpu_milli: int = 0
    memory_bytes: int = 0
    cpu_limit_milli: int = 0
    memory_limit_bytes: int = 0
    pods: int = 0
    extended: tuple[tuple[str, int], ...] = ()
    """Sorted by name; requests and limits of an extended resource are always the same."""

    def amount(self, name: str) -> int:
        return next((n for kind, n in self.extended if kind == name), 0)

    def plus(self, other: PodLoad, times: int = 1) -> PodLoad:
        """With the other's so many times on top; -1 takes it away."""
        extended = dict(self.extended)
        for name, n in other.extended:
            extended[name] = extended.get(name, 0) + times * n
        return PodLoad(
            self.cpu_milli + times * other.cpu_milli,
            self.memory_bytes + times * other.memory_bytes,
            self.cpu_limit_milli + times * other.cpu_limit_milli,
            self.memory_limit_bytes + times * other.memory_limit_bytes,
            self.pods + times * other.pods,
            tuple(sorted((name, n) for name, n in extended.items() if n)),
        )


NOTHING = PodLoad()
WAITING = "-"
"""Stands for the node of the pods that wait for one; no node can be named so."""


def encode_load(load: PodLoad) -> bytes:
    """Compact JSON: cpu, memory, their limits, pods, then the extended resources by name."""
    return orjson.dumps(
        [
            load.cpu_milli,
            load.memory_bytes,
            load.cpu_limit_milli,
            load.memory_limit_bytes,
            load.pods,
            dict(load.extended),
        ]
    )


def decode_load(data: bytes) -> PodLoad:
    """Raises Terminal for what `encode_load` did not make."""
    try:
        *amounts, extended = orjson.loads(data)
        cpu, memory, cpu_limit, memory_limit, pods = (int(n) for n in amounts)
        return PodLoad(cpu, memory, cpu_limit, memory_limit, pods, tuple(sorted(extended.items())))
    except (ValueError, TypeError, AttributeError) as error:
        raise Terminal(f"the projection of a node's load cannot be read: {error} in {data[:80]!r}") from error


def pod_load(spec: Json, status: Json | None = None) -> PodLoad:
    """Of a pod's spec, or of a template's. Raises ValueError for a quantity that is none: only a template can have one."""
    requests = _whole_pod(spec, "requests", _statuses(spec, status))
    limits = _whole_pod(spec, "limits", {})
    return PodLoad(
        cpu_milli=requests.pop("cpu", 0),
        memory_bytes=requests.pop("memory", 0),
        cpu_limit_milli=limits.get("cpu", 0),
        memory_limit_bytes=limits.get("memory", 0),
        pods=1,
        extended=tuple(sorted((name, n) for name, n in requests.items() if "/" in name and n)),
    )


def _whole_pod(spec: Json, side: str, has: Mapping[str, Json]) -> Amounts:
    running: Amounts = {}
    highest: Amounts = {}
    for container in spec.get("initContainers") or ():
        amounts = _container(container, side, has)
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
    running |= {name: _amount(name, asked[name]) for name in _OF_THE_POD if name in asked}
    if side == "requests" or running:
        _add(running, _amounts(spec.get("overhead") or {}))
    return running


def _container(container: Json, side: str, has: Mapping[str, Json]) -> Amounts:
    resources = container.get("resources") or {}
    given = resources.get(side) or {}
    if side == "requests":
        given = {**(resources.get("limits") or {}), **given}
    amounts = _amounts(given)
    if side == "requests" and (actual := has.get(container.get("name", ""))):
        _raise(amounts, _amounts(actual))
    return amounts


def _statuses(spec: Json, status: Json | None) -> dict[str, Json]:
    """What containers really have, by name, where that is told."""
    told: Iterable[Json] = [
        *((status or {}).get("initContainerStatuses") or ()),
        *((status or {}).get("containerStatuses") or ()),
    ]
    return {entry.get("name", ""): (entry.get("resources") or {}).get("requests") or {} for entry in told}


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
