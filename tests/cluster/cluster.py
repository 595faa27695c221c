"""The real control plane, real nodes, and the operator as processes beside them or installed on them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from controlplane import ControlPlane
from controlplane.process import Process
from tests.cluster.images import TOOL, Archive, build_tool, write_archive
from tests.cluster.machine import Machine
from tests.cluster.network import ADDRESS, PROXY, Network
from tests.cluster.node import Node, user
from tests.e2e.control_plane.install import kubectl, uninstall
from tests.e2e.control_plane.operator import Operator
from tests.support.waiting import until

Json = dict[str, Any]
NAME, SECOND = "node-0", "node-1"
START_SECONDS = 600.0


class OperatorBeside(Operator):
    """Its nodes are there already, and it gives a silent one up sooner than by default: tests wait for it."""

    def _start_nodes(self) -> None:
        pass

    def start_process(
        self, name: str, command: Sequence[str], kubeconfig: Path | None = None, **settings: str
    ) -> Process:
        return super().start_process(name, command, kubeconfig, **{"TJ_NODE_FAILURE_GRACE_SECONDS": "5", **settings})


class Cluster:
    def __init__(self, programs: Path, folder: Path) -> None:
        """`programs`: the folder of kubelet and kube-proxy."""
        self.plane = ControlPlane(users=[user(NAME), user(SECOND), PROXY], address=ADDRESS)
        self.network = Network(self.plane, folder, programs / "kube-proxy", NAME)
        self.folder = folder
        self._kubelet = programs / "kubelet"
        self.nodes: list[Node] = []
        self.images: list[Archive] = []
        """That every node has."""
        self._operator: OperatorBeside | None = None

    def start(self) -> None:
        self.images.append(Archive(write_archive(build_tool(self.folder), self.folder / "images.tar")))
        self.network.prepare()
        self.plane.start()
        # RBAC grants a node nothing by its group alone: the node authorizer would.
        kubectl(
            self.plane.kubeconfig,
            *("create", "clusterrolebinding", "nodes", "--clusterrole=system:node", "--group=system:nodes"),
        )
        self.add_node()
        self.network.start()
        # Without it no pod is admitted.
        self.until("the namespace has its service account", lambda: self.kubectl("get", "sa", "-o", "name"))

    def add_node(self) -> Node:
        number = len(self.nodes)
        self.nodes.append(Node(self.plane, self.folder / f"node-{number}", self._kubelet, number))
        self.nodes[-1].start(self.images)
        return self.nodes[-1]

    @property
    def second(self) -> Node:
        """Started when a test first asks for it."""
        return self.nodes[1] if len(self.nodes) > 1 else self.add_node()

    @cached_property
    def machine(self) -> Machine:
        """Of the second node."""
        return Machine(self.second, self.folder / "machine")

    @property
    def operator(self) -> OperatorBeside:
        """Started when a test first asks for it."""
        if self._operator is None:
            folder = self.folder / "operator"
            folder.mkdir()
            self._operator = OperatorBeside(self.plane, folder)
            self._operator.nodes = len(self.nodes)
            self._operator.start()
        return self._operator

    def remove_operator(self) -> None:
        """With its jobs."""
        if self._operator is not None:
            self._operator.stop()
            self._operator = None
            uninstall(self.plane)

    def stop(self) -> None:
        if self._operator is not None:
            self._operator.stop()
        for node in self.nodes:
            node.stop()
        self.network.stop()
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

    def node(self, name: str) -> Json:
        found: Json = json.loads(self.kubectl("get", "node", name, "-o", "json"))
        return found

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
