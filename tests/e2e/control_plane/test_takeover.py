"""A job's author against the operator itself: a template with the labels of its Redis, the account of its workers, the
Secret with its passwords. The installation for single namespaces lives apart from them, and no operator serves the
namespace that it lives in. A Service `tj-redis` in a job's own namespace shows that the attack is awake."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.control_plane.install import kubectl
from tests.e2e.control_plane.operator import Operator
from tests.e2e.control_plane.world import RealWorld
from tests.integration.manifests import K8S, render, templates
from tests.scenarios.world import job, play, role
from tjworker.kube import rbac

Json = dict[str, Any]
DOCUMENTS = render(K8S / "namespaced")
(SERVICE,) = (d for d in DOCUMENTS if (d["kind"], d["metadata"]["name"]) == ("Service", "tj-redis"))
(WORKER,) = (t for t in templates(DOCUMENTS) if t.component == "worker")


def thief(name: str) -> Json:
    """With the labels that the Service selects by."""
    made = role(1, annotations=play(), ports=(6379,))
    made["template"]["metadata"]["labels"] = dict(SERVICE["spec"]["selector"])
    return job({"trainer": made}, name=name)


def endpoints(operator: Operator, namespace: str) -> list[str] | None:
    """Names of the pods behind the Service `tj-redis` there; None before the controller has looked."""
    slices = ("-n", namespace, "get", "endpointslices", "-l", "kubernetes.io/service-name=tj-redis", "-o", "json")
    found = json.loads(kubectl(operator.plane.kubeconfig, *slices))["items"]
    if not found:
        return None
    return [e["targetRef"]["name"] for one in found for e in one.get("endpoints") or () if "targetRef" in e]


def create(operator: Operator, namespace: str, document: Json) -> None:
    placed = {**document, "metadata": {**document["metadata"], "namespace": namespace}}
    kubectl(operator.plane.kubeconfig, "create", "-f", "-", stdin=json.dumps(placed))


@pytest.fixture
def redis(operator: Operator, world: RealWorld) -> Iterator[None]:
    """Its Service, where the operator lives and, by the name that a thief would like, in the served namespace."""
    create(operator, rbac.NAMESPACE, SERVICE)
    create(operator, world.namespace, SERVICE)
    yield
    for what in ("service/tj-redis", "aitj/thief"):
        kubectl(operator.plane.kubeconfig, "-n", rbac.NAMESPACE, "delete", what, "--ignore-not-found")


def test_a_job_with_the_labels_of_redis_receives_nothing_that_is_meant_for_redis(
    operator: Operator, world: RealWorld, redis: None
) -> None:
    world.apply(thief("thief"))
    world.until("the labels count in its own namespace", lambda: bool(endpoints(operator, world.namespace)))
    world.until("the controller has looked", lambda: endpoints(operator, rbac.NAMESPACE) is not None)
    assert endpoints(operator, rbac.NAMESPACE) == []


def test_a_job_beside_the_operator_is_refused_and_gets_no_pod(
    operator: Operator, world: RealWorld, redis: None
) -> None:
    def beside(*what: str) -> Json:
        found: Json = json.loads(kubectl(operator.plane.kubeconfig, "-n", rbac.NAMESPACE, "get", *what, "-o", "json"))
        return found

    create(operator, rbac.NAMESPACE, thief("thief"))
    world.until("it has ended", lambda: beside("aitj", "thief").get("status", {}).get("phase") == "Failed")
    (why,) = [c for c in beside("aitj", "thief")["status"]["conditions"] if c["type"] == "Failed"]
    assert why["reason"] == "InvalidSpec"
    assert "tj-system is the operator's own namespace" in why["message"]
    assert beside("pods")["items"] == []
    assert not endpoints(operator, rbac.NAMESPACE)


def test_the_operators_accounts_and_secrets_lie_in_no_namespace_that_it_serves(world: RealWorld) -> None:
    """A pod names accounts and Secrets of its own namespace alone."""
    own = {d["metadata"]["namespace"] for d in DOCUMENTS}
    (settings,) = (d for d in DOCUMENTS if d["kind"] == "ConfigMap")
    assert own == {rbac.NAMESPACE} == {WORKER.owner["metadata"]["namespace"]}
    assert own.isdisjoint(settings["data"]["TJ_NAMESPACES"].split(","))
    world.apply(job({"trainer": role(1, annotations=play(), ports=())}))
    world.until("it runs", lambda: world.phase() == "Running")
    account = world.pods()["digits-trainer-0"]["spec"].get("serviceAccountName", "default")
    assert account not in rbac.PROCESSES
