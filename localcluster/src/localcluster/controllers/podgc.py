"""Pods whose node is gone: after a quarantine they become Failed with DisruptionTarget/DeletionByPodGC and go at once.

Also frees terminating pods that never got a node, and those on a node with the out-of-service taint. Never touches a
pod whose node exists. Safe to run twice.
"""

from __future__ import annotations

from localcluster.client import Client, ignoring
from localcluster.controllers.common import delete_pod, patch_pod_status
from localcluster.informer import Informers, key_of
from localcluster.machine import KeyedMachine
from localcluster.objects import condition, is_terminal, seconds_of, timestamp, with_condition
from localcluster.wire import Json

QUARANTINE_SECONDS = 40.0
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"


class PodGarbageCollector(KeyedMachine):
    name = "pod-garbage-collector"

    def __init__(self, client: Client, informers: Informers) -> None:
        super().__init__(informers.pump)
        self._client = client
        self._nodes = informers.get("/api/v1/nodes")
        self._pods = informers.get("/api/v1/pods")
        self._pods.add_index("node", lambda pod: [pod["spec"].get("nodeName", "")])
        self._missing_since: dict[str, float] = {}
        self._nodes.subscribe(self._node_changed)
        self._pods.subscribe(self._pod_changed)

    def _node_changed(self, old: Json | None, new: Json | None) -> None:
        name = (new or old or {})["metadata"]["name"]
        if new is not None:
            self._missing_since.pop(name, None)
            if not any(t["key"] == OUT_OF_SERVICE for t in (new.get("spec") or {}).get("taints") or ()):
                return
        # `gcOrphaned` needs the pods of an absent node, `gcTerminating` those of one that is out of service.
        for pod in self._pods.by("node", name):
            self.enqueue(key_of(pod))

    def _pod_changed(self, old: Json | None, new: Json | None) -> None:
        if new is None:
            return
        node = new["spec"].get("nodeName")
        if (node and self._nodes.get(node) is None) or (not node and "deletionTimestamp" in new["metadata"]):
            self.enqueue(key_of(new))

    def reconcile(self, key: str, now: float) -> None:
        pod = self._pods.get(key)
        if pod is None:
            return
        name = pod["spec"].get("nodeName")
        # `gcUnscheduledTerminating`: no kubelet will confirm the deletion of a pod without a node.
        if not name:
            if "deletionTimestamp" in pod["metadata"]:
                self._remove_pod(pod, now, "")
            return
        node = self._nodes.get(name)
        if node is not None:
            lost = any(t["key"] == OUT_OF_SERVICE for t in (node.get("spec") or {}).get("taints") or ())
            ready = (condition(node, "Ready") or {"status": "Unknown"})["status"]
            # `gcTerminating` requires both, the taint and a node that is not ready.
            if lost and ready != "True" and "deletionTimestamp" in pod["metadata"]:
                self._remove_pod(pod, now, "")
            return
        # A later pod on the same absent node waits as long, or a controller that replaces it would loop.
        since = max(self._missing_since.setdefault(name, now), seconds_of(pod["metadata"]["creationTimestamp"]))
        due = since + QUARANTINE_SECONDS
        if now < due:
            self.enqueue_at(key, due)
            return
        self._remove_pod(pod, now, "PodGC: node no longer exists")

    def _remove_pod(self, pod: Json, now: float, why: str) -> None:
        # `markFailedAndDeletePod`: a Job, for example, counts failed pods and must see the phase first.
        if not is_terminal(pod):
            status: Json = {"phase": "Failed"}
            if why:
                disrupted = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC", "message": why}
                status["conditions"] = with_condition(
                    (pod.get("status") or {}).get("conditions") or (), disrupted, timestamp(now)
                )
            patch_pod_status(self._client, pod, status)
        with ignoring(404, 409):
            delete_pod(self._client, pod, gracePeriodSeconds=0)
