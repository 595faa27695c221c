"""What `tj doctor` says of a cluster: a real API server in process, with what goes wrong put in front of it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache

import orjson
import pytest

from benchmarks.support.inprocess import InProcessTransport
from localcluster.apiserver import ApiServer
from localcluster.wire import Json, Request, Response, Watch
from tests.support.crds import crd_of
from tests.support.kinds import AITRAININGJOBS
from tjworker.api.kinds import KINDS
from tjworker.base import GroupResource
from tjworker.cli.checks import cluster
from tjworker.cli.checks.check import State
from tjworker.kube.resources import needed

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CRD = KINDS[AITRAININGJOBS]
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NAME = f"CRD {CRD.resource}"
OWN_RESOURCES = tuple(row.name for row in needed(KINDS))
OTHERS = tuple(resource for resource in KINDS if resource != AITRAININGJOBS)
OPTIONAL = tuple(resource for resource in OTHERS if KINDS[resource].optional)
Front = Callable[[Request], Response | None]


def refuse(status: int, path: str) -> Front:
    body = orjson.dumps({"kind": "Status", "status": "Failure", "code": status, "reason": "Forbidden", "message": "no"})
    return lambda request: Response(status, body) if request.path.startswith(path) else None


def deny(resource: str, verb: str, subresource: str | None = None, namespace: str | None = None) -> Front:
    """RBAC without this verb."""

    def front(request: Request) -> Response | None:
        if not request.path.endswith("/selfsubjectaccessreviews"):
            return None
        asked = orjson.loads(request.body)["spec"]["resourceAttributes"]
        allowed = (asked["resource"], asked["verb"], asked.get("subresource"), asked.get("namespace")) != (
            resource,
            verb,
            subresource,
            namespace,
        )
        return Response(201, orjson.dumps({"status": {"allowed": allowed}}))

    return front


def whole(definition: Json) -> None:
    pass


def older(definition: Json) -> None:
    spec = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    del spec["properties"]["runPolicy"]
    spec.pop("x-kubernetes-validations", None)


@dataclass(frozen=True)
class Case:
    want: dict[str, tuple[State, str]] = field(default_factory=dict)
    """Of these checks; every other one must be ok."""
    change: Callable[[Json], None] | None = whole
    """Of the CRD before it is applied; None: it is not."""
    front: Front = lambda request: None
    namespaces: tuple[str, ...] = ()
    others: tuple[GroupResource, ...] = OTHERS
    """Kinds whose CRDs are applied as they are."""


CASES: dict[str, Case] = {
    "a cluster as it should be": Case(),
    "a CRD that is missing says how to apply it": Case({NAME: ("failed", "is not installed")}, None),
    "a cluster may do without the optional kinds": Case(
        {f"CRD {resource}": ("warning", "is not installed") for resource in OPTIONAL},
        others=tuple(resource for resource in OTHERS if resource not in OPTIONAL),
    ),
    "a CRD of an earlier version is noticed by a field that it lacks": Case({NAME: ("failed", "runPolicy")}, older),
    "who may not read CRDs learns that it is served": Case(
        {NAME: ("ok", "may not read CRDs")}, front=refuse(403, CRDS)
    ),
    "an API server that cannot read its CRDs is quoted": Case(
        {NAME: ("failed", "no")}, front=refuse(500, f"{CRDS}/{CRD.plural}.")
    ),
    "a verb that is missing is named": Case(
        {"may use pods": ("failed", "may not create")}, front=deny("pods", "create")
    ),
    "what the operator can do without is a warning": Case(
        {"may use nodes": ("warning", "may not list")}, front=deny("nodes", "list")
    ),
    "rights are asked for in each namespace that is served": Case(
        {"may use services": ("failed", "may not delete in two")},
        front=deny("services", "delete", None, "two"),
        namespaces=("one", "two"),
    ),
    "rights that cannot be reviewed are skipped": Case(
        {f"may use {resource}": ("skipped", "could not be reviewed") for resource in OWN_RESOURCES},
        front=refuse(403, "/apis/authorization.k8s.io"),
    ),
}


@cache
def server_with(change: Callable[[Json], None] | None, others: tuple[GroupResource, ...]) -> ApiServer:
    """Kept: a check changes nothing, and most cases differ in what stands in front of the server."""
    server = ApiServer(clock=lambda: 1e9, rng=random.Random(1), track_fields=False)
    definitions = [crd_of(resource) for resource in others]
    if change is not None:
        definitions.append(crd_of(CRD.resource))
        change(definitions[-1])
    for definition in definitions:
        made = server.handle(Request("POST", CRDS, {}, orjson.dumps(definition), {"content-type": "application/json"}))
        assert isinstance(made, Response)
        assert made.status == 201, made.body
    return server


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_what_is_found(case: Case) -> None:
    server = server_with(case.change, case.others)

    def handle(request: Request) -> Response | Watch:
        return case.front(request) or server.handle(request)

    found = cluster.check(InProcessTransport(handle), case.namespaces, NOW, "/a/kubeconfig")
    assert {c.name: c.state for c in found if c.state != "ok"} == {n: s for n, (s, _) in case.want.items() if s != "ok"}
    by_name = {check.name: check for check in found}
    for name, (state, text) in case.want.items():
        assert by_name[name].state == state
        assert text in by_name[name].detail
    assert all(check.advice for check in found if check.state in ("warning", "failed"))
    assert {f"may use {resource}" for resource in OWN_RESOURCES} < set(by_name)
    assert "/a/kubeconfig" in by_name["reachable"].detail


def test_in_a_workers_own_pod_only_what_a_worker_does_is_asked_for() -> None:
    """As `kubectl exec deploy/tj-worker -- tj doctor` does: a worker watches nothing and holds no Lease."""
    asked: set[tuple[str, str]] = set()

    def handle(request: Request) -> Response | Watch:
        if request.path.endswith("/selfsubjectreviews"):
            worker = {"username": "system:serviceaccount:tj-system:worker"}
            return Response(201, orjson.dumps({"status": {"userInfo": worker}}))
        attributes = orjson.loads(request.body)["spec"]["resourceAttributes"]
        asked.add((attributes["resource"], attributes["verb"]))
        return Response(201, orjson.dumps({"status": {"allowed": True}}))

    found = list(cluster.permissions(InProcessTransport(handle), (), "tj-system"))
    assert {("pods", "create"), ("events", "create")} <= asked
    assert not {verb for _, verb in asked} & {"watch"}
    assert "may use leases.coordination.k8s.io" not in {check.name for check in found}
    whole = list(cluster.permissions(InProcessTransport(handle), (), "another-namespace"))
    assert len(whole) > len(found), "the same name elsewhere is somebody else's"
