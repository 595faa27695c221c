"""Create and update of objects: the one road that every write takes, patches (`patches.py`) included.

decode -> metadata -> defaults -> validation -> no-op check -> managed fields -> store. A write that changes nothing
keeps its resourceVersion. With dryRun everything happens but the store. Stored objects are never changed in place.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from localcluster import patch as patching
from localcluster.apiserver import crds, events, meta
from localcluster.apiserver.decoding import Decoder, metadata_of
from localcluster.apiserver.errors import (
    Causes,
    StatusError,
    already_exists,
    bad_request,
    conflict,
    forbidden,
    invalid,
    not_found,
    still_there,
)
from localcluster.apiserver.options import WriteOptions
from localcluster.apiserver.registry import Custom, Registry
from localcluster.apiserver.strategies import strategy_of
from localcluster.objects import timestamp
from localcluster.resources import Resource
from localcluster.schema import FieldCause
from localcluster.storage import Item, Store
from localcluster.wire import Json

_OTHER_NAMESPACE = "the namespace of the provided object does not match the namespace sent on the request"
_ONLY_SERVER_SETS = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")
_DEAD_META = ("selfLink", "clusterName")
_DELETION = ("deletionTimestamp", "deletionGracePeriodSeconds")
_ONLY_WITH_VERSION = ("coordination.k8s.io/leases", "apiextensions.k8s.io/customresourcedefinitions")
"""Built-in kinds whose PUT must say which version it replaces, as that of every custom resource must."""


class Writer:
    """`admit` is called with each object that is about to be created (quota of names, allocation of addresses, ...);
    `settled` with each update that may have ended an object's life."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        clock: Callable[[], float],
        rng: random.Random,
        admit: Callable[[Resource, Json], None],
        settled: Callable[[Resource, Item, Item | None], Item | None],
        *,
        track_fields: bool = True,
    ) -> None:
        self._store = store
        self._registry = registry
        self.decoder = Decoder(registry)
        self._clock = clock
        self._rng = rng
        self._admit = admit
        self._settled = settled
        self._track_fields = track_fields

    # -- create ------------------------------------------------------------------------------------
    def create(
        self, resource: Resource, namespace: str, body: Json, options: WriteOptions, operation: str = "Update"
    ) -> Item:
        obj = self.decoder.decoded(resource, body, options)
        metadata = metadata_of(obj)
        self._check_namespace(resource, namespace, metadata)
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = meta.generated_name(metadata["generateName"], self._rng.choice)
        # The storage answers with a plain error (`ErrResourceVersionSetOnCreate`), which clients see as a 500.
        if metadata.get("resourceVersion") and operation != "Apply":
            raise StatusError(500, "", "resourceVersion should not be set on objects to be created")
        meta.without_duplicate_owners(metadata, options.warnings)
        strategy = strategy_of(resource)
        counted = strategy.generation or resource.custom
        for name in (*_ONLY_SERVER_SETS, *_DEAD_META, "resourceVersion"):
            # A kind that counts no generations keeps the one that the client has sent.
            if name != "generation" or counted or not metadata.get(name):
                metadata.pop(name, None)
        now = self._clock()
        metadata["uid"] = str(uuid.UUID(int=self._rng.getrandbits(128), version=4))
        metadata["creationTimestamp"] = timestamp(now)
        if counted:
            metadata["generation"] = 1
        if operation != "Apply":
            metadata.pop("managedFields", None)
        custom = self._registry.custom(resource)
        # `customResourceStrategy.PrepareForCreate`: where the status is a subresource, a create cannot set it.
        if custom is not None and custom.has_status:
            obj.pop("status", None)
        self._default(resource, obj)
        strategy.prepare_create(obj)
        self._admit(resource, obj)
        self._validate(resource, obj, None)
        strategy.complete_create(obj)
        # Validation goes first: an invalid object whose name is taken gets 422 and not 409.
        key = (metadata.get("namespace", ""), metadata["name"])
        if (present := self._store.get(resource.bucket, key)) is not None:
            waits = "deletionTimestamp" in present.obj["metadata"]
            raise still_there(resource, metadata["name"]) if waits else already_exists(resource, metadata["name"])
        if operation != "Apply":
            obj = self._with_managed_fields(resource, None, obj, options.manager, "")
        if options.dry_run:
            return Item(obj, 0)
        return self._store.put(resource.bucket, key, obj)

    def _check_namespace(self, resource: Resource, namespace: str, metadata: Json) -> None:
        if not resource.namespaced:
            if metadata.get("namespace"):
                metadata.pop("namespace")
            return
        if metadata.setdefault("namespace", namespace) != namespace:
            raise bad_request(_OTHER_NAMESPACE)
        home = self._store.get("namespaces", ("", namespace))
        if home is None:
            raise StatusError(
                404, "NotFound", f'namespaces "{namespace}" not found', {"name": namespace, "kind": "namespaces"}
            )
        if home.obj["metadata"].get("deletionTimestamp"):
            error = forbidden(
                resource,
                metadata.get("name") or metadata.get("generateName", ""),
                f"unable to create new content in namespace {namespace} because it is being terminated",
            )
            assert error.details is not None  # noqa: S101
            error.details["causes"] = [
                {
                    "reason": "NamespaceTerminating",
                    "message": f"namespace {namespace} is being terminated",
                    "field": "metadata.namespace",
                }
            ]
            raise error

    # -- update ------------------------------------------------------------------------------------
    def update(
        self, resource: Resource, namespace: str, name: str, body: Json, options: WriteOptions, subresource: str = ""
    ) -> Item:
        old = self._store.get(resource.bucket, (namespace, name))
        if old is None:
            raise not_found(resource, name)
        obj = self.decoder.decoded(resource, body, options)
        check_address(resource, metadata_of(obj), namespace, name)
        return self.replace(resource, old, obj, options, subresource)

    def replace(
        self,
        resource: Resource,
        old: Item,
        obj: Json,
        options: WriteOptions,
        subresource: str = "",
        operation: str = "Update",
    ) -> Item:
        """Make `obj` (already decoded) the new state of `old`. Raises 409 and 422."""
        before, wiped = old.obj["metadata"], obj["metadata"].get("managedFields") in ([], [{}])
        self._check_preconditions(resource, obj["metadata"], before, options, operation)
        obj = self._only_what_may_change(resource, old.obj, obj, subresource)
        self._default(resource, obj)
        if not subresource:
            strategy_of(resource).prepare_update(obj, old.obj)
        self._bump_generation(resource, obj, old.obj)
        # `GuaranteedUpdate` skips a write that changes nothing; watches see no event.
        if obj == old.obj:
            return old
        self._validate(resource, obj, old.obj, subresource)
        if operation != "Apply" and not wiped:
            obj = self._with_managed_fields(resource, old.obj, obj, options.manager, subresource)
        if options.dry_run:
            return Item(obj, old.revision)
        if (gone := self._settled(resource, Item(obj, old.revision), old)) is not None:
            return gone
        return self._store.put(resource.bucket, (before.get("namespace", ""), before["name"]), obj)

    @staticmethod
    def _check_preconditions(
        resource: Resource, metadata: Json, before: Json, options: WriteOptions, operation: str
    ) -> None:
        """That the write means this object, in this version."""
        name, version = before["name"], metadata.get("resourceVersion", "")
        if version and not version.isdigit():
            raise StatusError(500, "", f'strconv.ParseUint: parsing "{version}": invalid syntax')
        if version and version != before["resourceVersion"]:
            raise conflict(resource, name)
        meta.without_duplicate_owners(metadata, options.warnings)
        if metadata.get("uid") and metadata["uid"] != before["uid"]:
            if operation == "Patch":
                causes = Causes()
                causes.invalid("metadata.uid", metadata["uid"], meta.IMMUTABLE)
                raise invalid(resource, name, causes.found * 2)
            raise other_uid(resource, before, metadata["uid"])
        # The strategies of these kinds return false from `AllowUnconditionalUpdate`; others overwrite.
        if not version and (resource.custom or resource.bucket in _ONLY_WITH_VERSION) and operation == "Update":
            message = "Invalid value: 0: must be specified for an update"
            error = invalid(resource, name, [FieldCause("FieldValueInvalid", message, "metadata.resourceVersion")])
            assert error.details is not None  # noqa: S101
            error.message = error.message.replace(resource.group_kind, resource.group_resource, 1)
            error.details["kind"] = resource.plural
            raise error

    def _only_what_may_change(self, resource: Resource, old: Json, obj: Json, subresource: str) -> Json:
        """The new object with every field that this write has no say in as it was."""
        metadata, before = obj["metadata"], old["metadata"]
        for name in _DEAD_META:
            metadata.pop(name, None)
        for name in (*_ONLY_SERVER_SETS, "resourceVersion", "namespace", "generateName"):
            if name in before:
                metadata[name] = before[name]
            elif name not in _DELETION:  # refused below: only a DELETE begins an end
                metadata.pop(name, None)
        # An update without managedFields keeps them; an empty list resets them.
        if "managedFields" not in metadata and "managedFields" in before:
            metadata["managedFields"] = before["managedFields"]
        elif metadata.get("managedFields") in ([], [{}]):
            del metadata["managedFields"]
        custom = self._registry.custom(resource)
        has_status = custom.has_status if custom is not None else "status" in resource.subresources
        # A built-in kind takes labels and annotations with a status write, a custom resource nothing but
        # managedFields.
        if subresource == "status":
            kept = (
                metadata
                if custom is None
                else {**before, "managedFields": metadata["managedFields"]}
                if "managedFields" in metadata
                else before
            )
            new = {**old, "metadata": dict(kept)}
            new.pop("status", None)
            if "status" in obj:
                new["status"] = obj["status"]
            return new
        # Only the status subresource writes the status, or an old manifest would undo a controller's.
        if has_status:
            if "status" in old:
                obj["status"] = old["status"]
            else:
                obj.pop("status", None)
        return obj

    def _bump_generation(self, resource: Resource, obj: Json, old: Json) -> None:
        if "generation" not in old["metadata"]:
            return
        custom = self._registry.custom(resource)
        if custom is not None:
            # `customResourceStrategy.PrepareForUpdate` compares all fields but metadata, as not all kinds have a spec.
            ignored = {"metadata", "status"} if custom.has_status else {"metadata"}
            changed = any(obj.get(name) != old.get(name) for name in {*obj, *old} - ignored)
        else:
            changed = obj.get("spec") != old.get("spec")
        if changed:
            obj["metadata"]["generation"] = old["metadata"]["generation"] + 1

    # -- steps -------------------------------------------------------------------------------------
    def _with_managed_fields(
        self, resource: Resource, old: Json | None, obj: Json, manager: str, subresource: str
    ) -> Json:
        """`obj` with its managedFields after an ordinary write."""
        if not self._track_fields:
            return obj
        return patching.track_update(
            old,
            obj,
            manager,
            "Update",
            timestamp(self._clock()),
            subresource,
            shape=shape_of(self._registry.custom(resource)),
        )

    def _default(self, resource: Resource, obj: Json) -> None:
        custom = self._registry.custom(resource)
        if custom is None:
            strategy_of(resource).default(obj)
        elif custom.schema is not None:
            custom.schema.default(obj)

    def _validate(self, resource: Resource, obj: Json, old: Json | None, subresource: str = "") -> None:
        causes = Causes()
        meta.validate_meta(resource, obj["metadata"], causes)
        if old is not None:
            meta.validate_meta_update(obj["metadata"], old["metadata"], causes)
        strategy = strategy_of(resource)
        custom = self._registry.custom(resource)
        found: list[Any] = causes.found
        if custom is not None:
            found = _custom_causes(custom, {**obj, "apiVersion": resource.api_version}, old, subresource, causes)
        elif subresource == "status" and old is not None:
            strategy.validate_status(obj, old, causes)
        else:
            strategy.validate(obj, causes)
            if resource.bucket == "events" and resource.group:
                if old is None:
                    events.validate_new(obj, causes)
                else:
                    events.validate_update(obj, old, causes)
            if old is not None:
                strategy.validate_update(obj, old, causes)
        if found:
            if resource.bucket == "events":
                resource = replace(resource, group="")  # refused under the name of the old kind
            raise invalid(resource, obj["metadata"].get("name", ""), found)


def check_address(resource: Resource, metadata: Json, namespace: str, name: str) -> None:
    """That the object is the one that the URL names."""
    if metadata.get("name", "") != name:
        raise bad_request(
            f"the name of the object ({metadata.get('name', '')}) does not match the name on the URL ({name})"
        )
    if resource.namespaced and metadata.setdefault("namespace", namespace) != namespace:
        raise bad_request(_OTHER_NAMESPACE)


def shape_of(custom: Custom | None) -> patching.Shape | None:
    return custom.shape if custom is not None else None


def other_uid(resource: Resource, before: Json, uid: str) -> StatusError:
    """A write for an object that another one has taken the place of."""
    key = "/".join(
        ["/registry", resource.plural, *([before["namespace"]] if "namespace" in before else []), before["name"]]
    )
    return conflict(
        resource,
        before["name"],
        f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition"
        f" failed: UID in precondition: {uid}, UID in object meta: {before['uid']}",
    )


def _custom_causes(custom: Custom, obj: Json, old: Json | None, subresource: str, causes: Causes) -> list[Any]:
    """The causes of the schema, with those of the scale subresource where Kubernetes puts them: before its remark that
    the rules were not checked."""
    before = len(causes.found)
    if custom.scale is not None:
        crds.validate_scale_values(obj, custom.scale, causes)
    of_metadata, of_scale = causes.found[:before], causes.found[before:]
    if custom.schema is None:
        return causes.found
    of_schema = custom.schema.validate(obj, old, subresource=subresource, prior=[*of_metadata, *of_scale])
    at = len(of_schema) - 1 if of_scale and of_schema and of_schema[-1].field == "<nil>" else len(of_schema)
    return [*of_metadata, *of_schema[:at], *of_scale, *of_schema[at:]]
