"""Lets a PodGroup go that is deleted, once none of its pods lives: its finalizer keeps it until then.

Only PodGroups of Kubernetes' own scheduler. Safe to run twice.
"""

from __future__ import annotations

from localcluster.apiserver.strategies.podgroups import PROTECTION
from localcluster.client import Client, ignoring
from localcluster.informer import Informers, key_of
from localcluster.machine import KeyedMachine
from localcluster.objects import is_terminal
from localcluster.wire import Json

POD_GROUPS = "/apis/scheduling.k8s.io/v1alpha2/podgroups"


class PodGroupProtection(KeyedMachine):
    name = "podgroup-protection-controller"

    def __init__(self, client: Client, informers: Informers) -> None:
        super().__init__(informers.pump)
        self._client = client
        self._groups = informers.get(POD_GROUPS)
        self._pods = informers.get("/api/v1/pods")
        self._pods.add_index("pod group", _groups_of)
        self._groups.subscribe(lambda _, new: self._look_at_group(key_of(new)) if new is not None else None)
        self._pods.subscribe(self._pod_changed)

    def _pod_changed(self, old: Json | None, new: Json | None) -> None:
        if new is None or is_terminal(new):
            for key in _groups_of(new or old or {}, ended=True):
                self._look_at_group(key)

    def _look_at_group(self, key: str) -> None:
        group = self._groups.get(key)
        if group is not None and "deletionTimestamp" in group["metadata"]:
            self.enqueue(key)

    def reconcile(self, key: str, now: float) -> None:
        group = self._groups.get(key)
        if group is None or "deletionTimestamp" not in group["metadata"] or list(self._pods.by("pod group", key)):
            return
        meta = group["metadata"]
        left = [finalizer for finalizer in meta.get("finalizers") or () if finalizer != PROTECTION]
        if left != meta.get("finalizers"):
            path = f"/apis/scheduling.k8s.io/v1alpha2/namespaces/{meta['namespace']}/podgroups/{meta['name']}"
            with ignoring(404, 409):
                self._client.patch(path, {"metadata": {"uid": meta["uid"], "finalizers": left}})


def _groups_of(pod: Json, *, ended: bool = False) -> list[str]:
    """The keys of the groups that a live pod belongs to; with `ended`, of any pod."""
    name = ((pod.get("spec") or {}).get("schedulingGroup") or {}).get("podGroupName")
    if not name or (is_terminal(pod) and not ended):
        return []
    return [f"{pod['metadata']['namespace']}/{name}"]
