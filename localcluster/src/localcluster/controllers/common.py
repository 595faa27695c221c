"""What the workload controllers share: which owner an event of a pod concerns, paths, claims, the order in which
surplus pods go, creating and deleting pods.

A pod is claimed as in Kubernetes: ours when its controller reference carries our UID; an orphan that matches is
adopted; one that no longer matches is released. Deletes name the UID, so running twice never hits another pod.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from localcluster.client import ApiError, Client, ignoring
from localcluster.informer import Informers, key_of
from localcluster.machine import KeyedMachine
from localcluster.objects import condition, controller_of, controller_ref, is_ready, matches, phase_of, seconds_of
from localcluster.recorder import Recorder
from localcluster.wire import Json

BURST_REPLICAS = 500
_PHASE_ORDER = {"Pending": 0, "Unknown": 1, "Running": 2}


class PodsController(KeyedMachine):
    """Keeps the pods of each owner of one kind. Subclasses give `name`, `kind`, `path` and `reconcile`."""

    kind = ""
    path = ""
    batch_seconds = 0.0
    """How long what changes no owner's spec may gather before the owner is looked at."""

    def __init__(self, client: Client, informers: Informers, recorder: Recorder, clock: Callable[[], float]) -> None:
        super().__init__(informers.pump)
        self._client = client
        self._recorder = recorder
        self._clock = clock
        self._owners = informers.get(self.path)
        self._pods = informers.get("/api/v1/pods")
        self._pods.add_index("controller", controller_uid_index)
        self._owners.subscribe(self._owner_changed)
        self._pods.subscribe(self._pod_changed)

    def enqueue_batched(self, key: str) -> None:
        if self.batch_seconds:
            self.enqueue_at(key, self._clock() + self.batch_seconds)
        else:
            self.enqueue(key)

    def _owner_changed(self, old: Json | None, new: Json | None) -> None:
        key = key_of(new or old or {})
        # The echo of the controller's own status write moves no generation, and may wait.
        if old is None or new is None or old["metadata"].get("generation") != new["metadata"].get("generation"):
            self.enqueue(key)
        else:
            self.enqueue_batched(key)

    def _pod_changed(self, old: Json | None, new: Json | None) -> None:
        """Wakes the pod's owner; of a pod without a controller each that may adopt it."""
        for pod in (old, new):
            if pod is None:
                continue
            ref = controller_of(pod)
            if ref is not None:
                if ref["kind"] == self.kind:
                    self.enqueue_batched(f"{pod['metadata']['namespace']}/{ref['name']}")
                continue
            namespace, labels = pod["metadata"]["namespace"], pod["metadata"].get("labels")
            for key, owner in self._owners.store.items():
                if owner["metadata"]["namespace"] == namespace and matches(owner["spec"].get("selector"), labels):
                    self.enqueue_batched(key)

    def _owned_by(self, owner: Json) -> list[Json]:
        return self._pods.by("controller", owner["metadata"]["uid"])

    def _orphans_beside(self, owner: Json) -> list[Json]:
        """Pods of its namespace without a controller."""
        return self._pods.by("controller", f"orphan/{owner['metadata']['namespace']}")


def pods_path(namespace: str, name: str = "", subresource: str = "") -> str:
    path = f"/api/v1/namespaces/{namespace}/pods"
    return "/".join(part for part in (path, name, subresource) if part)


def patch_pod_status(client: Client, pod: Json, status: Json) -> None:
    """Patches the status if the pod is still in the version that `pod` shows. Raises ApiError."""
    meta = pod["metadata"]
    seen = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
    client.patch(pods_path(meta["namespace"], meta["name"], "status"), {"metadata": seen, "status": status})


def delete_pod(client: Client, pod: Json, **options: Any) -> None:
    """Deletes this pod, not a successor of the same name. Raises ApiError."""
    meta = pod["metadata"]
    client.delete(pods_path(meta["namespace"], meta["name"]), {**options, "preconditions": {"uid": meta["uid"]}})


def controller_uid_index(obj: Json) -> Iterable[str]:
    """For pods: the UID of the controller, or the namespace of an orphan under `orphan/`."""
    ref = controller_of(obj)
    yield ref["uid"] if ref else f"orphan/{obj['metadata']['namespace']}"


def claim_pods(
    client: Client, owner: Json, selector: Json, owned: Iterable[Json], orphans: Iterable[Json]
) -> list[Json]:
    """The pods that are the owner's after adopting and releasing. Raises ApiError on a conflict, to look again."""
    mine = []
    deleting = "deletionTimestamp" in owner["metadata"]
    for pod in owned:
        # `ClaimObject` keeps a pod that matches, even while the owner is being deleted: nothing has to be written.
        meta = pod["metadata"]
        if matches(selector, meta.get("labels")):
            mine.append(pod)
        # `ClaimPods`: an owner that is being deleted neither adopts nor releases.
        elif not deleting:
            refs = [r for r in meta.get("ownerReferences") or () if r["uid"] != owner["metadata"]["uid"]]
            _patch_refs(client, pod, refs)
    for pod in orphans:
        meta = pod["metadata"]
        # `ClaimObject` adopts no pod that is being deleted: it would count as a replica and vanish.
        if deleting or "deletionTimestamp" in meta or not matches(selector, meta.get("labels")):
            continue
        refs = [*(meta.get("ownerReferences") or ()), controller_ref(owner)]
        _patch_refs(client, pod, refs)
        mine.append({**pod, "metadata": {**meta, "ownerReferences": refs}})
    return mine


def _patch_refs(client: Client, pod: Json, refs: list[Json]) -> None:
    meta = pod["metadata"]
    with ignoring(404):
        client.patch(
            pods_path(meta["namespace"], meta["name"]),
            {"metadata": {"uid": meta["uid"], "ownerReferences": refs or None}},
        )


def pod_from_template(owner: Json, template: Json, generate_name: str) -> Json:
    meta = template.get("metadata") or {}
    made: Json = {"generateName": generate_name, "ownerReferences": [controller_ref(owner)]}
    for field in ("labels", "annotations", "finalizers"):
        if meta.get(field):
            made[field] = meta[field]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": made, "spec": template["spec"]}


def create_pods(client: Client, recorder: Recorder, owner: Json, make: Callable[[int], Json], count: int) -> int:
    """Creates up to `count` pods, each with an event, and returns how many it has created. Raises the ApiError of a pod
    that was refused, except in a namespace that is being deleted."""
    namespace = owner["metadata"]["namespace"]
    for made in range(count):
        try:
            pod = client.create(pods_path(namespace), make(made))
        except ApiError as error:
            # Every further creation would be refused, and the owner is deleted with its namespace.
            if "NamespaceTerminating" in error.causes:
                return made
            recorder.warning(owner, "FailedCreate", f"Error creating: {error.message}")
            raise
        recorder.normal(owner, "SuccessfulCreate", f"Created pod: {pod['metadata']['name']}")
    return count


def delete_pods(client: Client, recorder: Recorder, owner: Json, pods: Iterable[Json]) -> None:
    for pod in pods:
        try:
            delete_pod(client, pod)
        except ApiError as error:
            # The pod is gone, or another pod has its name: the surplus is gone in both cases.
            if error.code in (404, 409):
                continue
            recorder.warning(owner, "FailedDelete", f"Error deleting: {error.message}")
            raise
        recorder.normal(owner, "SuccessfulDelete", f"Deleted pod: {pod['metadata']['name']}")


def deletion_order(pods: list[Json], related: Iterable[Json] = ()) -> list[Json]:
    """Sorts pods by who is deleted first: unassigned, pending, not ready, cheap by `pod-deletion-cost`, crowded on one
    node with `related` active pods, ready for a shorter time, often restarted, young (`ActivePodsWithRanks.Less`)."""
    crowd: dict[str, int] = {}
    # `getPodsRankedByRelatedPodsOnSameNode` counts active pods, ready or not.
    for pod in related:
        if node := pod["spec"].get("nodeName"):
            crowd[node] = crowd.get(node, 0) + 1

    def rank(pod: Json) -> tuple[Any, ...]:
        meta = pod["metadata"]
        node = pod["spec"].get("nodeName", "")
        ready = is_ready(pod)
        since = condition(pod, "Ready") or {}
        cost = (meta.get("annotations") or {}).get("controller.kubernetes.io/pod-deletion-cost", "0")
        return (
            bool(node),
            _PHASE_ORDER.get(phase_of(pod), 3),
            ready,
            int(cost) if cost.lstrip("-").isdigit() else 0,
            -crowd.get(node, 0),
            -seconds_of(since["lastTransitionTime"]) if ready and since.get("lastTransitionTime") else 0,
            -_restarts(pod),
            -seconds_of(meta["creationTimestamp"]),
            meta["uid"],
        )

    return sorted(pods, key=rank)


def _restarts(pod: Json) -> int:
    return max((c.get("restartCount", 0) for c in (pod.get("status") or {}).get("containerStatuses") or ()), default=0)
