"""Gang scheduling by Kubernetes' own scheduler: a control plane with the feature gates on, the operator with
TJ_GANG_SCHEDULER=kubernetes and no more rights than k8s/gangs/kubernetes gives it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest

from controlplane import ControlPlane
from controlplane.releases import release
from tests.e2e.control_plane.asked import Right, asked
from tests.e2e.control_plane.install import kubectl
from tests.e2e.control_plane.operator import Operator
from tests.e2e.control_plane.world import RealWorld
from tests.scenarios.gang_scenarios import GANG_SCENARIOS
from tests.support.pod_groups import POD_GROUP_CRDS, full_pod_group
from tjworker.kube import rbac
from tjworker.kube.resources import Process

pytestmark = pytest.mark.skipif(
    os.environ.get("TJ_REAL_KUBERNETES", "") not in ("", "1.36", "1.36.3"), reason="PodGroups came with 1.36"
)
NEVER_SENT = {("scheduling.k8s.io", "podgroups", "list")}
"""The orphan collector's, which looks every ten minutes."""


@pytest.fixture(scope="module")
def gangs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    with ControlPlane(kubernetes=release(os.environ.get("TJ_REAL_KUBERNETES", "")), gangs=True) as plane:
        made = Operator(plane, tmp_path_factory.mktemp("gangs"), "kubernetes")
        try:
            made.start()
            yield made
            made.check()
        finally:
            made.stop()


@pytest.mark.parametrize("scenario", GANG_SCENARIOS)
def test_a_scenario_of_gangs(scenario: str, gangs: Operator) -> None:
    with RealWorld(gangs) as world:
        try:
            GANG_SCENARIOS[scenario](world)
        finally:
            for job in world.jobs():
                world.delete(job)
            world.until("its room is free", lambda: not world.pods())


@pytest.mark.parametrize("scheduler", POD_GROUP_CRDS)
def test_the_crds_of_other_schedulers_take_what_is_made(scheduler: str, gangs: Operator) -> None:
    """By their fields and types, as Kubernetes' own API server judges them. Their schedulers are not run."""
    config = gangs.plane.kubeconfig
    crd = POD_GROUP_CRDS[scheduler]
    kubectl(config, "apply", "-f", "-", stdin=json.dumps(crd))
    kubectl(config, "wait", "--for=condition=Established", f"crd/{crd['metadata']['name']}", "--timeout=200s")
    made = full_pod_group(scheduler)
    path = f"/apis/{made['apiVersion']}/namespaces/default/podgroups?fieldValidation=Strict"
    answer = json.loads(kubectl(config, "create", "--raw", path, "-f", "-", stdin=json.dumps(made)))
    assert answer["spec"] == made["spec"]


def granted(process: Process) -> set[Right]:
    return {
        (group, resource, verb)
        for row in rbac.GANGS
        if row.gang == "kubernetes"
        for document in rbac.of_gang(row)
        if document["metadata"]["name"] == rbac.role(process, row.name)
        for rule in document.get("rules", ())
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


@pytest.mark.parametrize("process", rbac.PROCESSES)
def test_the_rights_on_pod_groups_are_those_that_were_used(process: Process, gangs: Operator) -> None:
    used = {right for right in asked(gangs).rights.get(process, set()) if right[1] == "podgroups"}
    assert used <= granted(process)
    if gangs.lives < len(GANG_SCENARIOS):
        pytest.skip(f"only {gangs.lives} lives were played, of {len(GANG_SCENARIOS)}")
    assert granted(process) - used - NEVER_SENT == set()
