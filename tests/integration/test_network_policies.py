"""Who talks to whom: one table, and both the network policies of k8s/ and docker-compose.yml are held to it.

A policy's meaning is that of Kubernetes: a pod that some policy of a direction selects may do in that direction what
one of them allows, and nothing else; a connection needs both ends.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.integration.manifests import K8S, Json, render, templates
from tests.support import fast_yaml as yaml
from tests.support.paths import ROOT

pytestmark = pytest.mark.xdist_group("network-policies")  # they share what its fixture starts or renders

INSTALLATIONS = {"the whole cluster": K8S, "some namespaces": K8S / "namespaced"}
OURS = {"app.kubernetes.io/part-of": "trainingjob-operator"}
NAMESPACE = "kubernetes.io/metadata.name"
COMPONENTS = ("watcher", "worker", "beat", "flower", "reporter", "redis")
CLIENTS_OF_REDIS = ("watcher", "worker", "beat", "flower")
CLIENTS_OF_THE_API_SERVER = ("watcher", "worker", "reporter")


class Line(NamedTuple):
    """One connection. `to`: a component, or somebody outside."""

    from_: str
    to: str
    port: int
    protocol: str = "TCP"


LINES = frozenset(
    {
        # Celery's broker, the projection and the work queue; Flower reads Celery's events.
        *(Line(who, "redis", 6379) for who in CLIENTS_OF_REDIS),
        # A name for it.
        *(Line(who, "dns", 53, protocol) for who in CLIENTS_OF_REDIS for protocol in ("UDP", "TCP")),
        # 443 by its Service, 6443 or 8443 behind it.
        *(Line(who, "api server", port) for who in CLIENTS_OF_THE_API_SERVER for port in (443, 6443, 8443)),
        # Every pod of the cluster reports to it; each proves who it is.
        *(Line(who, "reporter", 8082) for who in ("stranger", "outside")),
    }
)
PORTS = (53, 80, 443, 5555, 6379, 6443, 8080, 8082, 8443)


@pytest.fixture(scope="module", params=INSTALLATIONS)
def documents(request: pytest.FixtureRequest) -> list[Json]:
    return render(INSTALLATIONS[request.param])


def test_the_network_policies_allow_exactly_the_connections_of_the_table(documents: list[Json]) -> None:
    pods = {t.component: t.pod["metadata"]["labels"] for t in templates(documents)}
    assert pods.keys() == set(COMPONENTS)
    policies = [d["spec"] for d in documents if d["kind"] == "NetworkPolicy"]
    # A stranger is a pod of the namespace that is not ours; what the table calls outside is nobody's pod.
    ends = pods | {"stranger": {"app": "web"}, "outside": None}
    outside = {(line.port, line.protocol): line.to for line in LINES if line.to not in pods}
    allowed = {
        Line(who, to if to != "outside" else outside.get((port, protocol), "outside"), port, protocol)
        for who in ends
        for to in ends
        for port in PORTS
        for protocol in ("TCP", "UDP")
        if who != to and (who in pods or to in pods)
        if may(policies, "Egress", ends[who], ends[to], port, protocol)
        and may(policies, "Ingress", ends[to], ends[who], port, protocol)
    }
    # To any address by such a port: the API server's is not known when the policies are written.
    to_anywhere = {Line(line.from_, "stranger", line.port, line.protocol) for line in LINES if line.to not in pods}
    assert allowed - to_anywhere == LINES
    assert allowed >= to_anywhere


# -- OpenShift -------------------------------------------------------------------------------------
OPENSHIFT_DNS = {NAMESPACE: "openshift-dns", "dns.operator.openshift.io/daemonset-dns": "default"}
"""The pods of its DNS: they listen on 5353, and OVN-Kubernetes judges what leaves a pod after the Service's port 53 has
become theirs."""


@pytest.mark.parametrize("installation", INSTALLATIONS)
def test_on_openshift_names_resolve_and_nothing_else_is_opened(installation: str, tmp_path: Path) -> None:
    own = [os.path.relpath(folder, tmp_path.resolve()) for folder in (INSTALLATIONS[installation], K8S / "openshift")]
    (tmp_path / "kustomization.yaml").write_text(f"resources: [{own[0]}]\ncomponents: [{own[1]}]\n", encoding="utf-8")
    before, after = (
        [d["spec"] for d in render(folder) if d["kind"] == "NetworkPolicy"]
        for folder in (INSTALLATIONS[installation], tmp_path)
    )
    pods = {t.component: t.pod["metadata"]["labels"] for t in templates(render(tmp_path))}
    others: dict[str, Json] = {
        "DNS": OPENSHIFT_DNS,
        "another pod of its namespace": {NAMESPACE: "openshift-dns"},
        "a pod with its label elsewhere": OPENSHIFT_DNS | {NAMESPACE: "team-a"},
        "a pod beside ours": {"app": "web"},
        **pods,
    }
    opened = {
        Line(who, to, port, protocol)
        for who, labels in pods.items()
        for to, there in others.items()
        for port in (*PORTS, 5353)
        for protocol in ("TCP", "UDP")
        if may(after, "Egress", labels, there, port, protocol)
        and not may(before, "Egress", labels, there, port, protocol)
    }
    assert opened == {Line(who, "DNS", 5353, protocol) for who in CLIENTS_OF_REDIS for protocol in ("UDP", "TCP")}
    for policies, who in ((after, who) for who in CLIENTS_OF_REDIS):
        assert all(may(policies, "Egress", pods[who], OPENSHIFT_DNS, 53, protocol) for protocol in ("UDP", "TCP"))


def may(
    policies: Iterable[Json], direction: str, own: Json | None, other: Json | None, port: int, protocol: str
) -> bool:
    """Whether a pod with these labels may do that; None, nobody's pod, may do anything."""
    if own is None:
        return True
    selecting = [p for p in policies if direction in p["policyTypes"] and selects(p["podSelector"], own)]
    key, peers = ("egress", "to") if direction == "Egress" else ("ingress", "from")
    return not selecting or any(
        permits(rule, peers, other, port, protocol) for policy in selecting for rule in policy.get(key) or ()
    )


def permits(rule: Json, peers: str, other: Json | None, port: int, protocol: str) -> bool:
    by_port = not rule.get("ports") or any(
        p["port"] == port and p.get("protocol", "TCP") == protocol for p in rule["ports"]
    )
    if not rule.get(peers):
        return by_port
    assert all({"podSelector"} <= set(peer) <= {"podSelector", "namespaceSelector"} for peer in rule[peers]), (
        "another kind of peer: teach this test what it means"
    )
    return by_port and other is not None and any(is_peer(peer, other) for peer in rule[peers])


def is_peer(peer: Json, other: Json) -> bool:
    """The labels of a pod of another namespace hold that namespace's name, too."""
    namespace = {NAMESPACE: other[NAMESPACE]} if NAMESPACE in other else {}
    there = selects(peer["namespaceSelector"], namespace) if "namespaceSelector" in peer else not namespace
    return there and selects(peer["podSelector"], other)


def selects(selector: Json, labels: Json) -> bool:
    for expression in selector.get("matchExpressions") or ():
        assert expression["operator"] == "In", "another operator: teach this test what it means"
        if labels.get(expression["key"]) not in expression["values"]:
            return False
    return (selector.get("matchLabels") or {}).items() <= labels.items()


def test_each_redis_client_of_the_table_is_given_the_url_and_nobody_else(documents: list[Json]) -> None:
    given = {
        t.component
        for t in templates(documents)
        if any(e["name"] == "TJ_REDIS_URL" for e in t.container.get("env", ()))
    }
    assert given == set(CLIENTS_OF_REDIS)
    (service,) = [d for d in documents if d["kind"] == "Service" and d["metadata"]["name"] == "tj-redis"]
    assert [p["port"] for p in service["spec"]["ports"]] == [6379]


def test_each_client_of_the_api_server_has_an_account_and_nobody_else(documents: list[Json]) -> None:
    given = {t.component for t in templates(documents) if t.spec.get("automountServiceAccountToken") is not False}
    assert given == set(CLIENTS_OF_THE_API_SERVER)


# -- the same table for docker-compose.yml ---------------------------------------------------------
def composed() -> dict[str, Any]:
    services: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))["services"]
    return services


def test_composed_each_redis_client_of_the_table_waits_for_redis_and_is_given_its_url() -> None:
    services, clients = composed(), {*CLIENTS_OF_REDIS, "page"}
    assert {name for name, s in services.items() if "redis" in s.get("depends_on", {})} == clients
    for name, service in services.items():
        url = (service.get("environment") or {}).get("TJ_REDIS_URL", "")
        assert bool(re.search(r"@redis:6379/", url)) == (name in clients), name


def test_composed_the_clients_of_the_api_server_wait_for_a_local_one() -> None:
    waiting = {name for name, s in composed().items() if "localcluster" in s.get("depends_on", {})}
    assert waiting - {"crds"} == {*CLIENTS_OF_THE_API_SERVER, "page"}
