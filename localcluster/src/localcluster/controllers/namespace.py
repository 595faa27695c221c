"""Deletes what a terminating namespace holds, then finalizes it. Safe to run twice."""

from __future__ import annotations

from localcluster.client import Client, ignoring
from localcluster.controllers.garbage import DeletableResource, discover_resources
from localcluster.informer import Informers, key_of
from localcluster.machine import KeyedMachine
from localcluster.objects import timestamp
from localcluster.wire import Json

LOOK_AGAIN_SECONDS = 1.0


class NamespaceController(KeyedMachine):
    name = "namespace-controller"

    def __init__(self, client: Client, informers: Informers) -> None:
        super().__init__(informers.pump)
        self._client = client
        self._namespaces = informers.get("/api/v1/namespaces")
        self._namespaces.subscribe(self._changed)
        # A pod whose deletion completes may be the last that its namespace waits for.
        informers.get("/api/v1/pods").subscribe(self._pod_changed)

    def _changed(self, old: Json | None, new: Json | None) -> None:
        if new is not None and "deletionTimestamp" in new["metadata"]:
            self.enqueue(key_of(new))

    def _pod_changed(self, old: Json | None, new: Json | None) -> None:
        if new is None and old is not None:
            namespace = self._namespaces.get(old["metadata"]["namespace"])
            if namespace is not None and "deletionTimestamp" in namespace["metadata"]:
                self.enqueue(key_of(namespace))

    def reconcile(self, key: str, now: float) -> None:
        namespace = self._namespaces.get(key)
        if namespace is None or "deletionTimestamp" not in namespace["metadata"]:
            return
        kinds = [resource for resource in discover_resources(self._client) if resource.namespaced]
        left = {resource: items for resource in kinds if (items := self._delete_contents(resource, key))}
        if left:
            self._report_remaining(namespace, left, now)
            self.enqueue_at(key, now + LOOK_AGAIN_SECONDS)
            return
        held = (namespace.get("spec") or {}).get("finalizers") or ()
        if "kubernetes" not in held:
            return  # what holds it is another's to take away
        finalizers = [f for f in held if f != "kubernetes"]
        with ignoring(404):
            self._client.update(f"/api/v1/namespaces/{key}/finalize", {**namespace, "spec": {"finalizers": finalizers}})

    def _report_remaining(self, namespace: Json, left: dict[DeletableResource, list[Json]], now: float) -> None:
        """Writes what blocks the deletion into the conditions of the namespace."""
        name = namespace["metadata"]["name"]
        status = namespace.get("status") or {}
        conditions = conditions_of(left, status.get("conditions") or [], timestamp(now))
        if conditions != status.get("conditions"):
            self._client.patch(f"/api/v1/namespaces/{name}/status", {"status": {"conditions": conditions}})

    def _delete_contents(self, resource: DeletableResource, namespace: str) -> list[Json]:
        path = f"{resource.prefix}/namespaces/{namespace}/{resource.plural}"
        items = self._client.get(path).get("items") or []
        if not items:
            return []
        if any("deletionTimestamp" not in item["metadata"] for item in items):
            self._client.delete(path, {"propagationPolicy": "Background"})
            # Objects without finalizers and grace period are gone by now.
            items = self._client.get(path).get("items") or []
        return list(items)


_DONE = (
    ("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"),
    ("NamespaceDeletionGroupVersionParsingFailure", "ParsedGroupVersions", "All legacy kube types successfully parsed"),
    (
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
)


def conditions_of(left: dict[DeletableResource, list[Json]], before: list[Json], now: str) -> list[Json]:
    """In the words of Kubernetes (pkg/controller/namespace/deletion/status_condition_utils.go). Pure."""
    counts = sorted((f"{r.plural}.{r.group_version.rpartition('/')[0]}", len(items)) for r, items in left.items())
    finalizers: dict[str, int] = {}
    for item in (item for items in left.values() for item in items):
        for finalizer in item["metadata"].get("finalizers") or ():
            finalizers[finalizer] = finalizers.get(finalizer, 0) + 1
    remaining = ", ".join(f"{name} has {count} resource instances" for name, count in counts)
    holding = ", ".join(f"{name} in {count} resource instances" for name, count in sorted(finalizers.items()))
    wanted = [(kind, "False", reason, message) for kind, reason, message in _DONE]
    wanted.append(
        ("NamespaceContentRemaining", "True", "SomeResourcesRemain", f"Some resources are remaining: {remaining}")
    )
    if holding:
        message = f"Some content in the namespace has finalizers remaining: {holding}"
        wanted.append(("NamespaceFinalizersRemaining", "True", "SomeFinalizersRemain", message))
    else:
        message = "All content-preserving finalizers finished"
        wanted.append(("NamespaceFinalizersRemaining", "False", "ContentHasNoFinalizers", message))
    had = {c["type"]: c for c in before}
    return [
        {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastTransitionTime": had[kind]["lastTransitionTime"]
            if kind in had and had[kind]["status"] == status
            else now,
        }
        for kind, status, reason, message in wanted
    ]
