"""k8s/ as an API server takes it: the local cluster, and a real one where TJ_REAL_KUBECONFIG names it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.manifests import K8S, Json, Template, kubectl, render, secrets, templates
from tests.support import fast_yaml as yaml
from tests.support.local_api import local_api
from tests.support.paths import ROOT
from tests.support.waiting import until

REAL_KUBECONFIG = os.environ.get("TJ_REAL_KUBECONFIG", "")
NOT_IN_THE_LOCAL_CLUSTER = {"Deployment", "StatefulSet", "NetworkPolicy", "PodDisruptionBudget"}


def test_the_local_cluster_takes_what_it_knows_of_it(tmp_path: Path) -> None:
    known = [d for d in render(K8S) if d["kind"] not in NOT_IN_THE_LOCAL_CLUSTER]
    passwords = secrets()
    text = yaml.safe_dump_all([*known, *passwords])
    with local_api(tmp_path) as kubeconfig:
        for word in ("created", "unchanged"):
            done = kubectl("apply", "-f", "-", kubeconfig=kubeconfig, stdin=text)
            assert done.returncode == 0, done.stderr
            said = [line.rsplit(" ", 1)[-1] for line in done.stdout.splitlines()]
            # Secrets have new passwords each time, here as there.
            assert len(said) == len(known) + len(passwords)
            assert said.count(word) >= len(known), done.stdout
        assert kubectl("get", "aitj", "-A", kubeconfig=kubeconfig).returncode == 0
        # A pod of each template is what this API server would take.
        for template in templates(render(K8S)):
            text = json.dumps(pod(template))
            done = kubectl("create", "--dry-run=server", "-f", "-", kubeconfig=kubeconfig, stdin=text)
            assert done.returncode == 0, done.stderr


def pod(template: Template) -> Json:
    """As its controller would make it; a claim becomes an emptyDir, there is no controller to bind it."""
    made: Json = json.loads(json.dumps(template.pod))
    claims = [c["metadata"]["name"] for c in template.owner["spec"].get("volumeClaimTemplates", ())]
    made["spec"]["volumes"] += [{"name": claim, "emptyDir": {}} for claim in claims]
    # No name that a controller of the cluster gives to one of its own.
    made["metadata"] |= {"name": f"{template.name}-admitted", "namespace": template.owner["metadata"]["namespace"]}
    return {"apiVersion": "v1", "kind": "Pod", **made}


@pytest.fixture(scope="module")
def real() -> Iterator[str]:
    if not REAL_KUBECONFIG:
        pytest.skip("TJ_REAL_KUBECONFIG names no kubeconfig")
    # What is already installed there stays so.
    before = kubectl("get", "namespace", "tj-system", kubeconfig=REAL_KUBECONFIG).returncode == 0
    yield REAL_KUBECONFIG
    if not before:
        kubectl("delete", "-k", str(K8S), "--wait=false", "--ignore-not-found", kubeconfig=REAL_KUBECONFIG)


@pytest.mark.real
def test_a_real_api_server_takes_all_of_it_and_admits_its_pods(real: str) -> None:
    applied = kubectl("apply", "--validate=strict", "-k", str(K8S), kubeconfig=real)
    assert applied.returncode == 0, applied.stderr
    assert "Warning" not in applied.stderr  # Pod Security warns here of what it would refuse
    again = kubectl("apply", "--validate=strict", "-k", str(K8S), kubeconfig=real)
    # kubectl always sends the lists without a merge key of these two; nothing comes of it.
    restless = ("statefulset", "poddisruptionbudget")
    assert {line.rsplit(" ", 1)[-1] for line in again.stdout.splitlines() if not line.startswith(restless)} == {
        "unchanged"
    }
    assert kubectl("apply", "-f", "-", kubeconfig=real, stdin=yaml.safe_dump_all(secrets())).returncode == 0
    for template in templates(render(K8S)):
        done = kubectl("create", "--dry-run=server", "-f", "-", kubeconfig=real, stdin=json.dumps(pod(template)))
        assert done.returncode == 0, f"{template.name}: {done.stderr}"
    # And the admission is awake.
    careless = pod(templates(render(K8S))[0])
    del careless["spec"]["containers"][0]["securityContext"]
    refused = kubectl("create", "--dry-run=server", "-f", "-", kubeconfig=real, stdin=json.dumps(careless))
    assert 'violates PodSecurity "restricted' in refused.stderr


@pytest.mark.real
def test_whoever_applies_again_leaves_the_number_of_workers_as_it_is(real: str) -> None:
    """Client-side and server-side: an upgrade must not undo `kubectl scale`, nor what an autoscaler has set."""

    def workers() -> str:
        return kubectl(
            "-n", "tj-system", "get", "deploy/tj-worker", "-o=jsonpath={.spec.replicas}", kubeconfig=real
        ).stdout

    assert kubectl("apply", "-k", str(K8S), kubeconfig=real).returncode == 0
    for count, options in (("8", ()), ("3", ("--server-side", "--force-conflicts"))):
        scaled = kubectl("-n", "tj-system", "scale", "deploy/tj-worker", f"--replicas={count}", kubeconfig=real)
        assert scaled.returncode == 0, scaled.stderr
        again = kubectl("apply", *options, "-k", str(K8S), kubeconfig=real)
        assert again.returncode == 0, again.stderr
        assert workers() == count


@pytest.mark.real
def test_a_real_api_server_takes_the_installation_for_some_namespaces(real: str, tmp_path: Path) -> None:
    run = uuid.uuid4().hex[:6]
    own, served, other = f"ops-{run}", f"team-{run}", "default"
    # As the documentation says: a kustomization of one's own around ours, and the roles for the others.
    (tmp_path / "kustomization.yaml").write_text(
        f"namespace: {own}\nresources: [{os.path.relpath(K8S / 'namespaced', tmp_path.resolve())}]\n", encoding="utf-8"
    )
    arguments = ("--namespaces", served, "--operator-namespace", own)
    roles = subprocess.run(
        [sys.executable, "-m", "tjworker.kube.rbac", *arguments], capture_output=True, text=True, check=True, cwd=ROOT
    )
    for namespace in (own, served):
        assert kubectl("create", "namespace", namespace, kubeconfig=real).returncode == 0
    try:
        done = kubectl("apply", "--validate=strict", "-k", str(tmp_path), kubeconfig=real)
        assert done.returncode == 0, done.stderr
        done = kubectl("apply", "--validate=strict", "-f", "-", kubeconfig=real, stdin=roles.stdout)
        assert done.returncode == 0, done.stderr
        for process, verb, resource, where in (
            ("watcher", "list", "pods", {served}),
            ("watcher", "create", "pods", set()),
            ("watcher", "update", "leases", {own}),
            ("worker", "create", "pods", {served}),
            ("worker", "get", "secrets", set()),
        ):
            who = f"system:serviceaccount:{own}:{process}"
            for namespace in (own, served, other):
                asked = kubectl("auth", "can-i", verb, resource, "--as", who, "-n", namespace, kubeconfig=real)
                want = "yes" if namespace in where else "no"
                assert asked.stdout.strip() == want, (process, verb, resource, namespace)
    finally:
        kubectl("delete", "namespace", own, served, "--wait=false", kubeconfig=real)


@pytest.mark.real
def test_people_who_may_edit_a_namespace_may_edit_its_jobs_and_never_their_status(real: str) -> None:
    assert kubectl("apply", "-k", str(K8S / "users"), kubeconfig=real).returncode == 0
    namespace = f"team-{uuid.uuid4().hex[:6]}"
    assert kubectl("create", "namespace", namespace, kubeconfig=real).returncode == 0
    may = {
        "view": {"get aitrainingjobs", "watch trainingjobs.paddlepaddle.org"},
        "edit": {"get aitrainingjobs", "watch trainingjobs.paddlepaddle.org", "create aitrainingjobs"},
        "admin": {"get aitrainingjobs", "watch trainingjobs.paddlepaddle.org", "create aitrainingjobs"},
    }
    asked = (*sorted(may["admin"]), "update aitrainingjobs/status")

    def allowed(user: str) -> set[str]:
        def can(what: str) -> bool:
            verb, resource = what.split()
            resource, *subresource = resource.split("/")
            option = [f"--subresource={name}" for name in subresource]
            options = ("--as", user, "-n", namespace)
            said = kubectl("auth", "can-i", verb, resource, *option, *options, kubeconfig=real)
            return said.stdout.strip() == "yes"

        return {what for what in asked if can(what)}

    try:
        for name in may:
            binding = ("create", "rolebinding", name, f"--clusterrole={name}", f"--user={name}-{namespace}")
            assert kubectl(*binding, "-n", namespace, kubeconfig=real).returncode == 0
        for name, want in may.items():  # the roles are aggregated by a controller
            until(f"{name} may what it should", lambda u=f"{name}-{namespace}", w=want: allowed(u) == w)  # type: ignore[misc]
    finally:
        kubectl("delete", "namespace", namespace, "--wait=false", kubeconfig=real)
