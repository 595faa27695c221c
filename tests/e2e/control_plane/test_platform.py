"""What platforms refuse at admission: Pod Security `restricted`, a ResourceQuota that is too small, owner references of
those who may not set them. The operator comes with the roles that k8s/ gives it, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.control_plane.api import RefusedError, open_transport, send
from tests.e2e.control_plane.install import kubectl
from tests.e2e.control_plane.operator import Operator
from tests.e2e.control_plane.world import RealWorld
from tests.scenarios.trainingjob_scenarios import is_numbered, living
from tests.scenarios.world import job, play, role, training_job
from tests.support import fast_yaml as yaml
from tests.support.paths import ROOT
from tjworker.kube import rbac
from tjworker.kube.resources import Process

Json = dict[str, Any]
ENFORCE = {"pod-security.kubernetes.io/enforce": "restricted"}
RESTRICTED: Json = {
    "podSecurityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
}
"""Of a TrainingJob: for each of its pods, and for each container."""
MOST_CREATES = 20
"""In the first 20 s; every further minute has fewer, by the backoff."""


def hardened(made: Json) -> Json:
    """As `restricted` asks for it; without a fixed user, as OpenShift chooses one."""
    spec = made["template"]["spec"]
    spec["securityContext"] = RESTRICTED["podSecurityContext"]
    for container in spec["containers"]:
        container["securityContext"] = RESTRICTED["securityContext"]
    return made


# -- who the operator is ---------------------------------------------------------------------------
@pytest.mark.parametrize("process", rbac.PROCESSES)
def test_the_operator_of_these_tests_is_no_administrator(operator: Operator, process: Process) -> None:
    kubeconfig = operator.plane.kubeconfig_for(rbac.user(process))
    for verb, resource in (("*", "*"), ("get", "secrets"), ("create", "clusterrolebindings"), ("delete", "nodes")):
        with pytest.raises(AssertionError):  # kubectl says no, and ends with 1
            kubectl(kubeconfig, "auth", "can-i", verb, resource, "--all-namespaces")


def test_without_the_right_to_finalizers_an_owner_reference_is_refused(operator: Operator, world: RealWorld) -> None:
    """That the plugin is awake, and that the right is needed: somebody with the worker's role and without it."""
    world.apply(job({"trainer": role(1)}, suspend=True))
    world.until("the job is there", lambda: world.jobs() == ["digits"])
    (owner,) = world.owner_references()
    reference = {**owner, "controller": True, "blockOwnerDeletion": True}
    pod = {
        "metadata": {"name": "owned", "ownerReferences": [reference]},
        "spec": {"containers": [{"name": "c", "image": "x"}]},
    }
    less = f"system:serviceaccount:{world.namespace}:less"
    role_without = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "less", "namespace": world.namespace},
        "rules": without_finalizers(worker_rules()),
    }
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "less", "namespace": world.namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "less"},
        "subjects": [{"kind": "ServiceAccount", "name": "less", "namespace": world.namespace}],
    }
    kubectl(operator.plane.kubeconfig, "apply", "-f", "-", stdin=yaml.safe_dump_all([role_without, binding]))

    def create(kubeconfig: Path) -> str:
        transport = open_transport(kubeconfig)
        try:
            send(transport, "POST", f"/api/v1/namespaces/{world.namespace}/pods?dryRun=All", pod)
        except RefusedError as error:
            return str(error)
        finally:
            transport.close()
        return "created"

    refused = operator.plane.kubeconfig_for(less)
    world.until("the plugin refuses it", lambda: "cannot set blockOwnerDeletion" in create(refused))
    assert create(operator.plane.kubeconfig_for(rbac.user("worker"))) == "created"


def worker_rules() -> list[Json]:
    (found,) = [
        d["rules"]
        for d in rbac.cluster_wide()
        if d["kind"] == "ClusterRole" and d["metadata"]["name"] == rbac.role("worker")
    ]
    rules: list[Json] = json.loads(json.dumps(found))
    return rules


def without_finalizers(rules: list[Json]) -> list[Json]:
    for rule in rules:
        rule["resources"] = [r for r in rule["resources"] if not r.endswith("/finalizers")]
    return [rule for rule in rules if rule["resources"]]


# -- Pod Security ----------------------------------------------------------------------------------
def restrict(world: RealWorld) -> None:
    """Admission takes the label up a moment after it was written."""
    world.label_namespace(**ENFORCE)
    pod = {"metadata": {"name": "lax"}, "spec": {"containers": [{"name": "c", "image": "x"}]}}

    def holds() -> bool:
        try:
            send(world._transport, "POST", f"/api/v1/namespaces/{world.namespace}/pods?dryRun=All", pod)
        except RefusedError as error:
            return "violates PodSecurity" in str(error)
        return False

    world.until("Pod Security holds", holds)


def test_a_job_that_keeps_to_restricted_lives_its_whole_life(world: RealWorld) -> None:
    restrict(world)
    flaky = play(failing_attempts=1, failing_run_seconds=1, run_seconds=3)
    world.apply(job({"trainer": hardened(role(2, annotations=flaky, restartPolicy="OnFailure", restartScope="Pod"))}))
    world.until("it succeeds", lambda: world.phase() == "Succeed")
    assert world.status()["restartCounts"]["trainer"]["application"] == 2
    assert (world.pods(), world.services()) == ({}, [])


def test_a_job_that_does_not_keep_to_restricted_says_so_and_is_tried_again(world: RealWorld) -> None:
    restrict(world)
    world.apply(job({"trainer": role(2, annotations=play())}))
    world.until("it says why", lambda: world.condition("Running").get("reason") == "FailedCreate")
    message = world.condition("Running")["message"]
    assert "digits-trainer-" in message
    assert 'violates PodSecurity "restricted' in message
    assert "securityContext.runAsNonRoot=true" in message, "what to write instead"
    world.stays(
        "it waits, with nothing that runs", lambda: (world.phase(), world.pods()) == ("Pending", {}), for_seconds=20
    )
    assert world.requests()["create pods"] <= MOST_CREATES
    world.label_namespace(**{"pod-security.kubernetes.io/enforce": "privileged"})
    world.until("it runs when the rule is lifted", lambda: world.phase() == "Running")


def test_a_training_job_that_keeps_to_restricted_lives_its_whole_life(world: RealWorld) -> None:
    """Master with etcd, parameter server and trainers, and the one that is made again: by its batch Job's controller,
    or by the operator where that one lets it wait."""
    restrict(world)
    world.apply(training_job(least=2, pservers=1, fault_tolerant=True, **RESTRICTED))
    world.until("it runs", lambda: world.phase() == "Running", within_seconds=600)
    before = living(world)
    gone = sorted(before)[0]
    world.delete_pod(gone)
    world.until(
        "a trainer is made again, in the same security",
        lambda: len(living(world)) == 2 and bool(living(world).keys() - before.keys()),
    )
    world.until("it runs again", lambda: world.phase() == "Running" and is_numbered(world, 2))


def test_a_training_job_that_does_not_keep_to_restricted_says_so(world: RealWorld) -> None:
    restrict(world)
    world.apply(training_job(least=2, pservers=1))
    world.until("it says why", lambda: world.condition("Running").get("reason") == "FailedCreate")
    assert 'violates PodSecurity "restricted' in world.condition("Running")["message"]
    assert world.pods() == {}
    world.label_namespace(**{"pod-security.kubernetes.io/enforce": "privileged"})
    world.until("it runs when the rule is lifted", lambda: world.phase() == "Running", within_seconds=600)


# -- ResourceQuota ---------------------------------------------------------------------------------
def test_a_job_over_its_quota_names_the_quota_and_goes_on_when_it_is_raised(world: RealWorld) -> None:
    world.set_quota("team-pods", pods="2")
    world.apply(job({"trainer": role(4, annotations=play())}))
    world.until("it says why", lambda: "exceeded quota: team-pods" in world.condition("Running").get("message", ""))
    assert world.condition("Running")["reason"] == "FailedCreate"
    assert "requested: pods=1, used: pods=2, limited: pods=2" in world.condition("Running")["message"]
    before = world.uids()
    world.set_quota("team-pods", pods="4")
    world.until("all are there", lambda: len(world.pods()) == 4)
    assert before.items() <= world.uids().items(), "those that ran run on"
    for name in world.pods():
        world.end_pod(name)
    world.until("it succeeds", lambda: world.phase() == "Succeed")


# -- the installation itself -----------------------------------------------------------------------
def test_the_installation_keeps_to_restricted(operator: Operator, world: RealWorld) -> None:
    """Into a namespace that enforces it and warns of it, and kubectl fails at a warning."""
    world.label_namespace(**ENFORCE, **{"pod-security.kubernetes.io/warn": "restricted"})
    kubeconfig = operator.plane.kubeconfig
    options = ("--dry-run=server", "--warnings-as-errors", "--validate=strict", "-n", world.namespace, "-f", "-")
    text = kubectl(kubeconfig, "kustomize", str(ROOT / "k8s/base"))
    kubectl(kubeconfig, "apply", *options, stdin=text)
    with pytest.raises(AssertionError, match="would violate PodSecurity"):
        kubectl(kubeconfig, "apply", *options, stdin=text.replace("runAsNonRoot: true", "runAsNonRoot: false"))
