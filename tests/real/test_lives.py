"""Every life of `tests.lives.lives` once more: real processes, the real control plane, the shipped RBAC."""

from __future__ import annotations

import pytest

from tests.lives.lives import LIVES
from tests.real.operator import Operator
from tests.real.world import RealWorld
from tjworker.kube import rbac


@pytest.mark.parametrize("sentence", LIVES)
def test_life(sentence: str, world: RealWorld) -> None:
    LIVES[sentence](world)


def test_the_operator_was_never_refused_anything_by_rbac(operator: Operator) -> None:
    """Runs last, over all that the lives above have asked for. (A namespace that is being deleted answers 403, too.)"""
    users = {rbac.user(process) for process in rbac.PROCESSES}
    refused = {
        (e["user"]["username"], e["verb"], e["requestURI"])
        for e in operator.plane.audit_events()
        if e["user"].get("username") in users
        and (e.get("annotations") or {}).get("authorization.k8s.io/decision") == "forbid"
    }
    assert refused == set()


def test_every_process_came_as_itself(operator: Operator) -> None:
    """Else the test above would prove nothing."""
    users = {e["user"].get("username") for e in operator.plane.audit_events()}
    assert {rbac.user(process) for process in rbac.PROCESSES} <= users
