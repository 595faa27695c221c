"""Garbage collection by owner reference: background, foreground with blockOwnerDeletion, orphan; dangling owners by
UID.

Watches every resource that can be listed and deleted, those of CRDs as they come and go. An object goes when all of its
owners are gone; an owner is the same only with the same UID, in the same namespace or in none. Before it deletes for an
absent owner it asks the API server itself, so an empty or late cache deletes nothing. Safe to run twice: every delete
names a UID.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from localcluster.client import ApiError, Client, ignoring
from localcluster.informer import Informers
from localcluster.machine import KeyedMachine
from localcluster.wire import Json

IGNORED = {("v1", "events"), ("events.k8s.io/v1", "events"), ("coordination.k8s.io/v1", "leases")}
"""Events change often and have no owner; Kubernetes leaves them out, too."""
FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
DISCOVER = "discover"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@dataclass(frozen=True, slots=True)
class Resource:
    group_version: str
    plural: str
    kind: str
    namespaced: bool

    @property
    def prefix(self) -> str:
        return "/api/v1" if self.group_version == "v1" else f"/apis/{self.group_version}"

    @property
    def list_path(self) -> str:
        return f"{self.prefix}/{self.plural}"

    def path(self, namespace: str, name: str) -> str:
        return (
            f"{self.prefix}/namespaces/{namespace}/{self.plural}/{name}"
            if self.namespaced
            else f"{self.list_path}/{name}"
        )


def discover(client: Client) -> list[Resource]:
    """What can be listed, watched and deleted, each resource once: in its group's preferred version, where that has
    it."""
    versions = ["v1"]
    for group in client.get("/apis").get("groups") or ():
        served = [version["groupVersion"] for version in group["versions"]]
        preferred = (group.get("preferredVersion") or group["versions"][0])["groupVersion"]
        versions += [preferred, *(version for version in served if version != preferred)]
    found: list[Resource] = []
    names: set[tuple[str, str]] = set()
    for version in versions:
        try:
            told = client.get("/api/v1" if version == "v1" else f"/apis/{version}")
        except ApiError:
            # `GetDeletableResources` goes on with the groups whose discovery succeeds.
            continue
        for resource in told.get("resources") or ():
            name = version.rpartition("/")[0], resource["name"]
            if name in names:
                continue
            names.add(name)
            if "/" not in resource["name"] and {"list", "watch", "delete"} <= set(resource.get("verbs") or ()):
                found.append(Resource(version, resource["name"], resource["kind"], resource["namespaced"]))
    return found


class GarbageCollector(KeyedMachine):
    """Keys are UIDs, and `discover`."""

    name = "garbage-collector"

    def __init__(self, client: Client, informers: Informers) -> None:
        super().__init__(informers.pump)
        self._client = client
        self._informers = informers
        self._objects: dict[str, tuple[Resource, Json]] = {}
        self._dependents: dict[str, dict[str, None]] = {}
        self._watched: dict[str, Resource] = {}
        self._by_kind: dict[tuple[str, str], Resource] = {}
        informers.get(CRDS).subscribe(self._crd_changed)
        self.enqueue(DISCOVER)

    def _crd_changed(self, old: Json | None, new: Json | None) -> None:
        def served(crd: Json | None) -> Any:
            if crd is None:
                return None
            status = crd.get("status") or {}
            return [crd["spec"]["versions"], [c["status"] for c in status.get("conditions") or ()]]

        if served(old) != served(new) or old is new:
            self.enqueue(DISCOVER)

    def reconcile(self, key: str, now: float) -> None:
        if key == DISCOVER:
            self._discover()
            return
        known = self._objects.get(key)
        if known is not None:
            self._collect(*known)

    # --- the graph -------------------------------------------------------------------------------------------------

    def _discover(self) -> None:
        found = {r.list_path: r for r in discover(self._client) if (r.group_version, r.plural) not in IGNORED}
        for path in [p for p in self._watched if p not in found]:
            gone = self._watched.pop(path)
            self._by_kind.pop((gone.group_version.rpartition("/")[0], gone.kind), None)
            self._informers.remove(path)
            for uid in [u for u, (resource, _) in self._objects.items() if resource == gone]:
                self._forget(uid)
        for path, resource in found.items():
            if path not in self._watched:
                self._watched[path] = resource
                self._by_kind[(resource.group_version.rpartition("/")[0], resource.kind)] = resource
                self._informers.get(path).subscribe(lambda old, new, r=resource: self._changed(r, old, new))  # type: ignore[misc]

    def _changed(self, resource: Resource, old: Json | None, new: Json | None) -> None:
        obj = new or old or {}
        uid = obj["metadata"]["uid"]
        had = self._objects.get(uid)
        before = _owner_uids(had[1]) if had else set()
        if new is None:
            self._forget(uid)
            return
        self._objects[uid] = (resource, new)
        after = _owner_uids(new)
        for owner in before - after:
            self._dependents.get(owner, {}).pop(uid, None)
            # This dependent may have been the last that an owner in foreground deletion waits for.
            self.enqueue(owner)
        for owner in after:
            self._dependents.setdefault(owner, {})[uid] = None
        if (before != after) or "deletionTimestamp" in new["metadata"]:
            self.enqueue(uid)

    def _forget(self, uid: str) -> None:
        had = self._objects.pop(uid, None)
        if had is None:
            return
        for owner in _owner_uids(had[1]):
            self._dependents.get(owner, {}).pop(uid, None)
            self.enqueue(owner)
        # The deleted object may have been a dependent's last owner.
        for dependent in self._dependents.get(uid, {}):
            self.enqueue(dependent)
        if not self._dependents.get(uid):
            self._dependents.pop(uid, None)

    # --- one object ------------------------------------------------------------------------------------------------

    def _collect(self, resource: Resource, obj: Json) -> None:
        meta = obj["metadata"]
        finalizers = meta.get("finalizers") or ()
        if "deletionTimestamp" in meta:
            if ORPHAN in finalizers:
                self._orphan_dependents(resource, obj)
            elif FOREGROUND in finalizers:
                self._wait_for_dependents(resource, obj)
            return
        refs = meta.get("ownerReferences") or []
        if not refs:
            return
        solid, waiting, dangling = self._classify(resource, obj, refs)
        if solid:
            # `attemptToDeleteItem`: another owner keeps the object. A reference that stayed would block the deletion
            # of an owner in foreground deletion.
            if dangling or waiting:
                gone = {r["uid"] for r in (*dangling, *waiting)}
                self._set_owners(resource, obj, [r for r in refs if r["uid"] not in gone])
            return
        policy = "Background"
        if ORPHAN in finalizers:
            policy = "Orphan"
        elif FOREGROUND in finalizers or (waiting and self._dependents.get(meta["uid"])):
            # `attemptToDeleteItem`: the owner's foreground deletion goes on to the object's own dependents.
            policy = "Foreground"
        self._delete(resource, obj, policy)

    def _classify(self, resource: Resource, obj: Json, refs: list[Json]) -> tuple[list[Json], list[Json], list[Json]]:
        solid: list[Json] = []
        waiting: list[Json] = []
        dangling: list[Json] = []
        for ref in refs:
            owner = self._owner(resource, obj, ref)
            if owner is None:
                dangling.append(ref)
            elif "deletionTimestamp" in owner["metadata"] and FOREGROUND in (owner["metadata"].get("finalizers") or ()):
                waiting.append(ref)
            else:
                solid.append(ref)
        return solid, waiting, dangling

    def _owner(self, resource: Resource, obj: Json, ref: Json) -> Json | None:
        """The live owner, or None when it is certain that there is none."""
        namespace = obj["metadata"].get("namespace", "")
        known = self._objects.get(ref["uid"])
        if known is not None and known[1]["metadata"].get("namespace", namespace) == namespace:
            return known[1]
        group = ref["apiVersion"].rpartition("/")[0]
        kind = self._by_kind.get((group, ref["kind"]))
        if kind is None or (kind.namespaced and not namespace):
            # The kind may become known later: the dependent is kept until its owner is known to be absent.
            return {"metadata": {}}
        try:
            owner = self._client.get(kind.path(namespace, ref["name"]))
        except ApiError as error:
            if error.code == 404:
                return None
            raise
        return owner if owner["metadata"]["uid"] == ref["uid"] else None

    def _wait_for_dependents(self, resource: Resource, obj: Json) -> None:
        uid = obj["metadata"]["uid"]
        blocking = False
        for dependent_uid in list(self._dependents.get(uid, {})):
            known = self._objects.get(dependent_uid)
            if known is None:
                continue
            refs = known[1]["metadata"].get("ownerReferences") or ()
            if any(r["uid"] == uid and r.get("blockOwnerDeletion") for r in refs):
                blocking = True
            # `processDeletingDependentsItem` tries only blocking dependents. The others come here early: upstream
            # collects them once the owner is gone.
            if "deletionTimestamp" not in known[1]["metadata"]:
                self.enqueue(dependent_uid)
        if not blocking:
            self._remove_finalizer(resource, obj, FOREGROUND)

    def _orphan_dependents(self, resource: Resource, obj: Json) -> None:
        uid = obj["metadata"]["uid"]
        for dependent_uid in list(self._dependents.get(uid, {})):
            known = self._objects.get(dependent_uid)
            if known is not None:
                refs = known[1]["metadata"].get("ownerReferences") or ()
                self._set_owners(*known, [r for r in refs if r["uid"] != uid])
        self._remove_finalizer(resource, obj, ORPHAN)

    # --- writes ----------------------------------------------------------------------------------------------------

    def _delete(self, resource: Resource, obj: Json, policy: str) -> None:
        meta = obj["metadata"]
        body = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "propagationPolicy": policy,
            "preconditions": {"uid": meta["uid"]},
        }
        try:
            self._client.delete(resource.path(meta.get("namespace", ""), meta["name"]), body)
        except ApiError as error:
            # A successor of the same name is judged by its own references.
            if error.code != 404 and not (error.code == 409 and "UID" in error.message):
                raise

    def _set_owners(self, resource: Resource, obj: Json, refs: list[Json]) -> None:
        self._patch(resource, obj, {"ownerReferences": refs or None})

    def _remove_finalizer(self, resource: Resource, obj: Json, finalizer: str) -> None:
        left = [f for f in obj["metadata"].get("finalizers") or () if f != finalizer]
        self._patch(resource, obj, {"finalizers": left or None})

    def _patch(self, resource: Resource, obj: Json, metadata: Json) -> None:
        meta = obj["metadata"]
        body = {"metadata": {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"], **metadata}}
        with ignoring(404):
            self._client.patch(resource.path(meta.get("namespace", ""), meta["name"]), body)


def _owner_uids(obj: Json) -> set[str]:
    return {r["uid"] for r in obj["metadata"].get("ownerReferences") or ()}
