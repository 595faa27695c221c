"""The local cluster can show every printer column of every CRD under `k8s/`, so that `kubectl get` says there what it
says on a real API server."""

from __future__ import annotations

from pathlib import Path

import pytest

from localcluster.apiserver.jsonpath import compile_path
from tests.support import fast_yaml as yaml
from tjworker.api.kinds import GUEST_KINDS

K8S = Path(__file__).parents[2] / "k8s"
CRDS = {
    crd["metadata"]["name"]: crd
    for path in sorted(K8S.rglob("*.yaml"))
    for crd in yaml.safe_load_all(path.read_text(encoding="utf-8"))
    if crd and crd.get("kind") == "CustomResourceDefinition"
}
CONDITIONS = [{"type": "Created", "status": "True"}, {"type": "Succeeded", "status": "True"}]


@pytest.mark.parametrize("name", CRDS)
def test_its_columns_can_be_read(name: str) -> None:
    for version in CRDS[name]["spec"]["versions"]:
        for column in version.get("additionalPrinterColumns", ()):
            compile_path(column["jsonPath"])


@pytest.mark.parametrize("name", [str(kind.resource) for kind in GUEST_KINDS])
def test_the_state_of_a_guest_is_its_last_condition(name: str) -> None:
    for version in CRDS[name]["spec"]["versions"]:
        (state,) = [c for c in version["additionalPrinterColumns"] if c["name"] == "State"]
        assert compile_path(state["jsonPath"])({"status": {"conditions": CONDITIONS}}) == ["Succeeded"]
