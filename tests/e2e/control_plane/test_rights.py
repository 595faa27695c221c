"""The shipped roles against what the operator has asked for over all lives of this session, by the API server's audit
log: nothing was refused, and no verb is there that nobody needs. Runs last (`conftest`). Which verbs were not asked for
is said only when the scenarios have been played: few lives need few verbs."""

from __future__ import annotations

import pytest

from tests.e2e.control_plane.operator import Operator
from tests.scenarios.scenarios import SCENARIOS
from tjworker.api.resources import NODES
from tjworker.kube import rbac
from tjworker.kube.resources import RESOURCES, Process
from tjworker.reconcile.children import collected

Right = tuple[str, str, str]
"""(group, resource[/subresource], verb)."""
NEVER_SENT = {
    # Asked for by the admission plugin OwnerReferencesPermissionEnforcement, which has refused nothing (below).
    *((row.group, f"{row.plural}/finalizers", "update") for row in RESOURCES.values() if row.is_job),
    # The orphan collector's, which looks every ten minutes: a session may be shorter.
    *((RESOURCES[name].group, RESOURCES[name].plural, "list") for name in (*collected("none"), NODES)),
    # Both kinds of jobs have the same verbs, and only an AITrainingJob has a time to live.
    ("paddlepaddle.org", "trainingjobs", "delete"),
}


def asked(operator: Operator, process: Process) -> set[Right]:
    user, found = rbac.user(process), set()
    for event in operator.plane.audit_events():
        about = event.get("objectRef") or {}
        if event["user"].get("username") == user and about:
            parts = (about.get("resource", ""), about.get("subresource", ""))
            found.add((about.get("apiGroup", ""), "/".join(part for part in parts if part), event["verb"]))
    return found


def granted(process: Process) -> set[Right]:
    return {
        (group, resource, verb)
        for document in rbac.cluster_wide()
        if document["metadata"]["name"] == rbac.role(process)
        for rule in document.get("rules", ())
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


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


@pytest.mark.parametrize("process", rbac.PROCESSES)
def test_no_verb_is_granted_that_no_life_needs(process: Process, operator: Operator) -> None:
    if operator.lives < len(SCENARIOS):
        pytest.skip(f"only {operator.lives} lives were played, the scenarios alone are {len(SCENARIOS)}")
    unused = granted(process) - asked(operator, process) - NEVER_SENT
    assert unused == set(), sorted(unused)
