"""The operator on a real control plane, as `k8s/` installs it: its objects in the cluster, the command and the
environment of each of its processes. Who starts them, and what becomes of them, is the caller's."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from controlplane import ControlPlane
from controlplane.process import Process
from tests.e2e.stack import kubectl_environment
from tests.support.paths import ROOT
from tjstack.services import kubectl_path
from tjworker.base import GroupResource
from tjworker.kube import rbac

WATCHER = (sys.executable, "-m", "watcher")
CELERY = (sys.executable, "-m", "celery", "-A", "tjworker.app")
SETTINGS = {
    # Sooner than in production: tests wait for them.
    "TJ_RESYNC_SECONDS": "5",
    "TJ_LOCK_TTL_SECONDS": "10",
    "TJ_OWN_NAMESPACE": rbac.NAMESPACE,
    "PYTHONUNBUFFERED": "1",
    "TJ_RECORD_KEYS": "a-key-of-the-tests-that-is-long-enough",
}


def kubectl(kubeconfig: Path, *arguments: str, stdin: str | None = None) -> str:
    """Its output. A failure is an AssertionError with what it said."""
    done = subprocess.run(
        [str(kubectl_path()), "--kubeconfig", str(kubeconfig), *arguments],
        env=kubectl_environment(kubeconfig),
        input=stdin,
        text=True,
        capture_output=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}"
    return done.stdout


def install(plane: ControlPlane, gang: str = "none", kinds: Iterable[GroupResource] = ()) -> None:
    """CRDs, namespace, accounts and rights. `kinds`: of other operators."""
    kubectl(plane.kubeconfig, "apply", "-f", str(ROOT / "k8s/crds"))
    kubectl(plane.kubeconfig, "create", "namespace", rbac.NAMESPACE)
    kubectl(plane.kubeconfig, "apply", "-f", str(ROOT / "k8s/base/rbac.yaml"))
    if gang != "none":
        kubectl(plane.kubeconfig, "apply", "-k", str(ROOT / "k8s/gangs" / gang))
    for kind in kinds:
        kubectl(plane.kubeconfig, "apply", "-k", str(ROOT / "k8s/kinds" / str(kind)))


def uninstall(plane: ControlPlane) -> None:
    """What `install` has made, without gangs and kinds, and every job."""
    kubectl(plane.kubeconfig, "delete", "-f", str(ROOT / "k8s/crds"), "-f", str(ROOT / "k8s/base/rbac.yaml"))
    kubectl(plane.kubeconfig, "delete", "namespace", rbac.NAMESPACE)


def worker(name: str, children: int) -> Sequence[str]:
    return (*CELERY, "worker", "-n", f"{name}@%h", "--concurrency", str(children))


def agent(kubeconfig: Path, nodes: int, *more: str) -> Sequence[str]:
    """Nodes whose kubelets play the containers."""
    agents = (sys.executable, "-m", "localcluster.kubelet", "--agent", "fake")
    return (*agents, "--kubeconfig", str(kubeconfig), "--nodes", str(nodes), *more)


def environment(redis_url: str, kubeconfig: Path | None, settings: Mapping[str, str]) -> dict[str, str]:
    """Of one process: nothing of ours but what is said here."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("TJ_", "KUBE", "PYTEST_"))}
    return {
        **kept,
        **SETTINGS,
        **settings,
        "TJ_REDIS_URL": redis_url,
        **({"KUBECONFIG": str(kubeconfig)} if kubeconfig is not None else {}),
    }


def nodes_ready(kubeconfig: Path) -> int:
    return len(re.findall(r"\bReady\b", kubectl(kubeconfig, "get", "nodes", "--no-headers")))


def worker_ready(process: Process) -> bool:
    """It has said so, since its log began."""
    return bool(re.search(rf"{process.name}@\S+ ready", process.log.read_text()))
