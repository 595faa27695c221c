"""Which pods of the operator each selector in k8s/ selects: of a controller, a spread constraint, a budget, a service,
a network policy, a scraper."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.manifests import K8S, Json, render, templates

pytestmark = pytest.mark.xdist_group("selectors")  # they share what its fixture starts or renders

FOLDERS = sorted(
    path.parent.relative_to(K8S).as_posix()
    for path in K8S.rglob("kustomization.yaml")
    if path.relative_to(K8S).parts[0]
    not in ("base", "openshift", "page", "history", "kinds", "gangs")  # parts of others; rights and definitions
)
SELECTORS = frozenset({"selector", "labelSelector", "podSelector"})
READERS = ("beat", "flower", "watcher", "worker")
SPREAD = "template.spec.topologySpreadConstraints.labelSelector"

WANTED: dict[str, dict[str, tuple[str, ...]]] = {
    ".": {
        "Deployment/tj-beat selector": ("beat",),
        "Deployment/tj-flower selector": ("flower",),
        "Deployment/tj-reporter selector": ("reporter",),
        "Deployment/tj-watcher selector": ("watcher",),
        f"Deployment/tj-watcher {SPREAD}": ("watcher",),
        "Deployment/tj-worker selector": ("worker",),
        f"Deployment/tj-worker {SPREAD}": ("worker",),
        "NetworkPolicy/tj-deny-all podSelector": ("beat", "flower", "redis", "reporter", "watcher", "worker"),
        "NetworkPolicy/tj-redis podSelector": ("redis",),
        "NetworkPolicy/tj-redis ingress.from.podSelector": READERS,
        "NetworkPolicy/tj-reports podSelector": ("reporter",),
        "NetworkPolicy/tj-to-api-server podSelector": ("reporter", "watcher", "worker"),
        "NetworkPolicy/tj-to-redis podSelector": READERS,
        "NetworkPolicy/tj-to-redis egress.to.podSelector": ("redis",),
        "PodDisruptionBudget/tj-watcher selector": ("watcher",),
        "PodDisruptionBudget/tj-worker selector": ("worker",),
        "Service/tj-flower selector": ("flower",),
        "Service/tj-redis selector": ("redis",),
        "Service/tj-reports selector": ("reporter",),
        "StatefulSet/tj-redis selector": ("redis",),
    },
    "monitoring": {
        "NetworkPolicy/tj-metrics podSelector": ("beat", "reporter", "watcher", "worker"),
        "NetworkPolicy/tj-metrics ingress.from.podSelector": (),  # Prometheus, in its own namespace
        "PodMonitor/tj selector": ("beat", "reporter", "watcher", "worker"),
    },
}
WANTED["namespaced"] = WANTED["second"] = WANTED["."]


@pytest.fixture(scope="module")
def ours() -> dict[str, Json]:
    """The labels of the operator's pods, by component."""
    return {t.component: t.pod["metadata"]["labels"] for t in templates(render(K8S))}


def found(node: Any, path: str = "") -> Iterator[tuple[str, Json]]:
    if isinstance(node, list):
        for each in node:
            yield from found(each, path)
    elif isinstance(node, dict):
        for key, value in node.items():
            if key in SELECTORS:
                yield f"{path}.{key}".lstrip("."), value
            yield from found(value, f"{path}.{key}")


def selects(selector: Json, labels: Json) -> bool:
    if not {"matchLabels", "matchExpressions"} & selector.keys():
        return selector.items() <= labels.items()  # a service's
    for expression in selector.get("matchExpressions", ()):
        assert expression["operator"] == "In"
        if labels.get(expression["key"]) not in expression["values"]:
            return False
    return bool(selector.get("matchLabels", {}).items() <= labels.items())


@pytest.mark.parametrize("folder", FOLDERS)
def test_each_selector_selects_the_pods_that_it_stands_for(folder: str, ours: dict[str, Json]) -> None:
    seen = {
        f"{d['kind']}/{d['metadata']['name']} {path}": tuple(sorted(c for c in ours if selects(selector, ours[c])))
        for d in render(K8S / folder)
        if d["kind"] != "CustomResourceDefinition"
        for path, selector in found(d.get("spec", {}))
    }
    assert seen == WANTED.get(folder, {})
