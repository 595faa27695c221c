"""k8s/tenancy on a real API server, over every job kind that there is: none is forgotten, whoever it comes from."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controlplane import ControlPlane
from tests.e2e.control_plane.api import RefusedError, open_transport, send
from tests.e2e.control_plane.install import kubectl
from tests.e2e.control_plane.operator import Operator
from tests.e2e.control_plane.test_tenancy import JOBS, PODS, Tenant
from tests.support.kinds import collection_of
from tests.support.paths import ROOT
from tests.support.tenancy import FORBIDDEN, KINDS, LABEL, ROLES, Json, of_kind, spoilt
from tests.support.waiting import until
from tjworker.api.kinds import GUEST_KINDS
from tjworker.api.kinds.base import JobKind


@pytest.fixture(scope="module")
def tenant(plane: ControlPlane) -> Iterator[Tenant]:
    crds = [("-f", f"k8s/kinds/{kind.resource}/crd.yaml") for kind in GUEST_KINDS]
    for how, path in [("-f", "k8s/crds"), *crds, ("-k", "k8s/tenancy")]:
        kubectl(plane.kubeconfig, "apply", "--server-side", "--force-conflicts", how, str(ROOT / path))
    made = Tenant(plane, LABEL, {})
    made.awake()
    yield made
    kubectl(plane.kubeconfig, "delete", "namespace", made.namespace, "--wait=false")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind.resource))
def test_what_a_template_of_any_kind_may_not_ask_for(kind: JobKind, plane: ControlPlane, tenant: Tenant) -> None:
    def said(manifest: Json) -> str:
        return tenant.send(plane.kubeconfig, "POST", manifest)

    until("the kind is served", lambda: "404" not in said(of_kind(kind, ROLES[0])))
    plain = next((made for made in (of_kind(kind, roles) for roles in ROLES) if not said(made)), None)
    assert plain, f"takes none of {ROLES}: {said(of_kind(kind, ROLES[1]))}"
    told = {words: said(spoilt(plain, asks)) for words, asks in FORBIDDEN.items()}
    wrong = {words: answer for words, answer in told.items() if words.removeprefix("the account ") not in answer}
    assert wrong == {}
    on_the_host: Json = copy.deepcopy(plain)
    on_the_host["metadata"]["annotations"] = {"kubedl.io/network-mode": "host"}
    assert "kubedl.io/network-mode" in said(on_the_host)


def test_who_may_create_no_pods_asks_for_no_more_of_them_by_the_subresource_scale(
    plane: ControlPlane, tenant: Tenant
) -> None:
    scale = {"apiGroups": ["*"], "resources": ["*/scale"], "verbs": ["patch", "get"]}
    author, scaler = tenant.user("sizer", [JOBS, PODS, scale]), tenant.user("scaler", [JOBS, scale])
    kind = next(kind for kind in KINDS if kind.kind == "AITrainingJob")
    job = of_kind(kind, ("trainer",))
    job["spec"]["replicas"] = 2
    until("the author's role counts", lambda: tenant.send(author, "POST", job, dry_run=False) == "")

    def sized(kubeconfig: Path, replicas: int) -> str:
        path = f"{collection_of(job, tenant.namespace)}/digits/scale?dryRun=All"
        transport = open_transport(kubeconfig)
        try:
            send(transport, "PATCH", path, {"spec": {"replicas": replicas}})
        except RefusedError as error:
            return str(error)
        finally:
            transport.close()
        return ""

    until("the scaler's too", lambda: sized(scaler, 1) == "", context=lambda: sized(scaler, 1))
    until("the policy holds", lambda: "tj-job-sizes" in sized(scaler, 5), context=lambda: sized(scaler, 5))
    assert "may not create pods" in sized(scaler, 5)
    assert sized(scaler, 1) == "", "fewer are no new pods"
    assert sized(author, 5) == ""
    hpa = plane.kubeconfig_for("system:serviceaccount:kube-system:horizontal-pod-autoscaler")
    assert "may not create pods" not in sized(hpa, 5)


def test_a_worker_that_is_taken_over_makes_nothing_where_the_clusters_accounts_are(
    operator: Operator, tenant: Tenant
) -> None:
    plane = operator.plane
    worker = plane.kubeconfig_for("system:serviceaccount:tj-system:worker")
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "trainer:1"}]}

    def made(namespace: str, kind: str, spec: Json) -> str:
        group, plural = {"Pod": ("v1", "pods"), "Service": ("v1", "services")}.get(kind, ("apps/v1", "replicasets"))
        root = "/api/v1" if group == "v1" else f"/apis/{group}"
        transport = open_transport(worker)
        manifest = {"apiVersion": group, "kind": kind, "metadata": {"name": "theirs"}, "spec": spec}
        try:
            send(transport, "POST", f"{root}/namespaces/{namespace}/{plural}?dryRun=All", manifest)
        except RefusedError as error:
            return str(error)
        finally:
            transport.close()
        return ""

    def of_a_set(**spec: Any) -> Json:
        labels = {"app": "a"}
        template = {"metadata": {"labels": labels}, "spec": {**pod, "restartPolicy": "Always", **spec}}
        return {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}

    refused = "the operator makes nothing in"
    until("the policy holds", lambda: refused in made("kube-system", "Pod", pod))
    for namespace in "kube-system", "tj-system":
        assert "forbidden" in made(namespace, "Pod", pod), "in tj-system Pod Security is asked first"
        assert refused in made(namespace, "Service", {"ports": [{"port": 1}]})
        assert refused in made(namespace, "ReplicaSet", of_a_set())
    kubectl(plane.kubeconfig, "-n", tenant.namespace, "create", "serviceaccount", "admin")
    until("its accounts are there", lambda: made(tenant.namespace, "Pod", pod) == "")
    assert "as default alone" in made(tenant.namespace, "Pod", pod | {"serviceAccountName": "admin"})
    assert "as default alone" in made(tenant.namespace, "ReplicaSet", of_a_set(serviceAccountName="admin"))
    assert made(tenant.namespace, "ReplicaSet", of_a_set()) == ""
    assert made(tenant.namespace, "Service", {"ports": [{"port": 1}]}) == ""
