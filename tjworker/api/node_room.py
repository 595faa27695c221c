"""What a pod wants of a node and what a node has, by resource: to say that something fits nowhere. Pure.

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
    """By one pod of this template; what it does not ask for is left out. Raises ValueError for what is no quantity."""
    asked = pod_requests(template.get("spec") or {})
    wants = {"cpu": asked.cpu_milli, "memory": asked.memory_bytes, "pods": asked.pods, **dict(asked.extended)}
    return {name: amount for name, amount in wants.items() if amount}


def had(allocatable: Mapping[str, str], name: str) -> int:
    """By a node. One that does not say how many pods it takes is not held to a number."""
    if name == "pods" and name not in allocatable:
        return UNLIMITED
    try:
        given = allocatable.get(name, "0")
        return milli(given) if name == "cpu" else whole(given)
    except (ValueError, ArithmeticError):
        return 0


def take(nodes: Iterable[Mapping[str, str]], wants: Amounts) -> int:
    """So many pods that want this go on the nodes, were they empty."""
    return sum(min(had(node, name) // amount for name, amount in wants.items()) for node in nodes)


def shown(name: str, amount: int) -> str:
    if name == "cpu":
        return f"{amount / 1000:g}"
    return f"{amount / 2**30:.3g}Gi" if name == "memory" else str(amount)
