"""k8s/tenancy on a real API server: what a tenant's job may not ask for, who may create jobs at all, and what the
sample quota holds. Mostly asked with dryRun, so that nothing runs."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controlplane import ControlPlane
from tests.e2e.control_plane.api import RefusedError, open_transport, send
from tests.e2e.control_plane.install import kubectl
from tests.support import fast_yaml as yaml
from tests.support.kinds import collection_of
from tests.support.paths import ROOT
from tests.support.tenancy import ACCOUNTS, CASES, LABEL, asks, edl
from tests.support.waiting import until

Json = dict[str, Any]
GUEST = "pytorchjobs.kubeflow.org"
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def tenancy(plane: ControlPlane) -> ControlPlane:
    given = [("-f", "k8s/crds"), ("-f", f"k8s/kinds/{GUEST}/crd.yaml"), ("-k", "k8s/users"), ("-k", "k8s/tenancy")]
    for how, path in given:
        kubectl(plane.kubeconfig, "apply", "--server-side", "--force-conflicts", how, str(ROOT / path))
    return plane


class Tenant:
    """A namespace, and users of it: service accounts, since any user will do."""

    def __init__(self, plane: ControlPlane, labels: dict[str, str], annotations: dict[str, str]) -> None:
        self.plane = plane
        self.namespace = f"tenant-{os.getpid()}-{next(_numbers)}"
        metadata = {"name": self.namespace, "labels": labels, "annotations": annotations}
        self._apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})

    def user(self, name: str, rules: list[Json]) -> Path:
        meta = {"name": name, "namespace": self.namespace}
        api = "rbac.authorization.k8s.io"
        self._apply({"apiVersion": f"{api}/v1", "kind": "Role", "metadata": meta, "rules": rules})
        subject = {"kind": "ServiceAccount", "name": name, "namespace": self.namespace}
        self._apply(
            {
                "apiVersion": f"{api}/v1",
                "kind": "RoleBinding",
                "metadata": meta,
                "roleRef": {"apiGroup": api, "kind": "Role", "name": name},
                "subjects": [subject],
            }
        )
        return self.plane.kubeconfig_for(f"system:serviceaccount:{self.namespace}:{name}")

    def send(self, kubeconfig: Path, method: str, manifest: Json, *, dry_run: bool = True, name: str = "") -> str:
        """The refusal's words; '' when it is taken."""
        path = collection_of(manifest, self.namespace) + (f"/{name}" if name else "")
        transport = open_transport(kubeconfig)
        try:
            send(transport, method, path + ("?dryRun=All" if dry_run else ""), manifest)
        except RefusedError as error:
            return str(error)
        finally:
            transport.close()
        return ""

    def _apply(self, document: Json) -> None:
        kubectl(self.plane.kubeconfig, "apply", "-f", "-", stdin=json.dumps(document))

    def awake(self) -> None:
        """The API server takes a policy up a moment after it was made."""
        forbidden = asks(hostPID=True)
        until("the policy holds", lambda: "tj-job-templates" in self.send(self.plane.kubeconfig, "POST", forbidden))


@pytest.fixture
def tenants(tenancy: ControlPlane) -> Iterator[list[Tenant]]:
    made: list[Tenant] = []
    yield made
    for tenant in made:
        kubectl(tenancy.kubeconfig, "delete", "namespace", tenant.namespace, "--wait=false")


@pytest.mark.parametrize("annotations", ["", "default, trainer", "trainer"])
def test_what_a_template_may_ask_for(annotations: str, tenancy: ControlPlane, tenants: list[Tenant]) -> None:
    given = {ACCOUNTS: annotations} if annotations else {}
    tenants.append(tenant := Tenant(tenancy, LABEL, given))
    tenant.awake()
    cases = {sentence: case for sentence, case in CASES.items() if case.annotations == given}
    assert cases
    said = {sentence: tenant.send(tenancy.kubeconfig, "POST", case.manifest) for sentence, case in cases.items()}
    wrong = {s: said[s] for s, case in cases.items() if bool(said[s]) != bool(case.want) or case.want not in said[s]}
    assert wrong == {}


def test_where_the_label_is_missing_nothing_is_refused(tenancy: ControlPlane, tenants: list[Tenant]) -> None:
    tenants.append(tenant := Tenant(tenancy, {}, {}))
    tenants.append(other := Tenant(tenancy, LABEL, {}))
    other.awake()
    assert [s for s, case in CASES.items() if tenant.send(tenancy.kubeconfig, "POST", case.manifest)] == []


JOBS = {
    "apiGroups": ["elasticdeeplearning.ai", "paddlepaddle.org", "kubeflow.org"],
    "resources": ["aitrainingjobs", "trainingjobs", "pytorchjobs"],
    "verbs": ["create", "patch", "get"],
}
PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]}


def test_who_may_create_no_pods_may_create_no_jobs_and_change_none(
    tenancy: ControlPlane, tenants: list[Tenant]
) -> None:
    tenants.append(tenant := Tenant(tenancy, LABEL, {}))
    tenant.awake()
    author, launcher = tenant.user("author", [JOBS, PODS]), tenant.user("launcher", [JOBS])
    until("the author's role counts", lambda: tenant.send(author, "POST", asks()) == "")
    until("the launcher's too", lambda: "cannot create resource" not in tenant.send(launcher, "POST", asks()))
    refused = tenant.send(launcher, "POST", asks())
    who = f"system:serviceaccount:{tenant.namespace}:launcher"
    assert f"{who} may not create pods in {tenant.namespace}" in refused
    # A job that says it was somebody else's is still this user's.
    forged = asks() | {"metadata": {"name": "digits", "annotations": {"author": "system:admin"}}}
    assert f"{who} may not create pods" in tenant.send(launcher, "POST", forged)
    assert tenant.send(author, "POST", asks(), dry_run=False) == ""
    other_image = {**asks(), "spec": {"timeLimit": 60}}
    assert "may not create pods" in tenant.send(launcher, "PATCH", other_image, name="digits")
    for metadata in {"annotations": {"paddlepaddle.org/etcd-image": "mine:1"}}, {"labels": {"seen": "yes"}}:
        changed = {**asks(), "spec": {}, "metadata": metadata}
        assert f"{who} may not create pods" in tenant.send(launcher, "PATCH", changed, name="digits"), metadata
        assert tenant.send(author, "PATCH", changed, name="digits") == "", metadata
    held = {**asks(), "spec": {}, "metadata": {"finalizers": ["example.org/held"]}}
    assert tenant.send(launcher, "PATCH", held, name="digits") == "", "only a new spec, annotation or label is judged"
    assert tenant.send(author, "PATCH", other_image, name="digits") == ""


def test_who_may_create_no_pods_gives_no_etcd_another_image(tenancy: ControlPlane, tenants: list[Tenant]) -> None:
    """It is an annotation of a TrainingJob that names it."""
    tenants.append(tenant := Tenant(tenancy, LABEL, {}))
    tenant.awake()
    assert tenant.send(tenancy.kubeconfig, "POST", edl(), dry_run=False) == ""
    launcher = tenant.user("launcher", [JOBS])
    held = {**edl(), "spec": {}, "metadata": {"finalizers": ["example.org/held"]}}
    until("the launcher's role counts", lambda: tenant.send(launcher, "PATCH", held, name="digits") == "")
    image = {**edl(), "spec": {}, "metadata": {"annotations": {"paddlepaddle.org/etcd-image": "mine:1"}}}
    assert "may not create pods" in tenant.send(launcher, "PATCH", image, name="digits")


def test_the_right_to_create_pods_is_asked_of_a_guests_author_too(tenancy: ControlPlane, tenants: list[Tenant]) -> None:
    tenants.append(tenant := Tenant(tenancy, LABEL, {}))
    tenant.awake()
    spec = {"containers": [{"name": "pytorch", "image": "trainer:1"}]}
    guest = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "digits"},
        "spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 1, "template": {"spec": spec}}}},
    }
    author, launcher = tenant.user("author", [JOBS, PODS]), tenant.user("launcher", [JOBS])
    until("the author's role counts", lambda: tenant.send(author, "POST", guest) == "")
    until("the launcher's too", lambda: "cannot create resource" not in tenant.send(launcher, "POST", guest))
    until("the policy holds", lambda: "tj-job-templates" in tenant.send(launcher, "POST", guest))
    who = f"system:serviceaccount:{tenant.namespace}:launcher"
    assert f"{who} may not create pods in {tenant.namespace}" in tenant.send(launcher, "POST", guest)
    assert tenant.send(author, "POST", guest, dry_run=False) == ""
    for changed in {"spec": {"runPolicy": {"backoffLimit": 1}}}, {"metadata": {"annotations": {"a": "b"}}}:
        patch = {**guest, "spec": {}, "metadata": {}} | changed
        assert f"{who} may not create pods" in tenant.send(launcher, "PATCH", patch, name="digits"), changed
        assert tenant.send(author, "PATCH", patch, name="digits") == "", changed
    held = {**guest, "spec": {}, "metadata": {"finalizers": ["example.org/held"]}}
    assert tenant.send(launcher, "PATCH", held, name="digits") == ""


def test_a_job_that_was_there_before_the_label_lives_on(tenancy: ControlPlane, tenants: list[Tenant]) -> None:
    tenants.append(tenant := Tenant(tenancy, {}, {}))
    admin = tenancy.kubeconfig
    assert tenant.send(admin, "POST", asks(hostPID=True), dry_run=False) == ""
    kubectl(admin, "label", "namespace", tenant.namespace, "elasticdeeplearning.ai/tenancy=restricted")
    tenant.awake()
    status = {"apiGroups": ["elasticdeeplearning.ai"], "resources": ["aitrainingjobs/status"], "verbs": ["patch"]}
    operator = tenant.user("operator", [status])
    ended = {**asks(), "spec": {}, "metadata": {}, "status": {"phase": "Failed"}}
    until("the operator writes its status", lambda: tenant.send(operator, "PATCH", ended, name="digits/status") == "")
    held = {**asks(), "spec": {}, "metadata": {"finalizers": ["example.org/held"]}}
    assert tenant.send(admin, "PATCH", held, name="digits") == "", "as Kubernetes does when it deletes in foreground"
    for changed in {"labels": {"seen": "yes"}}, {"annotations": {"seen": "yes"}}:
        again = {**asks(), "spec": {}, "metadata": changed}
        assert "hostPID" in tenant.send(admin, "PATCH", again, name="digits"), changed
    assert "hostPID" in tenant.send(admin, "PATCH", {**asks(), "spec": {"timeLimit": 60}}, name="digits")


def test_the_sample_quota_counts_jobs(tenancy: ControlPlane, tenants: list[Tenant]) -> None:
    tenants.append(tenant := Tenant(tenancy, {}, {}))
    quota = yaml.safe_load((ROOT / "k8s/tenancy/quota.yaml").read_text(encoding="utf-8"))
    quota["spec"]["hard"]["count/aitrainingjobs.elasticdeeplearning.ai"] = "1"
    admin = tenancy.kubeconfig

    def counted() -> Json:
        # A new kind is counted within 30 s, in quotas that are there only when these change (or after 5 minutes).
        quota["spec"]["hard"]["services"] = str(200 + next(_numbers))
        kubectl(admin, "-n", tenant.namespace, "apply", "--validate=strict", "-f", "-", stdin=json.dumps(quota))
        text = kubectl(admin, "-n", tenant.namespace, "get", "resourcequota", "training", "-o", "json")
        used: Json = (json.loads(text).get("status") or {}).get("used") or {}
        return used

    until("the quota counts", lambda: counted().keys() == quota["spec"]["hard"].keys())
    # Admission may not have seen yet what was counted.
    until("the first is taken", lambda: tenant.send(admin, "POST", asks(), dry_run=False) == "")
    second = asks() | {"metadata": {"name": "second"}}
    assert "exceeded quota: training" in tenant.send(admin, "POST", second)
