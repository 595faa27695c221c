"""The other objects in a file of jobs, such as a PersistentVolumeClaim or a ConfigMap: server-side apply, as `kubectl
apply --server-side` does it. Applying twice changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

import orjson

from tjworker.base import JsonDict
from tjworker.cli.cluster import REQUEST_TIMEOUT_SECONDS
from tjworker.cli.errors import UserError
from tjworker.kube.errors import NO_PERMISSION, to_error

if TYPE_CHECKING:
    from tjworker.cli.cluster import Cluster
    from tjworker.cli.manifests import Manifest

MANAGER = "tj"
# The type of server-side apply. JSON is YAML, so the body needs no other form.
APPLY = "application/apply-patch+yaml"


@dataclass(frozen=True, slots=True)
class OtherObject:
    """An object that is not a job, and the path of its resource."""

    path: str
    """The path at the API server."""
    what: str
    """The object as kubectl prints it: `persistentvolumeclaim/data`, `deployment.apps/data`."""
    body: JsonDict


def located(cluster: Cluster, manifest: Manifest, namespace: str) -> OtherObject:
    """Raises UserError for an object without a name, or of a kind that the cluster does not serve. `namespace`: of an
    object that has one. One request."""
    version, kind = str(manifest.raw["apiVersion"]), str(manifest.raw["kind"])
    metadata = manifest.raw.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str) or not metadata["name"]:
        raise UserError(f"{manifest.source}: metadata.name: is missing; {manifest.given} is applied by its name")
    rows = cluster.api.resources_of(version) or ()
    # `deployments/status` and `deployments/scale` are rows of discovery, too.
    row = next((row for row in rows if row.get("kind") == kind and "/" not in str(row.get("name"))), None)
    if row is None:
        raise UserError(
            f"{manifest.source}: {manifest.given} is not served by this cluster; correct kind and apiVersion, install "
            "its CRD, or take it out of the file"
        )
    namespaced = bool(row.get("namespaced"))
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    place = f"/namespaces/{quote(namespace, safe='')}" if namespaced else ""
    group = version.rpartition("/")[0]
    return OtherObject(
        path=f"{root}{place}/{row['name']}/{quote(metadata['name'], safe='')}",
        what=f"{row.get('singularName') or kind.lower()}{f'.{group}' if group else ''}/{metadata['name']}",
        body=manifest.raw | {"metadata": metadata | ({"namespace": namespace} if namespaced else {})},
    )


def apply(cluster: Cluster, one: OtherObject) -> str:
    """`created`, `configured` or `unchanged`, as kubectl says it; `applied` where the user may not look at it before.
    Raises OperatorError, of a field that somebody else manages with what to do."""
    # The answer to an apply is 200 whether or not it has changed anything.
    before = _version(cluster, one)
    answer = cluster.transport.request(
        "PATCH",
        one.path,
        # Strict, as kubectl's default: the API server refuses an unknown or doubled field, which it would otherwise
        # drop.
        query={"fieldManager": MANAGER, "fieldValidation": "Strict"},
        body=orjson.dumps(one.body),
        content_type=APPLY,
        timeout_seconds=REQUEST_TIMEOUT_SECONDS,
    )
    # Without `force`, a field of another manager is a conflict: its owner would set it back, and the two would take
    # turns.
    if answer.status == 409:
        said = to_error(answer, f"apply {one.what}").message
        raise UserError(f"{said}; change it with what made it (such as `kubectl apply`), or take it out of the file")
    if answer.status >= 300:
        raise to_error(answer, f"apply {one.what}")
    if answer.status == 201:
        return "created"
    if before is None:
        return "applied"
    after = orjson.loads(answer.body)["metadata"].get("resourceVersion")
    return "unchanged" if before == after else "configured"


def _version(cluster: Cluster, one: OtherObject) -> str | None:
    """Its resourceVersion, '' before it is there; None where the user may not see it."""
    answer = cluster.transport.request("GET", one.path, timeout_seconds=REQUEST_TIMEOUT_SECONDS)
    if answer.status == 200:
        return str(orjson.loads(answer.body)["metadata"].get("resourceVersion"))
    if answer.status == 404:
        return ""
    if answer.status in NO_PERMISSION:
        return None
    raise to_error(answer, f"get {one.what}")
