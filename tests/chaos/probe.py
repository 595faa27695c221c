"""Is Kubernetes itself back? A ReplicaSet and a batch Job of nobody's: once each has a pod that runs, so are its controllers,
its scheduler and the kubelet, and an operator's time begins.

A kube-controller-manager asks an API server that dies again and again ever more rarely: after four deaths in half a minute it
saw no batch Job for 85 s, and no trainer was made for any. That is no operator's to mend, nor to be held against it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.real.api import RefusedError

Json = dict[str, Any]
Send = Callable[[str, str, Any], Json]
LABEL = "chaos-probe"


def _manifest(kind: str, api: str, restart: str, **spec: Any) -> Json:
    labels = {LABEL: kind}
    pod = {
        "metadata": {"labels": labels},
        "spec": {"restartPolicy": restart, "containers": [{"name": "idle", "image": "idle:1"}]},
    }
    return {
        "apiVersion": api,
        "kind": kind,
        "metadata": {"name": f"probe-{kind.lower()}"},
        "spec": {**spec, "template": pod},
    }


PROBES = {
    "replicasets": _manifest(
        "ReplicaSet", "apps/v1", "Always", replicas=1, selector={"matchLabels": {LABEL: "ReplicaSet"}}
    ),
    "jobs": _manifest("Job", "batch/v1", "Never"),
}


class Probe:
    """`send` is a user's kubectl; the namespace takes the probe along when it is deleted."""

    def __init__(self, send: Send, namespace: str) -> None:
        self._send = send
        self._namespace = namespace
        self._made: set[str] = set()

    def answered(self) -> bool:
        """Makes what is not made yet. Raises when the API server cannot be asked."""
        for plural, manifest in PROBES.items():
            if plural not in self._made:
                self._make(plural, manifest)
        pods = self._send("GET", f"/api/v1/namespaces/{self._namespace}/pods?labelSelector={LABEL}", None)["items"]
        running = {pod["metadata"]["labels"][LABEL] for pod in pods if pod["status"].get("phase") == "Running"}
        return running == {manifest["kind"] for manifest in PROBES.values()}

    def _make(self, plural: str, manifest: Json) -> None:
        try:
            self._send("POST", f"/apis/{manifest['apiVersion']}/namespaces/{self._namespace}/{plural}", manifest)
        except RefusedError as error:
            if error.status != 409:  # 409: made, and the answer was lost
                raise
        self._made.add(plural)
