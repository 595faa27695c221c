"""How objects end: preconditions, grace, finalizers, propagation, and the moment when an object is really gone.

An object with finalizers, or a pod that still runs, first gets a deletionTimestamp; `settled` removes it when the last
reason to keep it has gone. Deleting twice is safe. Garbage collection itself is a controller's work, not done here.
"""

from __future__ import annotations

from collections.abc import Callable

from localcluster.apiserver import crds, meta
from localcluster.apiserver.errors import StatusError, not_found, precondition_failed
from localcluster.apiserver.options import DeleteOptions
from localcluster.apiserver.strategies import strategy_of
from localcluster.objects import timestamp
from localcluster.resources import Resource
from localcluster.storage import Item, Store
from localcluster.wire import Json

_PERMANENT_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")


_OWN_STORAGE = ("namespaces", "apiextensions.k8s.io/customresourcedefinitions")
"""Deleted by code of their own in Kubernetes, which sets a deletionTimestamp and nothing else."""


class Deleter:
    def __init__(self, store: Store, clock: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock

    def delete(self, resource: Resource, namespace: str, name: str, options: DeleteOptions) -> tuple[Item, bool]:
        """(the object's last or present state, whether it is gone now)."""
        item = self._store.get(resource.bucket, (namespace, name))
        if item is None:
            raise not_found(resource, name)
        self._check(resource, item, options)
        old = item.obj
        finalizers = self._choose_finalizers(resource, old, options)
        grace = self._grace_seconds(resource, old, options)
        began = "deletionTimestamp" in old["metadata"]
        waits = (
            bool(finalizers)
            or grace > 0
            or bool(old.get("spec", {}).get("finalizers") if resource.bucket == "namespaces" else None)
        )
        if not waits:
            if (
                resource.bucket == "pods"
                and not options.dry_run
                and old["metadata"].get("deletionGracePeriodSeconds") != 0
            ):
                # Two writes, as in Kubernetes: a watch shows the mark before the deletion.
                item = self._store.put(resource.bucket, (namespace, name), self._mark_deleted(resource, old, [], 0))
            return self._remove(resource, item, dry_run=options.dry_run), True
        # `BeforeDelete`: a second delete that shortens nothing is pending already, and writes nothing.
        if (
            began
            and grace >= old["metadata"].get("deletionGracePeriodSeconds", 0)
            and finalizers == old["metadata"].get("finalizers", [])
        ):
            return item, False
        new = self._mark_deleted(resource, old, finalizers, grace)
        if options.dry_run:
            return Item(new, item.revision), False
        return self._store.put(resource.bucket, (namespace, name), new), False

    def settled(self, resource: Resource, item: Item, stored: Item | None = None) -> Item | None:
        """Remove the object when this new state of it has no reason left to stay. None when it stays. `stored` is its
        state in the store: that is what watchers of the end are shown, for the new one was never stored."""
        metadata = item.obj["metadata"]
        if "deletionTimestamp" not in metadata or metadata.get("finalizers"):
            return None
        # The pod's kubelet confirms the end with a delete of grace period 0.
        if resource.bucket == "pods" and metadata.get("deletionGracePeriodSeconds", 0) > 0:
            return None
        # The namespace controller takes `spec.finalizers` away when the namespace is empty.
        if resource.bucket == "namespaces" and item.obj.get("spec", {}).get("finalizers"):
            return None
        gone = self._remove(resource, stored or item, dry_run=False)
        return gone if stored is None else Item({**item.obj, "metadata": dict(item.obj["metadata"])}, gone.revision)

    # -- steps -------------------------------------------------------------------------------------
    @staticmethod
    def _check(resource: Resource, item: Item, options: DeleteOptions) -> None:
        metadata = item.obj["metadata"]
        name = metadata["name"]
        if options.uid is not None and options.uid != metadata["uid"]:
            raise precondition_failed(
                resource,
                name,
                f"the UID in the precondition ({options.uid}) does not match the UID in record ({metadata['uid']}). "
                f"The object might have "
                "been deleted and then recreated",
            )
        if options.resource_version is not None and options.resource_version != metadata["resourceVersion"]:
            raise precondition_failed(
                resource,
                name,
                f"the ResourceVersion in the precondition ({options.resource_version}) does not match the "
                f"ResourceVersion in record "
                f"({metadata['resourceVersion']}). The object might have been modified",
            )
        if resource.bucket == "namespaces" and name in _PERMANENT_NAMESPACES:
            raise StatusError(
                403,
                "Forbidden",
                f'namespaces "{name}" is forbidden: this namespace may not be deleted',
                {"name": name, "kind": "namespaces"},
            )

    @staticmethod
    def _choose_finalizers(resource: Resource, obj: Json, options: DeleteOptions) -> list[str]:
        """The finalizers with those of the propagation policy added or taken away."""
        present = obj["metadata"].get("finalizers", [])
        policy = options.propagation
        if not policy:
            # A second delete without a policy does not undo the choice of the first.
            if "orphan" in present or "foregroundDeletion" in present:
                return list(present)
            # `shouldOrphanDependents` falls back on the default of the kind.
            policy = "Orphan" if strategy_of(resource).orphans_by_default else "Background"
        kept = [name for name in present if name not in meta.SERVER_SIDE_FINALIZERS]
        if policy == "Orphan":
            kept.append("orphan")
        elif policy == "Foreground":
            kept.append("foregroundDeletion")
        return kept

    @staticmethod
    def _grace_seconds(resource: Resource, obj: Json, options: DeleteOptions) -> int:
        if resource.bucket != "pods":
            return 0
        spec, status = obj.get("spec", {}), obj.get("status", {})
        grace = options.grace_seconds
        if grace is None:
            grace = obj["metadata"].get("deletionGracePeriodSeconds", spec.get("terminationGracePeriodSeconds", 30))
        # `podStrategy.CheckGracefulDelete`: no process runs that could use the grace.
        if not spec.get("nodeName") or status.get("phase") in ("Succeeded", "Failed"):
            return 0
        return max(0, int(grace))

    def _mark_deleted(self, resource: Resource, old: Json, finalizers: list[str], grace: int) -> Json:
        metadata = dict(old["metadata"])
        # `BeforeDelete` counts the deletion as a change of the spec, so that controllers observe it.
        own_storage = resource.bucket in _OWN_STORAGE
        if "deletionTimestamp" not in metadata and "generation" in metadata and not own_storage:
            metadata["generation"] += 1
        # A second delete may only shorten the grace.
        if "deletionTimestamp" not in metadata or grace < metadata.get("deletionGracePeriodSeconds", 0):
            start = self._clock()
            # `BeforeDelete` counts the shorter grace from when the deletion began.
            if "deletionTimestamp" in metadata:
                began = (meta.parse_time(metadata["deletionTimestamp"]) or start) - metadata.get(
                    "deletionGracePeriodSeconds", 0
                )
                start = min(start, began) if grace else start
            metadata["deletionTimestamp"] = timestamp(start + grace)
            if not own_storage:
                metadata["deletionGracePeriodSeconds"] = grace
        metadata["finalizers"] = finalizers
        if not finalizers:
            del metadata["finalizers"]
        new = {**old, "metadata": metadata}
        if resource.bucket == "namespaces":
            new["status"] = {**old.get("status", {}), "phase": "Terminating"}
        if resource.bucket == _OWN_STORAGE[1]:
            new["status"] = crds.pending_deletion_status(old, timestamp(self._clock()))
        return new

    def _remove(self, resource: Resource, item: Item, *, dry_run: bool) -> Item:
        last = {**item.obj, "metadata": dict(item.obj["metadata"])}
        if resource.bucket == "pods" and "deletionGracePeriodSeconds" not in last["metadata"]:
            last["metadata"] |= {
                "deletionTimestamp": timestamp(self._clock()),
                "deletionGracePeriodSeconds": 0,
                "generation": last["metadata"].get("generation", 0) + 1,
            }
        if dry_run:
            return Item(last, item.revision)
        metadata = last["metadata"]
        return self._store.delete(resource.bucket, (metadata.get("namespace", ""), metadata["name"]), last)
