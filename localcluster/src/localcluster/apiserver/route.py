"""From a path to what it names. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import unquote

from localcluster.wire import Request


@dataclass(frozen=True, slots=True)
class Target:
    group: str
    version: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    rest: str = ""
    """Behind the subresource, for example of a proxy."""


def as_query(request: Request) -> Request:
    """The old way to watch, /api/v1/watch/..., as the query says it today."""
    if "/watch/" not in request.path:
        return request
    prefix, _, rest = request.path.partition("/watch/")
    if prefix.count("/") != (2 if prefix.startswith("/api/") else 3):
        return request
    query = {**request.query, "watch": "true"}
    target = parse(f"{prefix}/{rest}")
    path = f"{prefix}/{rest}"
    if target is not None and target.name:
        path = path.rpartition("/")[0]
        query["fieldSelector"] = f"metadata.name={target.name}"
    return request._replace(path=path, query=query)


@lru_cache(maxsize=4096)
def parse(path: str) -> Target | None:
    """The resource that a path names, None when it names none (discovery, health, ...)."""
    parts = [unquote(part) for part in path.strip("/").split("/")]
    if len(parts) >= 3 and parts[0] == "api":
        group, version, rest = "", parts[1], parts[2:]
    elif len(parts) >= 4 and parts[0] == "apis":
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    namespace = ""
    if (
        rest[0] == "namespaces"
        and len(rest) >= 3
        and not (group == "" and rest[2] in ("status", "finalize") and len(rest) == 3)
    ):
        namespace, rest = rest[1], rest[2:]
    name = rest[1] if len(rest) > 1 else ""
    subresource = rest[2] if len(rest) > 2 else ""
    return Target(group, version, rest[0], namespace, name, subresource, "/".join(rest[3:]))
