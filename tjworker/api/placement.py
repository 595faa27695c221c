"""The nodes that a pod accepts by its node selector, required node affinity and tolerations. Pure.

The scheduler also knows what else keeps a pod from a node: volumes, pod affinity, spread, host ports. Source:
`GetRequiredNodeAffinity` and `TolerationsTolerateTaint` in k8s.io/component-helpers/scheduling/corev1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tjworker.api.observed import NodeRecord
from tjworker.base import Json

_NODE_LIFECYCLE = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
"""Tolerated for five minutes by nearly every pod; a node with one of these taints is not Ready and does not count."""


def constraints_of(spec: Json) -> dict[str, Any]:
    """The constraints of a pod or a template; `{}` if it has none. Equal for pods that accept the same nodes."""
    found: dict[str, Any] = {}
    if selector := spec.get("nodeSelector"):
        found["nodeSelector"] = selector
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    # Terms that are given and empty match no node; an affinity without them asks for nothing.
    if required is not None:
        found["terms"] = required.get("nodeSelectorTerms") or []
    tolerations = [t for t in spec.get("tolerations") or () if t.get("key") not in _NODE_LIFECYCLE]
    if tolerations:
        found["tolerations"] = tolerations
    return found


def may_go_to(node: NodeRecord, constraints: Json) -> bool:
    """Whatever room it has."""
    labels = node.labels
    if any(labels.get(key) != value for key, value in (constraints.get("nodeSelector") or {}).items()):
        return False
    if "terms" in constraints and not any(_matches(node, term) for term in constraints["terms"]):
        return False
    tolerations = constraints.get("tolerations") or ()
    return all(any(_tolerates(toleration, taint) for toleration in tolerations) for taint in node.taints)


def _matches(node: NodeRecord, term: Json) -> bool:
    """A term without any expression matches nothing."""
    by_label, by_field = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not by_label and not by_field:
        return False
    # Of fields the API server accepts metadata.name alone.
    return all(_holds(one, node.labels) for one in by_label) and all(
        _holds(one, {"metadata.name": node.name}) for one in by_field
    )


def _holds(expression: Json, labels: Mapping[str, str]) -> bool:
    key, operator, values = expression.get("key", ""), expression.get("operator"), expression.get("values") or ()
    if operator == "In":
        return key in labels and labels[key] in values
    if operator == "NotIn":
        # NotIn also matches a node without the label, as in any label selector.
        return key not in labels or labels[key] not in values
    if operator == "Exists":
        return key in labels
    if operator == "DoesNotExist":
        return key not in labels
    return operator in ("Gt", "Lt") and _beyond(operator, labels.get(key, ""), values)


def _beyond(operator: str, label: str, values: Iterable[str]) -> bool:
    try:
        # The API server demands one value for Gt and Lt, but no integer. The scheduler finds no node then.
        (limit,) = values
        return int(label) > int(limit) if operator == "Gt" else int(label) < int(limit)
    except ValueError:
        return False


def _tolerates(toleration: Json, taint: tuple[str, str, str]) -> bool:
    key, value, effect = taint
    if toleration.get("effect") not in (None, "", effect):
        return False
    if toleration.get("operator") == "Exists":
        # Exists without a key tolerates every taint.
        return toleration.get("key") in (None, "", key)
    return toleration.get("key") == key and (toleration.get("value") or "") == value
