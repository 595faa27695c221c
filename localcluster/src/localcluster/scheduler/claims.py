"""The claims of a pod, as kube-scheduler's `plugins/volumebinding` treats them: why the pod has to wait for them, and
which node a waiting claim gets. Reads caches, and writes one annotation."""

from __future__ import annotations

from localcluster.client import Client
from localcluster.controllers.volumes import CLAIMS, CLASSES, SELECTED_NODE, claim_path, claims_of, is_bound
from localcluster.informer import Informers
from localcluster.wire import Json

UNBOUND = "pod has unbound immediate PersistentVolumeClaims"


class Claims:
    def __init__(self, informers: Informers) -> None:
        self.informer = informers.get(CLAIMS)
        self._classes = informers.get(CLASSES)

    def reason_against(self, pod: Json) -> str:
        """Returns why the claims keep the pod from any node; empty when they are ready."""
        unbound = False
        for key in claims_of(pod):
            claim, quoted = self.informer.get(key), f'persistentvolumeclaim "{key.partition("/")[2]}"'
            if claim is None:
                return f"{quoted} not found"
            if "deletionTimestamp" in claim["metadata"]:
                return f"{quoted} is being deleted"
            if (claim.get("status") or {}).get("phase") == "Lost":
                return f'{quoted} bound to non-existent persistentvolume "{claim["spec"].get("volumeName", "")}"'
            unbound = unbound or not (is_bound(claim) or self._waits_for_pod(claim))
        return UNBOUND if unbound else ""

    def select_node(self, client: Client, pod: Json, node: str) -> bool:
        """Writes the pod's node onto the claims that wait for a pod, so that a provisioner makes their volumes. False
        when all claims are bound."""
        found = (self.informer.get(key) for key in claims_of(pod))
        waiting = [claim for claim in found if claim is not None and not is_bound(claim)]
        for claim in waiting:
            client.patch(claim_path(claim), {"metadata": {"annotations": {SELECTED_NODE: node}}})
        return bool(waiting)

    def _waits_for_pod(self, claim: Json) -> bool:
        found = self._classes.get(claim["spec"].get("storageClassName") or "")
        return found is not None and found["volumeBindingMode"] == "WaitForFirstConsumer"
