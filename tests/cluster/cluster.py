"""The real control plane, one real node, and the operator as processes beside them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from controlplane import ControlPlane
from tests.cluster.images import TOOL, build_tool, write_archive
from tests.cluster.node import Node, user
from tests.e2e.control_plane.install import kubectl
from tests.e2e.control_plane.operator import Operator
from tests.support.waiting import until

Json = dict[str, Any]
NAME = "node-0"
START_SECONDS = 180.0


class OperatorBeside(Operator):
    """Its nodes are there already."""

    nodes = 1

    def _start_nodes(self) -> None:
        pass


class Cluster:
    def __init__(self, kubelet: Path, folder: Path) -> None:
        self.plane = ControlPlane(users=[user(NAME)])
        self._kubelet = kubelet
        self._folder = folder
        self.node: Node
        self._operator: OperatorBeside | None = None

    def start(self) -> None:
        archive = write_archive(build_tool(self._folder), self._folder / "images.tar")
        self.plane.start()
        # RBAC grants a node nothing by its group alone: the node authorizer would.
        kubectl(
            self.plane.kubeconfig,
            *("create", "clusterrolebinding", "nodes", "--clusterrole=system:node", "--group=system:nodes"),
        )
        self.node = Node(self.plane, self._folder / "node", self._kubelet, 0)
        self.node.start([archive])

    @property
    def operator(self) -> OperatorBeside:
        """Started when a test first asks for it."""
        if self._operator is None:
            folder = self._folder / "operator"
            folder.mkdir()
            self._operator = OperatorBeside(self.plane, folder)
            self._operator.start()
        return self._operator

    def stop(self) -> None:
        if self._operator is not None:
            self._operator.stop()
        if hasattr(self, "node"):
            self.node.stop()
        self.plane.stop(graceful=False)

    # -- what tests do -------------------------------------------------------------------------------
    def kubectl(self, *words: str, stdin: str | None = None) -> str:
        return kubectl(self.plane.kubeconfig, *words, stdin=stdin)

    def run(self, name: str, *arguments: str, spec: Json | None = None, **container: Any) -> None:
        """A pod whose one container is TOOL with these arguments. `spec`: more of the pod's."""
        main = {"name": "main", "image": TOOL, "args": list(arguments), **container}
        pod: Json = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}}
        pod["spec"] = {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "containers": [main],
            **(spec or {}),
        }
        self.kubectl("create", "-f", "-", stdin=json.dumps(pod))

    def status(self, name: str) -> Json:
        found: Json = json.loads(self.kubectl("get", "pod", name, "-o", "json"))["status"]
        return found

    def job(self, name: str) -> Json:
        found: Json = json.loads(self.kubectl("get", "aitj", name, "-o", "json"))
        return found

    def until(self, what: str, condition: Any, within_seconds: float = START_SECONDS) -> None:
        until(what, condition, within_seconds, context=lambda: self.kubectl("get", "pods", "-A"), look_seconds=0.3)


def state(status: Json) -> tuple[str, str, int]:
    """(terminated or waiting or running, its reason, its exit code) of the only container; empty when there is none."""
    for container in status.get("containerStatuses", ()):
        for kind, content in container["state"].items():
            return kind, content.get("reason", ""), content.get("exitCode", 0)
    return "", "", 0


def disruption(status: Json) -> str:
    """The reason of the condition DisruptionTarget; '' without one."""
    found = [c["reason"] for c in status.get("conditions", ()) if c["type"] == "DisruptionTarget"]
    return found[0] if found else ""
