"""A release on a real API server: installed, upgraded, rolled back, removed."""

from __future__ import annotations

import base64
import json
import subprocess
from typing import Any

import pytest

from controlplane import ControlPlane
from tests.chart.helm import Helm
from tests.integration.manifests import kubectl

Json = dict[str, Any]
NAMESPACE = "tj-system"
SECRETS = ("tj-redis", "tj-redis-tls", "tj-reports-tls", "tj-records", "tj-flower")
JOB = {
    "apiVersion": "elasticdeeplearning.ai/v1",
    "kind": "AITrainingJob",
    "metadata": {"name": "kept", "namespace": "default"},
    "spec": {
        "replicaSpecs": {
            "trainer": {"replicas": 1, "template": {"spec": {"containers": [{"name": "trainer", "image": "busybox"}]}}}
        }
    },
}


@pytest.fixture(scope="module")
def release(helm: Helm, plane: ControlPlane) -> Helm:
    done = helm.run(
        *("install", "tj", str(helm.chart), "--namespace", NAMESPACE, "--create-namespace"),
        *("--set", "image.repository=registry.example.com/ml/operator", "--set", "kinds={pytorchjobs.kubeflow.org}"),
        kubeconfig=plane.kubeconfig,
    )
    assert done.returncode == 0, done.stderr
    assert "serves all namespaces except tj-system" in done.stdout
    return helm


def get(plane: ControlPlane, *words: str) -> Json:
    done = kubectl("get", *words, "-n", NAMESPACE, "-o", "json", kubeconfig=plane.kubeconfig)
    assert done.returncode == 0, done.stderr
    found: Json = json.loads(done.stdout)
    return found


def secrets(plane: ControlPlane) -> dict[str, Json]:
    return {name: get(plane, "secret", name)["data"] for name in SECRETS}


def test_redis_takes_the_users_that_the_release_makes(release: Helm, plane: ControlPlane) -> None:
    found = secrets(plane)["tj-redis"]
    url, acl = (base64.b64decode(found[name]).decode() for name in ("url", "users.acl"))
    assert url.startswith("rediss://tj:")
    assert [line.split()[1] for line in acl.splitlines()] == ["default", "probe", "tj", "tj-tasks", "tj-page"]


def test_the_certificate_is_signed_for_the_service(release: Helm, plane: ControlPlane, tmp_path: Any) -> None:
    found = secrets(plane)["tj-redis-tls"]
    for name in ("ca.crt", "tls.crt"):
        (tmp_path / name).write_bytes(base64.b64decode(found[name]))
    checked = subprocess.run(
        ["openssl", "verify", "-CAfile", "ca.crt", "-verify_hostname", "tj-redis", "tls.crt"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_an_upgrade_keeps_the_secrets_and_restarts_the_pods(release: Helm, plane: ControlPlane) -> None:
    before, old = secrets(plane), get(plane, "deployment", "tj-worker")
    done = release.run(
        *("upgrade", "tj", str(release.chart), "--namespace", NAMESPACE, "--reuse-values"),
        *("--set-string", "settings.TJ_WRITES_PER_PASS=100"),
        kubeconfig=plane.kubeconfig,
    )
    assert done.returncode == 0, done.stderr
    assert secrets(plane) == before
    assert get(plane, "configmap", "tj-settings")["data"]["TJ_WRITES_PER_PASS"] == "100"
    assert get(plane, "deployment", "tj-worker")["metadata"]["generation"] == old["metadata"]["generation"] + 1


def test_an_upgrade_keeps_the_number_of_workers(release: Helm, plane: ControlPlane) -> None:
    scaled = kubectl("scale", "deploy/tj-worker", "--replicas=3", "-n", NAMESPACE, kubeconfig=plane.kubeconfig)
    assert scaled.returncode == 0, scaled.stderr
    done = release.run(
        *("upgrade", "tj", str(release.chart), "--namespace", NAMESPACE, "--reuse-values"), kubeconfig=plane.kubeconfig
    )
    assert done.returncode == 0, done.stderr
    assert get(plane, "deployment", "tj-worker")["spec"]["replicas"] == 3


def test_a_rollback_keeps_the_secrets(release: Helm, plane: ControlPlane) -> None:
    before = secrets(plane)
    done = release.run("rollback", "tj", "1", "--namespace", NAMESPACE, kubeconfig=plane.kubeconfig)
    assert done.returncode == 0, done.stderr
    assert secrets(plane) == before


def test_an_uninstall_keeps_the_jobs(release: Helm, plane: ControlPlane) -> None:
    made = kubectl("apply", "-f", "-", kubeconfig=plane.kubeconfig, stdin=json.dumps(JOB))
    assert made.returncode == 0, made.stderr
    done = release.run("uninstall", "tj", "--namespace", NAMESPACE, kubeconfig=plane.kubeconfig)
    assert done.returncode == 0, done.stderr
    kept = kubectl("get", "aitrainingjobs", "-n", "default", "-o", "name", kubeconfig=plane.kubeconfig)
    assert kept.stdout.split() == ["aitrainingjob.elasticdeeplearning.ai/kept"]
    gone = kubectl("get", "deploy,secret", "-n", NAMESPACE, "-o", "name", kubeconfig=plane.kubeconfig)
    assert gone.stdout == ""
