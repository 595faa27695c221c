"""Garbage collection by owner references: in the background, in the foreground, and orphaning. Follows
`garbagecollector.go` and `graph_builder.go`.

Watches each resource that can be listed and deleted; those of CRDs come and go. An object is deleted once all of its
owners are absent. An owner is identified by its UID, and must be in the same namespace or in none. Before an object is
deleted for an absent owner, the API server confirms the absence, so an empty or late cache deletes nothing. Running
twice is safe, because every delete names a UID.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from localcluster.client import ApiError, Client, ignoring
from localcluster.informer import Informers
from localcluster.machine import KeyedMachine
from localcluster.wire import Json

IGNORED = {("v1", "events"), ("events.k8s.io/v1", "events"), ("coordination.k8s.io/v1", "leases")}
"""Events change often and have no owner (`DefaultIgnoredResources`). A Lease is renewed every few seconds."""
FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
DISCOVER = "discover"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@dataclass(frozen=True, slots=True)
class DeletableResource:
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

    def object_path(self, namespace: str, name: str) -> str:
        return (
            f"{self.prefix}/namespaces/{namespace}/{self.plural}/{name}"
            if self.namespaced
            else f"{self.list_path}/{name}"
        )


def discover_resources(client: Client) -> list[DeletableResource]:
    """The resources that can be listed, watched and deleted. Each comes once, in its group's preferred version if that
    version serves it."""
    versions = ["v1"]
    for group in client.get("/apis").get("groups") or ():
        served = [version["groupVersion"] for version in group["versions"]]
        preferred = (group.get("preferredVersion") or group["versions"][0])["groupVersion"]
        versions += [preferred, *(version for version in served if version != preferred)]
    found: list[DeletableResource] = []
    names: set[tuple[str, str]] = set()
    for version in versions:
        try:
            served_here = client.get("/api/v1" if version == "v1" else f"/apis/{version}")
        except ApiError:
            # `GetDeletableResources` goes on with the groups whose discovery succeeds.
            continue
        for resource in served_here.get("resources") or ():
            name = version.rpartition("/")[0], resource["name"]
            if name in names:
                continue
            names.add(name)
            if "/" not in resource["name"] and {"list", "watch", "delete"} <= set(resource.get("verbs") or ()):
                found.append(DeletableResource(version, resource["name"], resource["kind"], resource["namespaced"]))
    return found


class GarbageCollector(KeyedMachine):
    """A key is the UID of an object to look at, or `DISCOVER`."""

    name = "garbage-collector"

    def __init__(self, client: Client, informers: Informers) -> None:
        super().__init__(informers.pump)
        self._client = client
        self._informers = informers
        self._objects: dict[str, tuple[DeletableResource, Json]] = {}
        self._dependents: dict[str, dict[str, None]] = {}
        self._untried: set[str] = set()
        """Owners in foreground deletion whose dependents have not been tried yet."""
        self._watched: dict[str, DeletableResource] = {}
        self._by_kind: dict[tuple[str, str], DeletableResource] = {}
        informers.get(CRDS).subscribe(self._crd_changed)
        self.enqueue(DISCOVER)

    def _crd_changed(self, old: Json | None, new: Json | None) -> None:
        def describe_served(crd: Json | None) -> Any:
            if crd is None:
                return None
            status = crd.get("status") or {}
            return [crd["spec"]["versions"], [c["status"] for c in status.get("conditions") or ()]]

        if describe_served(old) != describe_served(new) or old is new:
            self.enqueue(DISCOVER)

    def reconcile(self, key: str, now: float) -> None:
        if key == DISCOVER:
            self._watch_deletable()
            return
        known = self._objects.get(key)
        if known is not None:
            self._process(*known)

    # --- the graph -------------------------------------------------------------------------------------------------

    def _watch_deletable(self) -> None:
        found = {r.list_path: r for r in discover_resources(self._client) if (r.group_version, r.plural) not in IGNORED}
        for path in [p for p in self._watched if p not in found]:
            gone = self._watched.pop(path)
            self._by_kind.pop(_kind_of(gone.group_version, gone.kind), None)
            self._informers.remove(path)
            for uid in [u for u, (resource, _) in self._objects.items() if resource == gone]:
                self._forget(uid)
        added = {path: resource for path, resource in found.items() if path not in self._watched}
        for path, resource in added.items():
            self._watched[path] = resource
            self._by_kind[_kind_of(resource.group_version, resource.kind)] = resource
            self._informers.get(path).subscribe(partial(self._object_changed, resource))
        # `attemptToDeleteWorker` retries until the owner's kind is known: only now can its absence be confirmed.
        kinds = {_kind_of(resource.group_version, resource.kind) for resource in added.values()}
        for uid, (_, obj) in self._objects.items():
            if any(_kind_of(r["apiVersion"], r["kind"]) in kinds for r in _owners_by_uid(obj).values()):
                self.enqueue(uid)

    def _object_changed(self, resource: DeletableResource, old: Json | None, new: Json | None) -> None:
        if new is not None:
            self._update_graph(resource, new)
        elif old is not None:
            self._forget(old["metadata"]["uid"])

    def _update_graph(self, resource: DeletableResource, obj: Json) -> None:
        uid = obj["metadata"]["uid"]
        before = self._objects.get(uid)
        old = before[1] if before else None
        self._objects[uid] = (resource, obj)
        references, old_references = _owners_by_uid(obj), _owners_by_uid(old) if old else {}
        for owner in old_references:
            if owner not in references:
                self._dependents.get(owner, {}).pop(uid, None)
            # `addUnblockedOwnersToDeleteQueue`: this may have been the last dependent that the owner waits for.
            if _blocks(old_references[owner]) and not _blocks(references.get(owner)):
                self.enqueue(owner)
        for owner in references:
            self._dependents.setdefault(owner, {})[uid] = None
            # `addDependentToOwners` lets the API server confirm an owner that the graph does not know. A known owner
            # keeps the object for now, even one that is being deleted in the foreground: its end is an event, too.
            if owner not in old_references and not self._knows_owner(obj, owner):
                self.enqueue(uid)
        self._notice_deletion(obj, old)

    def _notice_deletion(self, obj: Json, old: Json | None) -> None:
        """An object whose deletion begins may have dependents to delete or to orphan (`processTransitions`)."""
        uid = obj["metadata"]["uid"]
        if _is_deleted_with(ORPHAN, obj) and not _is_deleted_with(ORPHAN, old):
            self.enqueue(uid)
        elif _is_deleted_with(FOREGROUND, obj) and not _is_deleted_with(FOREGROUND, old):
            self._untried.add(uid)
            self.enqueue(uid)

    def _knows_owner(self, obj: Json, owner_uid: str) -> bool:
        known = self._objects.get(owner_uid)
        return known is not None and _may_own(known[1], obj)

    def _forget(self, uid: str) -> None:
        had = self._objects.pop(uid, None)
        if had is None:
            return
        self._untried.discard(uid)
        for owner in _owners_by_uid(had[1]):
            self._dependents.get(owner, {}).pop(uid, None)
            if (known := self._objects.get(owner)) is not None and _is_deleted_with(FOREGROUND, known[1]):
                self.enqueue(owner)
        # The deleted object may have been a dependent's last owner.
        for dependent in self._dependents.get(uid, {}):
            self.enqueue(dependent)
        if not self._dependents.get(uid):
            self._dependents.pop(uid, None)

    # --- one object ------------------------------------------------------------------------------------------------

    def _process(self, resource: DeletableResource, obj: Json) -> None:
        if _is_deleted_with(ORPHAN, obj):
            self._orphan_dependents(resource, obj)
        elif _is_deleted_with(FOREGROUND, obj):
            self._wait_for_dependents(resource, obj)
        elif "deletionTimestamp" not in obj["metadata"]:
            self._delete_without_owners(resource, obj)

    def _delete_without_owners(self, resource: DeletableResource, obj: Json) -> None:
        """`attemptToDeleteItem`, for an object that is not being deleted."""
        meta = obj["metadata"]
        refs = meta.get("ownerReferences") or []
        if not refs:
            return
        solid, waiting, dangling = self._classify_references(obj, refs)
        if solid:
            # Another owner keeps the object. A reference that stayed would block the deletion of an owner that waits
            # for its dependents.
            if dangling or waiting:
                gone = {r["uid"] for r in (*dangling, *waiting)}
                self._set_owners(resource, obj, [r for r in refs if r["uid"] not in gone])
            return
        finalizers = meta.get("finalizers") or ()
        dependents = self._known_dependents(meta["uid"])
        policy = "Background"
        if waiting and dependents:
            # The owner's foreground deletion goes on to the object's own dependents.
            policy = "Foreground"
            # Two objects that own each other would wait for each other for ever, so this one stops blocking.
            if any(_is_deleted_with(FOREGROUND, dependent) for _, dependent in dependents):
                self._set_owners(resource, obj, [{**r, "blockOwnerDeletion": False} for r in refs])
        elif ORPHAN in finalizers:
            policy = "Orphan"
        elif FOREGROUND in finalizers:
            policy = "Foreground"
        self._delete(resource, obj, policy)

    def _classify_references(self, obj: Json, refs: list[Json]) -> tuple[list[Json], list[Json], list[Json]]:
        """(solid, waiting, dangling): `waiting` owners are in foreground deletion, `dangling` ones are absent."""
        solid: list[Json] = []
        waiting: list[Json] = []
        dangling: list[Json] = []
        for ref in refs:
            owner = self._find_owner(obj, ref)
            if owner is None:
                dangling.append(ref)
            elif _is_deleted_with(FOREGROUND, owner):
                waiting.append(ref)
            else:
                solid.append(ref)
        return solid, waiting, dangling

    def _find_owner(self, obj: Json, ref: Json) -> Json | None:
        """The owner, or None when the API server has confirmed that it is absent (`isDangling`)."""
        namespace = obj["metadata"].get("namespace", "")
        known = self._objects.get(ref["uid"])
        if known is not None and _may_own(known[1], obj):
            return known[1]
        kind = self._by_kind.get(_kind_of(ref["apiVersion"], ref["kind"]))
        if kind is None or (kind.namespaced and not namespace):
            # The kind may become known later: the dependent is kept until its owner is known to be absent.
            return {"metadata": {}}
        try:
            owner = self._client.get(kind.object_path(namespace, ref["name"]))
        except ApiError as error:
            if error.code == 404:
                return None
            raise
        return owner if owner["metadata"]["uid"] == ref["uid"] else None

    def _known_dependents(self, uid: str) -> list[tuple[DeletableResource, Json]]:
        return [self._objects[dependent] for dependent in self._dependents.get(uid, {}) if dependent in self._objects]

    def _wait_for_dependents(self, resource: DeletableResource, obj: Json) -> None:
        """`processDeletingDependentsItem`: tries the dependents, and lets the owner go once none of them blocks."""
        uid = obj["metadata"]["uid"]
        dependents = [dependent for _, dependent in self._known_dependents(uid)]
        blocking = [dependent for dependent in dependents if _blocks(_owners_by_uid(dependent)[uid])]
        # `processTransitions` tries all dependents when the deletion begins. One that is made later and does not block
        # is tried when the owner is gone. Here the first try waits until all caches have caught up.
        for dependent in dependents if uid in self._untried else blocking:
            if "deletionTimestamp" not in dependent["metadata"]:
                self.enqueue(dependent["metadata"]["uid"])
        self._untried.discard(uid)
        if not blocking:
            self._remove_finalizer(resource, obj, FOREGROUND)

    def _orphan_dependents(self, resource: DeletableResource, obj: Json) -> None:
        uid = obj["metadata"]["uid"]
        for dependent_resource, dependent in self._known_dependents(uid):
            refs = dependent["metadata"].get("ownerReferences") or ()
            self._set_owners(dependent_resource, dependent, [r for r in refs if r["uid"] != uid])
        self._remove_finalizer(resource, obj, ORPHAN)

    # --- writes ----------------------------------------------------------------------------------------------------

    def _delete(self, resource: DeletableResource, obj: Json, policy: str) -> None:
        meta = obj["metadata"]
        body = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "propagationPolicy": policy,
            "preconditions": {"uid": meta["uid"]},
        }
        try:
            self._client.delete(resource.object_path(meta.get("namespace", ""), meta["name"]), body)
        except ApiError as error:
            # A successor of the same name is judged by its own references.
            if error.code != 404 and not (error.code == 409 and "UID" in error.message):
                raise

    def _set_owners(self, resource: DeletableResource, obj: Json, refs: list[Json]) -> None:
        self._patch(resource, obj, {"ownerReferences": refs or None})

    def _remove_finalizer(self, resource: DeletableResource, obj: Json, finalizer: str) -> None:
        left = [f for f in obj["metadata"].get("finalizers") or () if f != finalizer]
        self._patch(resource, obj, {"finalizers": left or None})

    def _patch(self, resource: DeletableResource, obj: Json, metadata: Json) -> None:
        meta = obj["metadata"]
        body = {"metadata": {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"], **metadata}}
        with ignoring(404):
            self._client.patch(resource.object_path(meta.get("namespace", ""), meta["name"]), body)


def _kind_of(api_version: str, kind: str) -> tuple[str, str]:
    """(group, kind): an owner reference may name any version."""
    return api_version.rpartition("/")[0], kind


def _owners_by_uid(obj: Json) -> dict[str, Json]:
    return {r["uid"]: r for r in obj["metadata"].get("ownerReferences") or ()}


def _blocks(reference: Json | None) -> bool:
    return bool(reference and reference.get("blockOwnerDeletion"))


def _may_own(owner: Json, obj: Json) -> bool:
    """An owner is in the namespace of its dependents, or in none."""
    namespace = obj["metadata"].get("namespace", "")
    return bool(owner["metadata"].get("namespace", namespace) == namespace)


def _is_deleted_with(finalizer: str, obj: Json | None) -> bool:
    """True while the object is being deleted and the collector still has to remove this finalizer."""
    if obj is None:
        return False
    meta = obj["metadata"]
    return "deletionTimestamp" in meta and finalizer in (meta.get("finalizers") or ())
