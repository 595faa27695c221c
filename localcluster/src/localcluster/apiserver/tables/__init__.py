"""Tables: the columns and rows of `kubectl get`, by kind. `PRINTERS` lists the printers; the modules define them.

Pure: (objects, now) -> columns and cells. A kind without a printer shows its name and age.

Serves: `kubectl get`.
"""

from __future__ import annotations

from typing import Any, Final

from localcluster.apiserver.registry import Custom
from localcluster.apiserver.tables import cluster, config, custom, pods, storage, workloads
from localcluster.apiserver.tables.base import Printer, Row, age_of, make_columns
from localcluster.resources import Resource
from localcluster.wire import Json

DEFAULT: Final = Printer(
    make_columns("Name:name", "Age"), lambda obj, now: ([obj["metadata"]["name"], age_of(obj, now)], None)
)
_CREATED: Final = Printer(
    make_columns("Name:name", "Created At"),
    lambda obj, now: ([obj["metadata"]["name"], obj["metadata"].get("creationTimestamp", "")], None),
)

PRINTERS: Final[dict[str, Printer]] = {
    "pods": pods.POD,
    "apps/replicasets": workloads.REPLICASET,
    "batch/jobs": workloads.JOB,
    "services": cluster.SERVICE,
    "endpoints": cluster.ENDPOINTS,
    "discovery.k8s.io/endpointslices": cluster.ENDPOINT_SLICE,
    "nodes": cluster.NODE,
    "namespaces": cluster.NAMESPACE,
    "events": cluster.EVENT,
    "coordination.k8s.io/leases": cluster.LEASE,
    "scheduling.k8s.io/priorityclasses": cluster.PRIORITY_CLASS,
    "scheduling.k8s.io/podgroups": cluster.POD_GROUP,
    "persistentvolumeclaims": storage.CLAIM,
    "persistentvolumes": storage.VOLUME,
    "storage.k8s.io/storageclasses": storage.CLASS,
    "configmaps": config.CONFIGMAP,
    "secrets": config.SECRET,
    "limitranges": _CREATED,
    "rbac.authorization.k8s.io/roles": _CREATED,
    "rbac.authorization.k8s.io/clusterroles": _CREATED,
    "rbac.authorization.k8s.io/rolebindings": config.ROLE_BINDING,
    "rbac.authorization.k8s.io/clusterrolebindings": config.ROLE_BINDING,
    "apiextensions.k8s.io/customresourcedefinitions": _CREATED,
}


def table(
    resource: Resource, definition: Custom | None, objs: list[Json], now: float
) -> tuple[list[Json], list[tuple[Row, Any]]]:
    """(column definitions, for each object its cells and row conditions)."""
    printer = custom.printer(definition) if definition is not None else PRINTERS.get(resource.bucket, DEFAULT)
    if resource.bucket == "events" and resource.group:
        from localcluster.apiserver.events import to_core

        objs = [to_core(obj) for obj in objs]
    return printer.columns, [printer.row(obj, now) for obj in objs]
