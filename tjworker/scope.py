"""The namespaces that an operator serves, and the lists that show their objects. Pure.

Two operators can share a cluster: one excludes the namespaces that the other names. The API server filters by field
selectors, so objects of an excluded namespace reach neither the watcher nor the orphan collector.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

PART_OF = {"app.kubernetes.io/part-of": "trainingjob-operator"}
"""The labels by which the Leases of all operators in a cluster are found."""
SERVED, EXCLUDED = "elasticdeeplearning.ai/namespaces", "elasticdeeplearning.ai/namespaces-excluded"
"""Annotations of the Lease: names separated by commas."""
UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"
"""Selects pods that use room on a node or wait for it. kube-scheduler watches with the same selector."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The arguments of a list or watch. `namespace`: '' for all. `fields`, `labels`: selectors, '' for none."""

    namespace: str = ""
    fields: str = ""
    labels: str = ""


@dataclass(frozen=True, slots=True)
class Scope:
    """The namespaces in `only`; if that is empty, every namespace that is not in `excluded`. Names are sorted. At most
    one of the two has names."""

    only: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()

    def serves(self, namespace: str) -> bool:
        """True for '', the namespace of an object that has none."""
        return not namespace or (namespace in self.only if self.only else namespace not in self.excluded)

    def selections(self) -> tuple[Selection, ...]:
        """Lists that together show everything in these namespaces, each object once."""
        if self.only:
            return tuple(Selection(namespace) for namespace in self.only)
        return (Selection(fields=_outside(self.excluded)),)

    def outside(self) -> tuple[Selection, ...]:
        """Lists of pods that together show the unfinished pods of all other namespaces, each once."""
        if self.only:
            return (Selection(fields=f"{_outside(self.only)},{UNFINISHED}"),)
        return tuple(Selection(namespace, UNFINISHED) for namespace in self.excluded)

    def common(self, other: Scope) -> Scope | None:
        """The namespaces that both serve; None if there are none."""
        # Two operators that each exclude some namespaces both serve all others, whatever their names.
        if not self.only and not other.only:
            return Scope(excluded=tuple(sorted({*self.excluded, *other.excluded})))
        named = self.only or other.only
        both = tuple(namespace for namespace in named if self.serves(namespace) and other.serves(namespace))
        return Scope(both) if both else None

    def annotations(self) -> Mapping[str, str]:
        """The annotations of the watcher's Lease. `tj doctor` reads from them what the operator serves."""
        return {SERVED: ",".join(self.only), EXCLUDED: ",".join(self.excluded)}

    def __str__(self) -> str:
        if self.only:
            return ", ".join(self.only)
        return f"every namespace but {', '.join(self.excluded)}" if self.excluded else "every namespace"


def scope_of_lease(annotations: Mapping[str, str]) -> Scope | None:
    """The scope that a Lease announces; None if it announces none, as a Lease of an earlier version."""
    if SERVED not in annotations:
        return None
    only, excluded = (annotations.get(name, "") for name in (SERVED, EXCLUDED))
    return Scope(*(tuple(name for name in names.split(",") if name) for names in (only, excluded)))


def _outside(namespaces: tuple[str, ...]) -> str:
    return ",".join(f"metadata.namespace!={namespace}" for namespace in namespaces)
