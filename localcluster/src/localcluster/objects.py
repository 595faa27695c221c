"""Small pure helpers over Kubernetes objects as JSON: times, quantities, owner references, pods and their conditions.

Nothing here does I/O or reads a clock, and nothing changes its arguments.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any

from localcluster import times
from localcluster.quantity import parse
from localcluster.wire import Json


def quantity(value: str | float) -> Decimal:
    """A Kubernetes quantity in its base unit (cores, bytes, pieces). Raises ValueError."""
    return parse(str(value))


@lru_cache(maxsize=4096)
def milli(value: str) -> int:
    """In thousandths of the base unit, rounded up, as the scheduler counts CPUs."""
    return math.ceil(parse(value) * 1000)


@lru_cache(maxsize=1024)
def timestamp(seconds: float) -> str:
    """metav1.Time: whole seconds, UTC."""
    return times.format_time(int(seconds))


@lru_cache(maxsize=1024)
def micro_timestamp(seconds: float) -> str:
    """metav1.MicroTime."""
    whole, micros = divmod(round(seconds * 1_000_000), 1_000_000)
    return times.format_time(whole, f".{micros:06}")


def seconds_of(text: str) -> float:
    """Unix seconds of a metav1.Time or MicroTime."""
    return times.seconds_of(text)


def controller_of(obj: Json) -> Json | None:
    """The owner reference with `controller: true`."""
    for ref in obj["metadata"].get("ownerReferences") or ():
        if ref.get("controller"):
            owner: Json = ref
            return owner
    return None


def controller_ref(owner: Json) -> Json:
    meta = owner["metadata"]
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def matches(selector: Mapping[str, Any] | None, labels: Mapping[str, str] | None) -> bool:
    """A metav1.LabelSelector against labels. An empty selector matches all, None nothing."""
    if selector is None:
        return False
    have = labels or {}
    if any(have.get(k) != v for k, v in (selector.get("matchLabels") or {}).items()):
        return False
    return all(expression_matches(e, have) for e in selector.get("matchExpressions") or ())


def expression_matches(expression: Mapping[str, Any], have: Mapping[str, str]) -> bool:
    key, operator = expression.get("key", ""), expression.get("operator")
    values = expression.get("values") or []
    if operator == "Exists":
        return key in have
    if operator == "DoesNotExist":
        return key not in have
    if operator == "In":
        return have.get(key) in values
    if operator == "NotIn":
        return have.get(key) not in values
    try:
        number, bound = int(have[key]), int(values[0])
    except (KeyError, ValueError, IndexError):
        return False
    return number > bound if operator == "Gt" else number < bound


def phase_of(pod: Json) -> str:
    return str((pod.get("status") or {}).get("phase") or "Pending")


def is_terminal(pod: Json) -> bool:
    return phase_of(pod) in ("Succeeded", "Failed")


def is_active(pod: Json) -> bool:
    """Neither finished nor being deleted (`IsPodActive` of client-go)."""
    return not is_terminal(pod) and "deletionTimestamp" not in pod["metadata"]


def condition(obj: Json, kind: str) -> Json | None:
    for have in (obj.get("status") or {}).get("conditions") or ():
        if have["type"] == kind:
            found: Json = have
            return found
    return None


def is_ready(pod: Json) -> bool:
    ready = condition(pod, "Ready")
    return ready is not None and ready["status"] == "True"


def with_condition(conditions: Iterable[Json], new: Json, now: str) -> list[Json]:
    """The conditions with this one set; lastTransitionTime moves only when the status does, and equal ones stay as they
    are."""
    kept = list(conditions)
    for index, have in enumerate(kept):
        if have["type"] == new["type"]:
            since = have.get("lastTransitionTime", now) if have["status"] == new["status"] else now
            kept[index] = {
                **{k: v for k, v in have.items() if k not in ("reason", "message")},
                **new,
                "lastTransitionTime": since,
            }
            return kept
    kept.append({"lastTransitionTime": now, **new})
    return kept


def pod_requests(pod: Json) -> dict[str, int]:
    """What the scheduler counts for a pod: the larger of the sum of its containers and of any init container,
    restartable ones added to what comes after them, plus overhead. CPU in milli-cores, everything else in base units,
    rounded up."""
    spec = pod["spec"]
    running: dict[str, int] = {}
    for container in spec.get("containers") or ():
        _add(running, _container_requests(container))
    init_peak: dict[str, int] = {}
    sidecars: dict[str, int] = {}
    for container in spec.get("initContainers") or ():
        wanted = _container_requests(container)
        # A sidecar runs concurrently with every container that starts after it.
        if container.get("restartPolicy") == "Always":
            _add(sidecars, wanted)
            wanted = {}
        for name in {*wanted, *sidecars}:
            init_peak[name] = max(init_peak.get(name, 0), wanted.get(name, 0) + sidecars.get(name, 0))
    _add(running, sidecars)
    for name, amount in init_peak.items():
        running[name] = max(running.get(name, 0), amount)
    _add(running, {k: amount_of(k, v) for k, v in (spec.get("overhead") or {}).items()})
    return running


def qos_class(spec: Json) -> str:
    """Guaranteed, Burstable or BestEffort, as `ComputePodQOS` has it: by CPU and memory alone."""
    requested = False
    guaranteed = True
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        resources = container.get("resources") or {}
        limits = _sum_amounts(resources.get("limits"))
        requests = {**limits, **_sum_amounts(resources.get("requests"))}
        requested = requested or bool(requests)
        guaranteed = guaranteed and len(limits) == 2 and requests == limits
    return "BestEffort" if not requested else "Guaranteed" if guaranteed else "Burstable"


def _sum_amounts(amounts: Mapping[str, str] | None) -> dict[str, Decimal]:
    """A request of 0 counts as none."""
    found = {name: quantity(value) for name, value in (amounts or {}).items() if name in ("cpu", "memory")}
    return {name: amount for name, amount in found.items() if amount}


def amount_of(resource: str, value: str | float) -> int:
    """CPU in milli-cores, everything else in base units, rounded up."""
    return milli(str(value)) if resource == "cpu" else -(-milli(str(value)) // 1000)


def _container_requests(container: Json) -> dict[str, int]:
    resources = container.get("resources") or {}
    limits = resources.get("limits") or {}
    return {k: amount_of(k, v) for k, v in {**limits, **(resources.get("requests") or {})}.items()}


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount
