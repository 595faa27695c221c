"""/openapi/v3: the schemas that `kubectl explain` prints, and the paths by which kubectl learns that the server
validates fields. Built-in kinds come with Kubernetes' own schemas, custom ones with their definition's. Pure; cached
per registry state.

/openapi/v2 has only what `legacy.py` says.
"""

from __future__ import annotations

import hashlib
from typing import Any

import orjson

from localcluster.apiserver.openapi import legacy
from localcluster.apiserver.openapi.references import references
from localcluster.apiserver.registry import Registry
from localcluster.apiserver.typed import builtin_schemas, kind_schemas
from localcluster.resources import Resource
from localcluster.wire import Json, Request, Response

_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_LIST_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta"
_WRITE_PARAMETERS = ("dryRun", "fieldManager", "fieldValidation")
_API_VERSION = (
    "APIVersion defines the versioned schema of this representation of an object. Servers should convert recognized "
    "schemas to the latest internal "
    "value, and may reject unrecognized values. More info: "
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources"
)
_KIND = (
    "Kind is a string value representing the REST resource this object represents. Servers may infer this from the "
    "endpoint the client submits requests "
    "to. Cannot be updated. In CamelCase. More info: "
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds"
)
_METADATA = (
    "Standard object's metadata. More info: "
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata"
)


class OpenApi:
    def __init__(self, registry: Registry, version: str) -> None:
        self._registry = registry
        self._version = version
        self._generation = -1
        self._documents: dict[str, bytes] = {}

    def answer(self, path: str, request: Request) -> Response | None:
        if path == "/openapi/v2" and "protobuf" in request.headers.get("accept", ""):
            return Response(200, legacy.document(self._version), legacy.CONTENT_TYPE)
        if not path.startswith("/openapi/v3"):
            return None
        if self._generation != self._registry.generation:
            self._generation, self._documents = self._registry.generation, {}
        versions = {
            ("apis/" + row.api_version) if row.group else f"api/{row.version}": (row.group, row.version)
            for row in self._registry.rows()
        }
        if path == "/openapi/v3":
            paths = {
                name: {"serverRelativeURL": f"/openapi/v3/{name}?hash={self._hash(name, *pair)}"}
                for name, pair in sorted(versions.items())
            }
            return Response(200, orjson.dumps({"paths": paths}))
        name = path.removeprefix("/openapi/v3/")
        return Response(200, self._document(name, *versions[name])) if name in versions else None

    def _hash(self, name: str, group: str, version: str) -> str:
        return hashlib.sha256(self._document(name, group, version)).hexdigest()[:32].upper()

    def _document(self, name: str, group: str, version: str) -> bytes:
        if name not in self._documents:
            rows = [row for row in self._registry.rows() if (row.group, row.version) == (group, version)]
            schemas: dict[str, Any] = {}
            paths: Json = {}
            for row in rows:
                schema_name = self._schema(row, schemas)
                _add_paths(row, schema_name, paths)
            for needed in references(schemas):
                _add_closure(needed, schemas)
            body = {
                "openapi": "3.0.0",
                "info": {"title": "Kubernetes", "version": self._version},
                "paths": paths,
                "components": {"schemas": schemas},
            }
            self._documents[name] = orjson.dumps(body)
        return self._documents[name]

    def _schema(self, row: Resource, schemas: dict[str, Any]) -> str:
        custom = self._registry.custom(row)
        if custom is None:
            name = kind_schemas().get((row.api_version, row.kind), _META)
            _add_closure(name, schemas)
            return name
        name = ".".join([*reversed(row.group.split(".")), row.version, row.kind])
        gvk = {"group": row.group, "kind": row.kind, "version": row.version}
        schema = {"type": "object", **_portable(custom.raw_schema)}
        schema["properties"] = {
            **schema.get("properties", {}),
            "apiVersion": {"type": "string", "description": _API_VERSION},
            "kind": {"type": "string", "description": _KIND},
            "metadata": {"description": _METADATA, "allOf": [{"$ref": f"#/components/schemas/{_META}"}]},
        }
        schemas[name] = {**schema, "x-kubernetes-group-version-kind": [gvk]}
        schemas[name + "List"] = {
            "description": f"{row.list_name} is a list of {row.kind}",
            "type": "object",
            "required": ["items"],
            "properties": {
                "apiVersion": {"type": "string", "description": _API_VERSION},
                "kind": {"type": "string", "description": _KIND},
                "metadata": {"allOf": [{"$ref": f"#/components/schemas/{_LIST_META}"}]},
                "items": {"type": "array", "items": {"$ref": f"#/components/schemas/{name}"}},
            },
            "x-kubernetes-group-version-kind": [{**gvk, "kind": row.list_name}],
        }
        return name


def _portable(schema: Any) -> Any:
    """Kubernetes publishes custom schemas without their defaults of unset fields changed; x-kubernetes-* stay."""
    return schema if isinstance(schema, dict) else {}


def _add_closure(name: str, schemas: dict[str, Any]) -> None:
    todo = [name]
    while todo:
        name = todo.pop()
        if name not in schemas and name in builtin_schemas():
            schemas[name] = builtin_schemas()[name]
            todo.extend(references(schemas[name]))


def _add_paths(row: Resource, schema_name: str, paths: Json) -> None:
    root = f"/apis/{row.group}/{row.version}" if row.group else f"/api/{row.version}"
    collection = f"{root}/namespaces/{{namespace}}/{row.plural}" if row.namespaced else f"{root}/{row.plural}"
    gvk = {"group": row.group, "kind": row.kind, "version": row.version}
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema_name}"}}}
    answer = {"200": {"description": "OK", "content": content}}

    def operation(action: str, *, writes: bool) -> Json:
        body: Json = {"x-kubernetes-action": action, "x-kubernetes-group-version-kind": gvk, "responses": answer}
        if writes:
            names = [*_WRITE_PARAMETERS, "force"] if action == "patch" else list(_WRITE_PARAMETERS)
            body["parameters"] = [
                {"name": name, "in": "query", "schema": {"type": "boolean" if name == "force" else "string"}}
                for name in names
            ]
            body["requestBody"] = {"content": content}
        return body

    paths[collection] = {"post": operation("post", writes=True)}
    if "get" in row.verbs:
        paths[collection]["get"] = operation("list", writes=False)
        paths[f"{collection}/{{name}}"] = {
            "get": operation("get", writes=False),
            "put": operation("put", writes=True),
            "patch": operation("patch", writes=True),
            "delete": operation("delete", writes=False),
        }
