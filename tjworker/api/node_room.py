"""Compares the requests of a pod with what nodes have, to report pods that fit no node. Pure.

Amounts are milli-CPUs, bytes, pods and whole extended resources. Names are those of a node's `allocatable`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tjworker.api.node_requests import pod_requests
from tjworker.api.quantity import milli, whole

Amounts = Mapping[str, int]
UNLIMITED = 2**31


def wanted(template: Mapping[str, Any]) -> Amounts:
    """The requests of one pod of this template that are not 0. Raises ValueError for an invalid quantity."""
    asked = pod_requests(template.get("spec") or {})
    wants = {"cpu": asked.cpu_milli, "memory": asked.memory_bytes, "pods": asked.pods, **dict(asked.extended)}
    return {name: amount for name, amount in wants.items() if amount}


def had(allocatable: Mapping[str, str], name: str) -> int:
    """The node's amount of a resource. UNLIMITED pods if the node has no number of pods."""
    if name == "pods" and name not in allocatable:
        return UNLIMITED
    try:
        given = allocatable.get(name, "0")
        return milli(given) if name == "cpu" else whole(given)
    except ValueError:
        return 0


def take(nodes: Iterable[Mapping[str, str]], wants: Amounts) -> int:
    """The number of pods with these requests that fit the nodes if these were empty."""
    # Per node, not of the sums: what is left on two nodes holds no pod.
    return sum(min(had(node, name) // amount for name, amount in wants.items()) for node in nodes)


def shown(name: str, amount: int, decimals: int = 1) -> str:
    """The amount without an exponent. Memory is in Gi, or in the greatest smaller unit of which there is one."""
    if name == "cpu":
        return _digits(amount, 1000, 3)
    if name != "memory":
        return str(amount)
    unit, size = next(((unit, size) for unit, size in _UNITS if amount >= size), ("", 1))
    return f"{_digits(amount, size, decimals)}{unit}"


def shown_apart(name: str, more: int, less: int) -> tuple[str, str]:
    """Both amounts, with enough digits to show which is greater."""
    for decimals in range(1, _MOST_DECIMALS):
        both = shown(name, more, decimals), shown(name, less, decimals)
        # "requests 16Gi, the largest node has 16Gi" reads as a mistake of the operator.
        if whole(both[0]) > whole(both[1]):
            return both
    return shown(name, more, _MOST_DECIMALS), shown(name, less, _MOST_DECIMALS)


_UNITS = (("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10))
_MOST_DECIMALS = 10
"""Enough to show a difference of one byte in Gi."""


def _digits(amount: int, unit: int, decimals: int) -> str:
    text = f"{amount / unit:.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
