"""Is Kubernetes itself back? A ReplicaSet and a batch Job that belong to no job: once each has a pod that runs, its
controllers, its scheduler and the kubelet are, and an operator's time begins.

A kube-controller-manager asks an API server that dies again and again ever more rarely: after four deaths in half a
minute it saw no batch Job for 85 s, and no trainer was made for any. That is no operator's to mend, nor to be held
against it.
"""

from __future__ import annotations

from typing import Any

from tests.chaos.waves import Json, Wave

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
    """In the namespace of that wave, which takes it along when it is deleted."""

    def __init__(self, wave: Wave) -> None:
        self._wave = wave

    def begin(self) -> None:
        for plural, manifest in PROBES.items():
            path = f"/apis/{manifest['apiVersion']}/namespaces/{self._wave.namespace}/{plural}"
            self._wave.insist(lambda path=path, manifest=manifest: self._wave.send("POST", path, manifest))

    def answered(self) -> bool:
        """Raises when the API server cannot be asked."""
        pods = self._wave.send("GET", f"/api/v1/namespaces/{self._wave.namespace}/pods?labelSelector={LABEL}")["items"]
        running = {pod["metadata"]["labels"][LABEL] for pod in pods if pod["status"].get("phase") == "Running"}
        return running == {manifest["kind"] for manifest in PROBES.values()}
