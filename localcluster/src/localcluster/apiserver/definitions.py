"""The life of CustomResourceDefinitions in the cluster: served at once, conditions a write later, and their objects
deleted before they go. Reacts to writes; safe to run twice.
"""

from __future__ import annotations

from collections.abc import Callable

from localcluster.apiserver import crds
from localcluster.apiserver.deleting import Deleter
from localcluster.apiserver.options import delete_options
from localcluster.apiserver.registry import Registry
from localcluster.apiserver.watching import Watchers
from localcluster.objects import timestamp
from localcluster.storage import Event, Item, Store
from localcluster.wire import Json, Request

DEFINITIONS = "apiextensions.k8s.io/customresourcedefinitions"


class Definitions:
    def __init__(
        self, store: Store, registry: Registry, watchers: Watchers, deleter: Deleter, clock: Callable[[], float]
    ) -> None:
        self._store = store
        self._registry = registry
        self._watchers = watchers
        self._deleter = deleter
        self._clock = clock

    def changed(self, event: Event) -> None:
        definition = event.item.obj
        if event.type == "DELETED":
            self._registry.replace_definition(definition["metadata"]["name"], [])
            self._watchers.end_all(f"{definition['spec']['group']}/{definition['spec']['names']['plural']}")
            return
        changed = event.previous is None or event.previous.obj["spec"] != definition["spec"]
        if changed:
            # `crdHandler.updateCustomResourceDefinition` tears down the old storage: clients list again under the new
            # schema.
            if event.previous is not None:
                self._watchers.end_all(f"{definition['spec']['group']}/{definition['spec']['names']['plural']}")
            self.serve(definition)
        now = timestamp(self._clock())
        if "deletionTimestamp" in definition["metadata"]:
            # `CRDFinalizer.sync` reports the condition in a write of its own before it deletes the objects.
            if any(c["reason"] == "InstanceDeletionPending" for c in definition["status"].get("conditions") or ()):
                self._put({**definition, "status": crds.terminating_status(definition, now)})
            else:
                self.end(f"{definition['spec']['group']}/{definition['spec']['names']['plural']}")
        elif not definition["status"].get("conditions") or (
            changed and definition["status"].get("acceptedNames") != definition["spec"]["names"]
        ):
            clash = crds.clash_of(definition, self._registry.rows())
            metadata = {**definition["metadata"], "finalizers": [*definition["metadata"].get("finalizers", ())]}
            if crds.CLEANUP not in metadata["finalizers"]:
                metadata["finalizers"].append(crds.CLEANUP)
            self._put({**definition, "metadata": metadata, "status": crds.established_status(definition, now, clash)})

    def _put(self, definition: Json) -> None:
        self._store.put(
            DEFINITIONS, ("", definition["metadata"]["name"]), {**definition, "metadata": dict(definition["metadata"])}
        )

    def serve(self, definition: Json) -> None:
        clash = crds.clash_of(definition, self._registry.rows())
        self._registry.replace_definition(definition["metadata"]["name"], [] if clash else crds.served_rows(definition))

    def end(self, bucket: str) -> None:
        """Delete what is left of a definition that is going, and let go of it when nothing is."""
        group, _, plural = bucket.partition("/")
        item = self._store.get(DEFINITIONS, ("", f"{plural}.{group}"))
        if item is None or "deletionTimestamp" not in item.obj["metadata"]:
            return
        row = next((row for row in self._registry.rows() if row.bucket == bucket), None)
        for (namespace, name), left in list(self._store.items(bucket)):
            if (
                row is not None
                and "deletionTimestamp" not in left.obj["metadata"]
                and self._store.get(bucket, (namespace, name)) is not None
            ):
                self._deleter.delete(row, namespace, name, delete_options(Request("DELETE", ""), {}))
        item = self._store.get(DEFINITIONS, ("", f"{plural}.{group}"))
        # `deleteInstances` waits for objects with finalizers, and the definition waits with it.
        if item is None or self._store.count(bucket) or crds.CLEANUP not in item.obj["metadata"].get("finalizers", ()):
            return
        metadata = dict(item.obj["metadata"])
        metadata["finalizers"] = [name for name in metadata["finalizers"] if name != crds.CLEANUP]
        resource = self._registry.find("apiextensions.k8s.io", "v1", "customresourcedefinitions")
        assert resource is not None  # noqa: S101  a row of the built-in table
        last = Item({**item.obj, "metadata": metadata}, item.revision)
        if self._deleter.settled(resource, last) is None:
            self._put(last.obj)
