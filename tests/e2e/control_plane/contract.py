"""`python -m tests.e2e.control_plane.contract ARGUMENTS`: pytest with the contract suites on both clusters. For the
real one this starts a control plane and two nodes, played over the Kubernetes API; both are gone at the end. No
operator: the suites are about the cluster, and of tests/integration only what asks an API server is played.
TJ_REAL_KUBERNETES chooses the version."""

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


def main(arguments: list[str]) -> int:
    with ControlPlane(kubernetes=release(os.environ.get("TJ_REAL_KUBERNETES", ""))) as plane:
        nodes = Process("agent", agent(plane.kubeconfig, NODES), plane.folder / "agent.log")
        nodes.start()
        kubectl(plane.kubeconfig, "apply", "-f", str(ROOT / "k8s/crds"))  # as a cluster has them that people apply to
        try:
            env = {**os.environ, "TJ_REAL_KUBECONFIG": str(plane.kubeconfig)}
            command = [
                sys.executable,
                "-m",
                "pytest",
                *("-m", "contract"),
                *(arguments or ["-q", "localcluster/localcluster_tests/contract", "tests/integration"]),
            ]
            return subprocess.run(command, env=env, check=False).returncode
        finally:
            nodes.stop(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
