"""The shipped roles against what the operator has asked for over all lives of the sessions before, by the API server's
audit log: nothing was refused, and no verb is there that nobody needs. `make test-real` runs this when the lives are
over (TJ_REAL_ASKED: where they have left it). Which verbs were not asked for is said only when the scenarios have been
played: few lives need few verbs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.e2e.control_plane.asked import Asked, Right, kept
from tests.scenarios.scenarios import SCENARIOS
from tjworker.api.resources import NODES
from tjworker.kube import rbac
from tjworker.kube.resources import RESOURCES, Process
from tjworker.reconcile.children import collected

NEVER_SENT = {
    # Asked for by the admission plugin OwnerReferencesPermissionEnforcement, which has refused nothing (below).
    *((row.group, f"{row.plural}/finalizers", "update") for row in RESOURCES.values() if row.is_job),
    # The orphan collector's, which looks every ten minutes: a session may be shorter.
    *((RESOURCES[name].group, RESOURCES[name].plural, "list") for name in (*collected("none"), NODES)),
    # Both kinds of jobs have the same verbs, and only an AITrainingJob has a time to live.
    ("paddlepaddle.org", "trainingjobs", "delete"),
}


@pytest.fixture(scope="module")
def asked() -> Asked:
    found = kept(Path(os.environ.get("TJ_REAL_ASKED") or "/nowhere"))
    if not found.lives:
        pytest.skip("no lives were played: `make test-real` plays them before")
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


def test_every_process_came_as_itself(asked: Asked) -> None:
    """Else the tests below would prove nothing."""
    assert asked.rights.keys() == set(rbac.PROCESSES)


def test_the_operator_was_never_refused_anything_by_rbac(asked: Asked) -> None:
    assert asked.refused == set()


@pytest.mark.parametrize("process", rbac.PROCESSES)
def test_no_verb_is_granted_that_no_life_needs(process: Process, asked: Asked) -> None:
    if asked.lives < len(SCENARIOS):
        pytest.skip(f"only {asked.lives} lives were played, the scenarios alone are {len(SCENARIOS)}")
    unused = granted(process) - asked.rights[process] - NEVER_SENT
    assert unused == set(), sorted(unused)
