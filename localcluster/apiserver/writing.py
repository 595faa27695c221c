"""Create, update and patch of objects: the one road that every write takes.

decode -> metadata -> defaults -> validation -> no-op check -> managed fields -> store. A write that changes nothing keeps its
resourceVersion. With dryRun everything happens but the store. Stored objects are never changed in place.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from localcluster import patch as patching
from localcluster.apiserver import crds, events, meta
from localcluster.apiserver.decoding import GO_KINDS, Decoder, fresh, metadata_of
from localcluster.apiserver.errors import (
    Causes,
    StatusError,
    already_exists,
    as_json,
    bad_request,
    conflict,
    forbidden,
    invalid,
    not_found,
    still_there,
    unsupported_media_type,
)
from localcluster.apiserver.options import WriteOptions
from localcluster.apiserver.registry import Custom, Registry
from localcluster.apiserver.strategies import strategy_of
from localcluster.resources import Resource
from localcluster.schema import FieldCause
from localcluster.storage import Item, Store
from localcluster.wire import Json

_PATCHES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)
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
        self._decoder = Decoder(registry)
        self._clock = clock
        self._rng = rng
        self._admit = admit
        self._settled = settled
        self._track_fields = track_fields

    # -- create --------------------------------------------------------------------------------------------------------
    def create(
        self, resource: Resource, namespace: str, body: Json, options: WriteOptions, operation: str = "Update"
    ) -> Item:
        obj = self._decoder.decoded(resource, body, options)
        metadata = metadata_of(obj)
        self._check_namespace(resource, namespace, metadata)
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = meta.generated_name(metadata["generateName"], self._rng.choice)
        if metadata.get("resourceVersion") and operation != "Apply":
            raise StatusError(500, "", "resourceVersion should not be set on objects to be created")
        meta.without_duplicate_owners(metadata, options.warnings)
        strategy = strategy_of(resource)
        counted = strategy.generation or resource.custom
        for name in (*_ONLY_SERVER_SETS, *_DEAD_META, "resourceVersion"):
            if (
                name != "generation" or counted or not metadata.get(name)
            ):  # of the others Kubernetes keeps what it is told
                metadata.pop(name, None)
        now = self._clock()
        metadata["uid"] = str(uuid.UUID(int=self._rng.getrandbits(128), version=4))
        metadata["creationTimestamp"] = meta.timestamp(now)
        if counted:
            metadata["generation"] = 1
        if operation != "Apply":
            metadata.pop("managedFields", None)
        custom = self._registry.custom(resource)
        if custom is not None and custom.has_status:
            obj.pop("status", None)
        self._default(resource, obj)
        strategy.prepare_create(obj)
        self._admit(resource, obj)
        self._validate(resource, obj, None)
        strategy.complete_create(obj)
        key = (metadata.get("namespace", ""), metadata["name"])
        if (present := self._store.get(resource.bucket, key)) is not None:
            waits = "deletionTimestamp" in present.obj["metadata"]
            raise still_there(resource, metadata["name"]) if waits else already_exists(resource, metadata["name"])
        if operation != "Apply":
            obj = self._tracked(resource, None, obj, options.manager, "")
        if options.dry_run:
            return Item(obj, 0)
        return self._store.put(resource.bucket, key, obj)

    def _check_namespace(self, resource: Resource, namespace: str, metadata: Json) -> None:
        if not resource.namespaced:
            if metadata.get("namespace"):
                metadata.pop("namespace")
            return
        if metadata.setdefault("namespace", namespace) != namespace:
            raise bad_request(f"the namespace of the provided object does not match the namespace sent on the request")  # noqa: F541
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

    # -- update --------------------------------------------------------------------------------------------------------
    def update(
        self, resource: Resource, namespace: str, name: str, body: Json, options: WriteOptions, subresource: str = ""
    ) -> Item:
        old = self._store.get(resource.bucket, (namespace, name))
        if old is None:
            raise not_found(resource, name)
        obj = self._decoder.decoded(resource, body, options)
        metadata = metadata_of(obj)
        if metadata.get("name", "") != name:
            raise bad_request(
                f"the name of the object ({metadata.get('name', '')}) does not match the name on the URL ({name})"
            )
        if resource.namespaced and metadata.setdefault("namespace", namespace) != namespace:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
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
        metadata, before = obj["metadata"], old.obj["metadata"]
        name = before["name"]
        version = metadata.get("resourceVersion", "")
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
        if not version and (resource.custom or resource.bucket in _ONLY_WITH_VERSION) and operation == "Update":
            error = invalid(
                resource,
                name,
                [
                    FieldCause(
                        "FieldValueInvalid",
                        "Invalid value: 0: must be specified for an update",
                        "metadata.resourceVersion",
                    )
                ],
            )
            assert error.details is not None  # noqa: S101
            error.message = error.message.replace(resource.group_kind, resource.group_resource, 1)
            error.details["kind"] = resource.plural
            raise error
        wiped = metadata.get("managedFields") in ([], [{}])
        obj = self._only_what_may_change(resource, old.obj, obj, subresource)
        metadata = obj["metadata"]
        self._default(resource, obj)
        strategy = strategy_of(resource)
        if not subresource:
            strategy.prepare_update(obj, old.obj)
        self._bump_generation(resource, obj, old.obj)
        if self._same(obj, old.obj):
            return old
        self._validate(resource, obj, old.obj, subresource)
        if operation != "Apply" and not wiped:
            obj = self._tracked(resource, old.obj, obj, options.manager, subresource)
        if options.dry_run:
            return Item(obj, old.revision)
        if (gone := self._settled(resource, Item(obj, old.revision), old)) is not None:
            return gone
        return self._store.put(resource.bucket, (before.get("namespace", ""), name), obj)

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
        if "managedFields" not in metadata and "managedFields" in before:
            metadata["managedFields"] = before["managedFields"]
        elif metadata.get("managedFields") in ([], [{}]):
            del metadata["managedFields"]
        custom = self._registry.custom(resource)
        has_status = custom.has_status if custom is not None else "status" in resource.subresources
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
        if has_status:
            if "status" in old:
                obj["status"] = old["status"]
            else:
                obj.pop("status", None)
        return obj

    @staticmethod
    def _bump_generation(resource: Resource, obj: Json, old: Json) -> None:
        if "generation" not in old["metadata"]:
            return
        if resource.custom:
            changed = any(obj.get(name) != old.get(name) for name in {*obj, *old} - {"metadata", "status"})
        else:
            changed = obj.get("spec") != old.get("spec")
        if changed:
            obj["metadata"]["generation"] = old["metadata"]["generation"] + 1

    @staticmethod
    def _same(obj: Json, old: Json) -> bool:
        return obj == old

    # -- patch -----------------------------------------------------------------------------------------------------------
    def patch(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        body: Any,
        content_type: str,
        options: WriteOptions,
        subresource: str = "",
    ) -> tuple[Item, bool]:
        """(the new state, whether it was created)."""
        if content_type not in _PATCHES:
            raise StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
        if resource.custom and content_type == "application/strategic-merge-patch+json":
            raise unsupported_media_type(
                content_type, [p for p in _PATCHES if not (resource.custom and "strategic" in p)]
            )
        old = self._store.get(resource.bucket, (namespace, name))
        if content_type == "application/apply-patch+yaml":
            return self._apply(resource, namespace, name, old, body, options, subresource)
        if old is None:
            raise not_found(resource, name)
        new = self.patched(resource, self._decoder.seen(resource, old.obj), body, content_type, name)
        kind = "strategic" if content_type == _PATCHES[2] else "patch"
        obj = self._decoder.decoded(resource, new, options, kind)
        metadata = metadata_of(obj)
        if metadata.get("name") != name:
            raise bad_request(
                f"the name of the object ({metadata.get('name', '')}) does not match the name on the URL ({name})"
            )
        if resource.namespaced and metadata.setdefault("namespace", namespace) != namespace:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        metadata.setdefault("resourceVersion", old.obj["metadata"]["resourceVersion"])
        return self.replace(resource, old, obj, options, subresource, "Patch"), False

    @staticmethod
    def patched(resource: Resource, obj: Json, body: Any, content_type: str, name: str) -> Json:
        try:
            if content_type == _PATCHES[0]:
                if not isinstance(body, list):
                    raise bad_request(
                        "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"
                    )
                return patching.json_patch(obj, body)
            if not isinstance(body, dict):
                raise bad_request(
                    f"error decoding patch: json: cannot unmarshal {GO_KINDS.get(type(body), 'null')} into Go value "
                    f"of type map[string]interface {{}}"
                )
            if content_type == _PATCHES[1]:
                return patching.merge_patch(obj, body)
            return patching.strategic_merge_patch(obj, body, resource.kind)
        except ValueError as wrong:
            if content_type == _PATCHES[0]:
                raise StatusError(
                    422, "Invalid", "the server rejected our request due to an error in our request", {}
                ) from wrong
            if content_type == _PATCHES[2] and not str(wrong).startswith("invalid "):
                raise StatusError(500, "", str(wrong)) from None
            raise bad_request(str(wrong)) from None

    def _apply(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        old: Item | None,
        body: Any,
        options: WriteOptions,
        subresource: str,
    ) -> tuple[Item, bool]:
        if not options.manager_given:
            raise StatusError(
                422,
                "Invalid",
                'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch',
                {
                    "group": "meta.k8s.io",
                    "kind": "PatchOptions",
                    "causes": [
                        {
                            "reason": "FieldValueRequired",
                            "message": "Required value: is required for apply patch",
                            "field": "fieldManager",
                        }
                    ],
                },
            )
        if not isinstance(body, dict):
            raise bad_request("error decoding YAML: the applied configuration must be an object")
        if body.get("kind", resource.kind) != resource.kind and not resource.custom:
            told = body.get("apiVersion", "").rpartition("/")
            raise bad_request(f"invalid object type: {told[0]}/{told[2]}, Kind={body['kind']}")
        applied = self._decoder.decoded(resource, body, options, "apply")
        metadata = metadata_of(applied)
        if metadata.setdefault("name", name) != name:
            raise bad_request(
                f"the name of the object ({metadata['name']}) does not match the name on the URL ({name})"
            )
        if metadata.get("managedFields"):
            raise bad_request("metadata.managedFields must be nil")
        if resource.namespaced:
            metadata.setdefault("namespace", namespace)
        if old is None and subresource:
            raise not_found(resource, name)
        if old is None and metadata.get("uid"):
            raise conflict(
                resource,
                name,
                f"uid mismatch: the provided object specified uid {metadata['uid']}, and no existing object was found",
            )
        now = meta.timestamp(self._clock())
        try:
            live = self._decoder.seen(resource, old.obj) if old else None
            merged = patching.server_side_apply(
                live,
                self._decoder.seen(resource, applied),
                options.manager,
                options.force,
                now,
                resource.api_version,
                subresource=subresource,
                shape=self._shape(resource),
                reset_fields=self._reset_fields(resource, subresource),
            )
        except patching.ApplyConflict as clash:
            causes = {"causes": [as_json(cause) for cause in clash.causes]}
            raise StatusError(409, "Conflict", clash.message, causes) from None
        except ValueError as wrong:
            raise bad_request(str(wrong)) from None
        if old is None:
            return self.create(resource, namespace, merged, options, "Apply"), True
        obj = self._decoder.in_storage_form(resource, fresh(merged))
        item = self.replace(resource, old, obj, options, subresource, "Apply")
        return item, False

    def _shape(self, resource: Resource) -> patching.Shape | None:
        custom = self._registry.custom(resource)
        return custom.shape if custom is not None else None

    def _reset_fields(self, resource: Resource, subresource: str) -> tuple[str, ...]:
        """What the endpoint ignores, so that applying it there claims nothing."""
        custom = self._registry.custom(resource)
        has_status = custom.has_status if custom is not None else "status" in resource.subresources
        return ("spec",) if subresource == "status" else ("status",) if has_status else ()

    def _tracked(self, resource: Resource, old: Json | None, obj: Json, manager: str, subresource: str) -> Json:
        """`obj` with its managedFields after an ordinary write."""
        if not self._track_fields:
            return obj
        return patching.track_update(
            old, obj, manager, "Update", meta.timestamp(self._clock()), subresource, shape=self._shape(resource)
        )

    # -- steps -----------------------------------------------------------------------------------------------------------
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


def other_uid(resource: Resource, before: Json, uid: str) -> StatusError:
    """A write for an object that another one has taken the place of."""
    key = "/".join(
        ["/registry", resource.plural, *([before["namespace"]] if "namespace" in before else []), before["name"]]
    )
    return conflict(
        resource,
        before["name"],
        f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: "
        f"UID in precondition: {uid}, UID in object meta: {before['uid']}",
    )


def _custom_causes(custom: Custom, obj: Json, old: Json | None, subresource: str, causes: Causes) -> list[Any]:
    """The causes of the schema, with those of the scale subresource where Kubernetes puts them: before its remark that the
    rules were not checked."""
    before = len(causes.found)
    if custom.scale is not None:
        crds.validate_scale_values(obj, custom.scale, causes)
    of_metadata, of_scale = causes.found[:before], causes.found[before:]
    if custom.schema is None:
        return causes.found
    of_schema = custom.schema.validate(obj, old, subresource=subresource, prior=[*of_metadata, *of_scale])
    at = len(of_schema) - 1 if of_scale and of_schema and of_schema[-1].field == "<nil>" else len(of_schema)
    return [*of_metadata, *of_schema[:at], *of_scale, *of_schema[at:]]
