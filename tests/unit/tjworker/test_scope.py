"""Which namespaces an operator serves, and what the API server is asked for."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from localcluster.apiserver.selectors import field_selector, parse_fields
from localcluster.resources import BUILTIN
from tjworker.scope import Scope, Selection, scope_of_lease

NAMESPACES = ("a", "b", "c", "d")
EVERY, ALL_BUT_A, ONLY_AB = Scope(), Scope(excluded=("a",)), Scope(only=("a", "b"))
SCOPES = {"every": EVERY, "all but a": ALL_BUT_A, "all but a and b": Scope(excluded=("a", "b")), "a and b": ONLY_AB}


def shown(selections: tuple[Selection, ...], phase: str = "Running") -> list[str]:
    """The namespaces whose pods of this phase the API server gives for these lists, once for each list."""
    pods = next(row for row in BUILTIN if row.plural == "pods")
    found = []
    for selection in selections:
        matches = field_selector(parse_fields(selection.fields, pods)) or (lambda obj: True)
        for namespace in NAMESPACES:
            pod = {"metadata": {"namespace": namespace}, "status": {"phase": phase}}
            if selection.namespace in ("", namespace) and matches(pod):
                found.append(namespace)
    return sorted(found)


@pytest.mark.parametrize("scope", SCOPES.values(), ids=SCOPES)
def test_the_lists_show_what_is_served_once_and_nothing_else(scope: Scope) -> None:
    assert shown(scope.selections()) == [name for name in NAMESPACES if scope.serves(name)]


@pytest.mark.parametrize("scope", SCOPES.values(), ids=SCOPES)
def test_the_lists_of_pods_outside_show_the_unfinished_ones_of_all_other_namespaces_once(scope: Scope) -> None:
    assert shown(scope.outside()) == [name for name in NAMESPACES if not scope.serves(name)]
    assert shown(scope.outside(), "Succeeded") == shown(scope.outside(), "Failed") == []


@dataclass(frozen=True)
class Both:
    one: Scope
    other: Scope
    want: str
    """What both serve; '' for nothing."""


COMMON: dict[str, Both] = {
    "An operator that serves everything shares what the other one serves.": Both(EVERY, ONLY_AB, "a, b"),
    "A cluster that is divided shares nothing.": Both(Scope(excluded=("a", "b")), ONLY_AB, ""),
    "Two lists share what stands on both.": Both(ONLY_AB, Scope(only=("b", "c")), "b"),
    "Two that exclude namespaces share what neither excludes.": Both(
        ALL_BUT_A, Scope(excluded=("b",)), "every namespace but a, b"
    ),
}


@pytest.mark.parametrize("case", COMMON.values(), ids=COMMON)
def test_what_two_operators_both_serve(case: Both) -> None:
    for found in (case.one.common(case.other), case.other.common(case.one)):
        assert ("" if found is None else str(found)) == case.want


@pytest.mark.parametrize("scope", SCOPES.values(), ids=SCOPES)
def test_a_lease_tells_the_scope(scope: Scope) -> None:
    assert scope_of_lease(scope.annotations()) == scope
