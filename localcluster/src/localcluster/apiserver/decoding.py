"""From a request's body to the object as it is stored: kind and version, unknown fields, wrong types.

Bodies belong to their request and are changed in place; stored objects never are. Pure.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from localcluster import jsontext
from localcluster.apiserver import events
from localcluster.apiserver.bodies import wrong_head
from localcluster.apiserver.errors import Causes, StatusError, bad_request, invalid
from localcluster.apiserver.options import WriteOptions
from localcluster.apiserver.registry import Registry
from localcluster.apiserver.typed import WrongType, decode, kind_schemas
from localcluster.resources import Resource
from localcluster.wire import Json


class Decoder:
    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def seen(self, resource: Resource, obj: Json) -> Json:
        """The stored object as a client of this row sees it, for patches."""
        if obj["apiVersion"] == resource.api_version:
            return obj
        return events.from_core(obj) if resource.bucket == "events" else {**obj, "apiVersion": resource.api_version}

    def decoded(self, resource: Resource, body: Json, options: WriteOptions, operation: str = "") -> Json:
        if wrong := wrong_head(body):
            raise _bad_patch(body, wrong)  # a body that says so has been refused before
        if not resource.custom:
            # Only custom resources must give kind and apiVersion; a built-in resource follows from the path.
            body = {"kind": resource.kind, "apiVersion": resource.api_version} | {
                name: value for name, value in body.items() if value is not None
            }
        if not body.get("kind"):
            raise bad_request(f"Object 'Kind' is missing in '{jsontext.dumps(body).decode()}'")
        if body.get("apiVersion") != resource.api_version:
            if resource.custom:
                raise bad_request(
                    f"the API version in the data ({body.get('apiVersion', '')}) does not match the expected API "
                    f"version ({resource.api_version})"
                )
            raise self._other_kind(resource, body, operation)
        if body["kind"] != resource.kind:
            if resource.custom and operation not in ("patch", "strategic"):
                causes = Causes()
                causes.invalid("kind", body["kind"], f"must be {resource.kind}")
                name = metadata.get("name", "") if isinstance(metadata := body.get("metadata"), dict) else ""
                raise invalid(replace(resource, kind=body["kind"]), name, causes.found)
            raise self._other_kind(resource, body, operation)
        custom = self._registry.custom(resource)
        if custom is not None:
            if not isinstance(body.get("metadata", {}), dict):
                got = GO_KINDS.get(type(body["metadata"]), "null")
                raise bad_request(
                    f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: json: '
                    f"cannot unmarshal {got} into Go value of type "
                    "v1.ObjectMeta"
                )
            holder: Json = {"metadata": body.get("metadata") or {}}
            unknown = self._check_fields(resource, body, operation, lambda: decode("v1", "ConfigMap", holder))
            body["metadata"] = holder.get("metadata", {})
            if custom.schema is not None:
                unknown += custom.schema.prune(body)
        else:
            unknown = self._check_fields(
                resource, body, operation, lambda: decode(resource.api_version, resource.kind, body)
            )
        # Complaints come after the decoding: a wrong type is an error under every field validation.
        if unknown:
            self._complain(resource, body, unknown, options, operation)
        return self.in_storage_form(resource, body)

    @staticmethod
    def _other_kind(resource: Resource, body: Json, operation: str) -> StatusError:
        kind, version = body["kind"], body["apiVersion"].rpartition("/")[2]
        if (body["apiVersion"], kind) in kind_schemas() or resource.custom:
            internal_group = resource.group.split(".")[0] or "core"
            why = f"converting ({version}.{kind}) to ({internal_group}.{resource.kind}): unknown conversion"
        else:
            why = (
                f'no kind "{kind}" is registered for version "{body["apiVersion"]}" in scheme'
                ' "pkg/runtime/scheme.go:111"'
            )
        if operation in ("patch", "strategic"):
            return _bad_patch(body, why)
        return bad_request(f'{kind} in version "{version}" cannot be handled as a {resource.kind}: {why}')

    def in_storage_form(self, resource: Resource, body: Json) -> Json:
        # Both groups of Events are stored as one kind (`AddCohabitatingResources`).
        if resource.bucket == "events" and resource.group:
            body = events.to_core(body)
        custom = self._registry.custom(resource)
        version = f"{resource.group}/{custom.storage_version}" if custom is not None else body["apiVersion"]
        rest = {name: value for name, value in body.items() if name not in ("kind", "apiVersion", "metadata")}
        return {"kind": body["kind"], "apiVersion": version, "metadata": body.get("metadata") or {}, **rest}

    @staticmethod
    def _check_fields(resource: Resource, body: Json, operation: str, step: Callable[[], list[str]]) -> list[str]:
        try:
            return step()
        except WrongType as wrong:
            if operation == "strategic" and wrong.list_from_map:
                raise _bad_patch(body, "cannot restore slice from map") from None
            if operation in ("patch", "strategic"):
                raise _bad_patch(body, str(wrong)) from None
            raise bad_request(
                f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: {wrong}'
            ) from None

    @staticmethod
    def _complain(resource: Resource, body: Json, unknown: list[str], options: WriteOptions, operation: str) -> None:
        if operation == "apply":
            raise _refuse_undeclared(resource, body, unknown)
        if options.field_validation == "Strict":
            text = f"strict decoding error: {', '.join(unknown)}"
            if operation in ("patch", "strategic"):
                raise _bad_patch(body, text)
            text = f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: {text}'
            raise bad_request(text)
        if options.field_validation == "Warn":
            options.warnings.extend(unknown)


def find_duplicates(body: bytes) -> list[str]:
    """Returns the paths of fields that a JSON object has twice."""
    found: list[str] = []

    def named(pairs: list[tuple[str, Any]]) -> _Fields:
        fields = _Fields(pairs)
        fields.twice = [name for name, times in Counter(name for name, _ in pairs).items() if times > 1]
        return fields

    def walk(value: Any, path: str) -> None:
        if isinstance(value, _Fields):
            found.extend(f"{path}{name}" for name in value.twice)
            for name, item in value.items():
                walk(item, f"{path}{name}.")
        elif isinstance(value, list):
            for index, item in enumerate(value):
                walk(item, f"{path.removesuffix('.')}[{index}].")

    walk(json.loads(body, object_pairs_hook=named), "")
    return found


class _Fields(dict[str, Any]):
    twice: Sequence[str] = ()


def metadata_of(obj: Json) -> Json:
    metadata = obj["metadata"]
    if not isinstance(metadata, dict):
        raise bad_request("metadata must be an object")
    return metadata


def copy_deeply(obj: Json) -> Json:
    """A copy that shares nothing with the stored object: what follows works in place."""
    copy: Json = jsontext.copied(obj)
    return copy


def _refuse_undeclared(resource: Resource, body: Json, unknown: list[str]) -> StatusError:
    """Server-side apply knows no leniency: a field outside of the schema can have no owner."""
    metadata = body.get("metadata") or {}
    kind = f"{resource.group}/{resource.version}, Kind={resource.kind}"
    paths = [text.removeprefix('unknown field "').removesuffix('"') for text in unknown]
    texts = [f".{path}: field not declared in schema" for path in paths]
    listed = texts[0] if len(texts) == 1 else "errors:\n  " + "\n  ".join(texts)
    place = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
    return StatusError(500, "", f"failed to create typed patch object ({place}; {kind}): {listed}")


GO_KINDS = {list: "array", str: "string", bool: "bool", int: "number", float: "number", dict: "object"}


def _bad_patch(body: Json, why: str) -> StatusError:
    """What a patch would have made of the object cannot be read: Kubernetes shows all of it."""
    cause = {
        "reason": "FieldValueInvalid",
        "message": f"Invalid value: {jsontext.dumps(jsontext.dumps(body).decode()).decode()}: {why}",
        "field": "patch",
    }
    return StatusError(422, "Invalid", f' "" is invalid: patch: {cause["message"]}', {"causes": [cause]})
