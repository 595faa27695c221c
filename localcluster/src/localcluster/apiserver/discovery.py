"""Discovery: /api, /apis, /version, aggregated and unaggregated. Built from the registry's rows. Pure."""

from __future__ import annotations

import base64
import hashlib
import platform
import re
from functools import lru_cache

import orjson

from localcluster.apiserver.errors import no_such_resource
from localcluster.apiserver.registry import Registry
from localcluster.resources import BUILTIN, Resource
from localcluster.wire import Encoded, Json, Request, Response

_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_STATUS_VERBS = ("get", "patch", "update")
_SUB_VERBS = {
    "status": _STATUS_VERBS,
    "scale": _STATUS_VERBS,
    "log": ("get",),
    "binding": ("create",),
    "eviction": ("create",),
    "finalize": ("update",),
    "exec": ("create", "get"),
    "portforward": ("create", "get"),
    "token": ("create",),
}
_CUSTOM_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
"""In the order of apiextensions-apiserver."""
_SUB_KINDS = {
    "scale": ("autoscaling", "v1", "Scale"),
    "binding": ("", "v1", "Binding"),
    "eviction": ("policy", "v1", "Eviction"),
    "exec": ("", "v1", "PodExecOptions"),
    "portforward": ("", "v1", "PodPortForwardOptions"),
    "token": ("authentication.k8s.io", "v1", "TokenRequest"),
}


def version_info(version: str) -> Json:
    found = re.match(r"v(\d+)\.(\d+)", version)
    major, minor = found.groups() if found else ("1", "36")
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return {
        "major": major,
        "minor": minor,
        "emulationMajor": major,
        "emulationMinor": minor,
        "minCompatibilityMajor": major,
        "minCompatibilityMinor": str(int(minor) - 1),
        "gitVersion": version,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "none",
        "platform": f"{platform.system().lower()}/{machine}",
    }


def answer(registry: Registry, path: str, request: Request) -> Response | None:  # noqa: PLR0911  one line a path
    """None for a path that is not discovery."""
    if request.method not in ("GET", "HEAD"):
        return None
    parts = path.strip("/").split("/")
    aggregated = any(
        "as=APIGroupDiscoveryList" in offer and "v=v2" in offer and "v2beta1" not in offer
        for offer in request.headers.get("accept", "").split(",")
    )
    # One answer for all groups; kubectl falls back to one request for each where the server does not offer it.
    if path in ("/api", "/apis") and aggregated:
        groups = {group: versions for group, versions in registry.groups().items() if (group == "") == (path == "/api")}
        body = {
            "kind": "APIGroupDiscoveryList",
            "apiVersion": "apidiscovery.k8s.io/v2",
            "metadata": {},
            "items": [_group_discovery(registry, group, versions) for group, versions in groups.items()],
        }
        return Response(200, orjson.dumps(body), _AGGREGATED)
    if path == "/":
        return _json_response(
            {"paths": ["/api", "/api/v1", "/apis", "/healthz", "/livez", "/openapi/v3", "/readyz", "/version"]}
        )
    if path == "/api":
        return _json_response({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []})
    groups = registry.groups()
    if path == "/apis":
        listed = [_describe_group(group, versions) for group, versions in groups.items() if group]
        return _json_response({"kind": "APIGroupList", "apiVersion": "v1", "groups": listed})
    if parts[0] == "api" and len(parts) == 2 and parts[1] == "v1":
        return Response(200, _resource_list("", "v1", registry.rows_of("", "v1")))
    if parts[0] == "apis" and len(parts) == 2 and parts[1] in groups:
        return _json_response({"kind": "APIGroup", "apiVersion": "v1", **_describe_group(parts[1], groups[parts[1]])})
    if parts[0] == "apis" and len(parts) == 3 and registry.served(parts[1], parts[2]):
        return Response(200, _resource_list(parts[1], parts[2], registry.rows_of(parts[1], parts[2])))
    if (parts[0] == "api" and len(parts) == 2) or (
        parts[0] == "apis" and len(parts) == 3 and any(row.group == parts[1] for row in BUILTIN)
    ):
        raise no_such_resource()
    return None


def _json_response(body: Json) -> Response:
    return Response(200, Encoded(body))


def _describe_group(group: str, versions: list[str]) -> Json:
    rows = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
    return {"name": group, "versions": rows, "preferredVersion": rows[0]}


@lru_cache(maxsize=256)
def _resource_list(group: str, version: str, rows: tuple[Resource, ...]) -> Encoded:
    """Made once for a version as it is served: all clusters of a process have most of them in common."""
    listed: list[Json] = []
    for row in rows:
        entry: Json = {
            "name": row.plural,
            "singularName": row.singular_name,
            "namespaced": row.namespaced,
            "kind": row.kind,
            "verbs": list(_CUSTOM_VERBS if row.custom else row.verbs),
        }
        if row.short_names:
            entry["shortNames"] = list(row.short_names)
        if row.categories:
            entry["categories"] = list(row.categories)
        if "get" in row.verbs:
            entry["storageVersionHash"] = _storage_hash(row)
        listed.append(entry)
        for sub in sorted(row.subresources, reverse=row.custom):
            named: Json = {
                "name": f"{row.plural}/{sub}",
                "singularName": "",
                "namespaced": row.namespaced,
                "kind": row.kind,
                "verbs": list(_SUB_VERBS[sub]),
            }
            if sub in _SUB_KINDS:
                group_of, version_of, named["kind"] = _SUB_KINDS[sub]
                if group_of:
                    named["group"], named["version"] = group_of, version_of
            listed.append(named)
    served = f"{group}/{version}".lstrip("/")
    return Encoded({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": served, "resources": listed})


def _group_discovery(registry: Registry, group: str, versions: list[str]) -> Json:
    listed = [
        {
            "version": version,
            "resources": [_resource_discovery(row) for row in registry.rows_of(group, version)],
            "freshness": "Current",
        }
        for version in versions
    ]
    return {"metadata": {"name": group} if group else {}, "versions": listed}


def _resource_discovery(row: Resource) -> Json:
    scope = "Namespaced" if row.namespaced else "Cluster"
    entry: Json = {
        "resource": row.plural,
        "responseKind": _describe_kind(row, row.group, row.version, row.kind),
        "scope": scope,
        "singularResource": row.singular_name,
        "verbs": list(row.verbs),
    }
    if row.short_names:
        entry["shortNames"] = list(row.short_names)
    if row.categories:
        entry["categories"] = list(row.categories)
    subs = [
        {
            "subresource": sub,
            "responseKind": _describe_kind(row, *_SUB_KINDS.get(sub, (row.group, row.version, row.kind))),
            "verbs": list(_SUB_VERBS[sub]),
        }
        for sub in row.subresources
    ]
    if subs:
        entry["subresources"] = subs
    return entry


def _storage_hash(row: Resource) -> str:
    """Equal for resources that are stored as one (k8s.io/apiserver/pkg/endpoints/discovery/storageversionhash.go)."""
    group = "" if row.storage == "events" else row.group
    version = "v1beta1" if row.group == "apiextensions.k8s.io" else row.version  # as Kubernetes still counts it
    return base64.b64encode(hashlib.sha256(f"{group}/{version}/{row.kind}".encode()).digest()[:8]).decode()


def _describe_kind(row: Resource, group: str, version: str, kind: str) -> Json:
    """The kind of a response. A built-in kind of the list's own group comes without group and version."""
    if not row.custom and (group == row.group or not group):
        return {"group": "", "version": "", "kind": kind}
    return {"group": group, "version": version, "kind": kind}
