"""All of `tests.scenarios.scenarios` once more: real processes, the real control plane, the shipped RBAC."""

from __future__ import annotations

import pytest

from tests.e2e.control_plane.operator import Operator
from tests.e2e.control_plane.world import RealWorld
from tests.scenarios.scenarios import SCENARIOS
from tjworker.kube import rbac


@pytest.mark.parametrize("sentence", SCENARIOS)
def test_scenario(sentence: str, world: RealWorld) -> None:
    SCENARIOS[sentence](world)


def test_the_operator_was_never_refused_anything_by_rbac(operator: Operator) -> None:
    """Runs last, over all that the scenarios have asked for. (A namespace that is being deleted answers 403, too.)"""
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
