"""PATCH: the new state that a patch asks for, then written as any other (`writing.py`).

JSON, merge and strategic merge patches need the object; server-side apply creates it. Decides nothing about the
storage. Pure but for the writer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from localcluster import patch as patching
from localcluster.apiserver.decoding import GO_KINDS, copy_deeply, metadata_of
from localcluster.apiserver.errors import StatusError, as_json, bad_request, conflict, not_found, unsupported_media_type
from localcluster.apiserver.options import WriteOptions
from localcluster.apiserver.registry import Registry
from localcluster.apiserver.writing import Writer, check_address, shape_of
from localcluster.objects import timestamp
from localcluster.resources import Resource
from localcluster.storage import Item, Store
from localcluster.wire import Json

JSON, MERGE = "application/json-patch+json", "application/merge-patch+json"
STRATEGIC, APPLY = "application/strategic-merge-patch+json", "application/apply-patch+yaml"
_NO_MANAGER = "Required value: is required for apply patch"


class Patcher:
    def __init__(self, store: Store, registry: Registry, clock: Callable[[], float], writer: Writer) -> None:
        self._store = store
        self._registry = registry
        self._clock = clock
        self._writer = writer
        self._decoder = writer.decoder

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
        if content_type not in (JSON, MERGE, STRATEGIC, APPLY):
            raise StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
        if resource.custom and content_type == STRATEGIC:
            raise unsupported_media_type(content_type, [JSON, MERGE, APPLY])
        old = self._store.get(resource.bucket, (namespace, name))
        if content_type == APPLY:
            applied = self._decode_applied(resource, namespace, name, body, options)
            return self._apply(resource, namespace, name, old, applied, options, subresource)
        if old is None:
            raise not_found(resource, name)
        new = apply_patch(resource, self._decoder.seen(resource, old.obj), body, content_type)
        obj = self._decoder.decoded(resource, new, options, "strategic" if content_type == STRATEGIC else "patch")
        metadata = metadata_of(obj)
        check_address(resource, metadata, namespace, name)
        metadata.setdefault("resourceVersion", old.obj["metadata"]["resourceVersion"])
        return self._writer.replace(resource, old, obj, options, subresource, "Patch"), False

    def _decode_applied(self, resource: Resource, namespace: str, name: str, body: Any, options: WriteOptions) -> Json:
        """What is applied, decoded. Raises StatusError when it cannot be applied there."""
        if not options.manager_given:
            cause = {"reason": "FieldValueRequired", "message": _NO_MANAGER, "field": "fieldManager"}
            details = {"group": "meta.k8s.io", "kind": "PatchOptions", "causes": [cause]}
            text = f'PatchOptions.meta.k8s.io "" is invalid: fieldManager: {_NO_MANAGER}'
            raise StatusError(422, "Invalid", text, details)
        if not isinstance(body, dict):
            raise bad_request("error decoding YAML: the applied configuration must be an object")
        if body.get("kind", resource.kind) != resource.kind and not resource.custom:
            group, _, version = body.get("apiVersion", "").rpartition("/")
            raise bad_request(f"invalid object type: {group}/{version}, Kind={body['kind']}")
        applied = self._decoder.decoded(resource, body, options, "apply")
        metadata = metadata_of(applied)
        metadata.setdefault("name", name)
        if resource.namespaced:
            metadata.setdefault("namespace", namespace)
        check_address(resource, metadata, metadata.get("namespace", ""), name)
        if metadata.get("managedFields"):
            raise bad_request("metadata.managedFields must be nil")
        return applied

    def _apply(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        old: Item | None,
        applied: Json,
        options: WriteOptions,
        subresource: str,
    ) -> tuple[Item, bool]:
        uid = applied["metadata"].get("uid")
        if old is None and subresource:
            raise not_found(resource, name)
        if old is None and uid:
            text = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            raise conflict(resource, name, text)
        try:
            merged = patching.server_side_apply(
                self._decoder.seen(resource, old.obj) if old else None,
                self._decoder.seen(resource, applied),
                options.manager,
                options.force,
                timestamp(self._clock()),
                resource.api_version,
                subresource=subresource,
                shape=shape_of(self._registry.custom(resource)),
                reset_fields=self._reset_fields(resource, subresource),
            )
        except patching.ApplyConflict as clash:
            causes = {"causes": [as_json(cause) for cause in clash.causes]}
            raise StatusError(409, "Conflict", clash.message, causes) from None
        except ValueError as wrong:
            raise bad_request(str(wrong)) from None
        if old is None:
            return self._writer.create(resource, namespace, merged, options, "Apply"), True
        obj = self._decoder.in_storage_form(resource, copy_deeply(merged))
        return self._writer.replace(resource, old, obj, options, subresource, "Apply"), False

    def _reset_fields(self, resource: Resource, subresource: str) -> tuple[str, ...]:
        """What the endpoint ignores, so that applying it there claims nothing."""
        custom = self._registry.custom(resource)
        has_status = custom.has_status if custom is not None else "status" in resource.subresources
        return ("spec",) if subresource == "status" else ("status",) if has_status else ()


def apply_patch(resource: Resource, obj: Json, body: Any, content_type: str) -> Json:
    try:
        if content_type == JSON:
            if not isinstance(body, list):
                kind = "object into Go value of type []handlers.jsonPatchOp"
                raise bad_request(f"error decoding patch: json: cannot unmarshal {kind}")
            return patching.json_patch(obj, body)
        if not isinstance(body, dict):
            kind = f"{GO_KINDS.get(type(body), 'null')} into Go value of type map[string]interface {{}}"
            raise bad_request(f"error decoding patch: json: cannot unmarshal {kind}")
        if content_type == MERGE:
            return patching.merge_patch(obj, body)
        return patching.strategic_merge_patch(obj, body, resource.kind)
    except ValueError as wrong:
        if content_type == JSON:
            text = "the server rejected our request due to an error in our request"
            raise StatusError(422, "Invalid", text, {}) from wrong
        if content_type == STRATEGIC and not str(wrong).startswith("invalid "):
            raise StatusError(500, "", str(wrong)) from None
        raise bad_request(str(wrong)) from None
