"""What people do with kubectl and our CRD, on the real API server. (Every refusal word for word:
`tests/integration/test_crd`, which `make test-real` runs on a real API server, too.)"""

from __future__ import annotations

import json

from controlplane import ControlPlane
from tests.e2e.control_plane.install import kubectl
from tests.e2e.control_plane.operator import Operator
from tests.support import fast_yaml as yaml
from tests.support.paths import ROOT
from tjworker.kube import rbac


def test_kubectl_applies_the_crds_twice_without_a_change(plane: ControlPlane) -> None:
    kubectl(plane.kubeconfig, "apply", "-f", str(ROOT / "k8s/crds"))
    said = kubectl(plane.kubeconfig, "apply", "-f", str(ROOT / "k8s/crds"))
    assert all(line.endswith("unchanged") for line in said.splitlines()), said


def test_the_examples_job_is_accepted_as_it_stands(operator: Operator) -> None:
    manifest = ROOT / "examples/digits/job.yaml"
    said = kubectl(operator.plane.kubeconfig, "create", "--dry-run=server", "-o", "json", "-f", str(manifest))
    wanted = yaml.safe_load(manifest.read_text())
    got = json.loads(said)
    assert got["metadata"]["name"] == wanted["metadata"]["name"]
    assert set(got["spec"]["replicaSpecs"]) == set(wanted["spec"]["replicaSpecs"])


def test_the_rbac_applies_twice_without_a_change(operator: Operator) -> None:
    said = kubectl(operator.plane.kubeconfig, "apply", "-f", str(ROOT / "k8s/base/rbac.yaml"))
    assert all(line.endswith("unchanged") for line in said.splitlines()), said


def test_service_accounts_may_not_read_secrets(operator: Operator) -> None:
    for process in rbac.PROCESSES:
        kubeconfig = operator.plane.kubeconfig_for(rbac.user(process))
        said = kubectl(kubeconfig, "auth", "can-i", "--list", "--namespace", "default")
        assert "secrets" not in said
        assert "*.*" not in said
