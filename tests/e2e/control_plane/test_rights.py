"""The shipped roles against what the operator has asked for over all lives of this session, by the API server's audit
log: nothing was refused. Runs last (`conftest`)."""

from __future__ import annotations

from tests.e2e.control_plane.operator import Operator
from tjworker.kube import rbac


def test_every_process_came_as_itself(operator: Operator) -> None:
    """Else the tests below would prove nothing."""
    users = {e["user"].get("username") for e in operator.plane.audit_events()}
    assert {rbac.user(process) for process in rbac.PROCESSES} <= users


def test_the_operator_was_never_refused_anything_by_rbac(operator: Operator) -> None:
    """Neither by the authorizer nor by admission. (A namespace that is being deleted answers 403, too, and so do Pod
    Security and quotas.)"""
    users = {rbac.user(process) for process in rbac.PROCESSES}
    refused = {
        (e["user"]["username"], e["verb"], e["requestURI"])
        for e in operator.plane.audit_events()
        if e["user"].get("username") in users
        and (
            (e.get("annotations") or {}).get("authorization.k8s.io/decision") == "forbid"
            or "cannot set blockOwnerDeletion" in (e.get("responseStatus") or {}).get("message", "")
        )
    }
    assert refused == set()
