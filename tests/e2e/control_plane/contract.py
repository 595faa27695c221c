"""`python -m tests.e2e.control_plane.contract ARGUMENTS`: pytest with those tests of the contract suites that ask a
real API server; `make test` holds the local cluster to the same. This starts a control plane and two nodes, played over
the Kubernetes API; both are gone at the end. No operator: the suites are about the cluster. TJ_REAL_KUBERNETES chooses
the version."""

from __future__ import annotations

import os
import subprocess
import sys

from controlplane import ControlPlane
from controlplane.process import Process
from controlplane.releases import release
from tests.e2e.control_plane.install import agent, kubectl
from tests.support.paths import ROOT

NODES = 2
SUITES = (
    "localcluster/localcluster_tests/contract/api",
    *(f"tests/integration/{name}.py" for name in ("test_crd", "test_crd_guests", "test_deployment_apply")),
)


def main(arguments: list[str]) -> int:
    with ControlPlane(kubernetes=release(os.environ.get("TJ_REAL_KUBERNETES", ""))) as plane:
        nodes = Process("agent", agent(plane.kubeconfig, NODES), plane.folder / "agent.log")
        nodes.start()
        kubectl(plane.kubeconfig, "apply", "-f", str(ROOT / "k8s/crds"))  # as a cluster has them that people apply to
        try:
            env = {**os.environ, "TJ_REAL_KUBECONFIG": str(plane.kubeconfig)}
            chosen = () if any(argument.partition("::")[0].endswith(".py") for argument in arguments) else SUITES
            command = [sys.executable, "-m", "pytest", "-q", "-m", "real", *arguments, *chosen]
            return subprocess.run(command, env=env, check=False).returncode
        finally:
            nodes.stop(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
