"""How lists and maps of each kind merge: by which keys, or not at all.

Two ways of merging need it. Strategic merge patches go by `patchStrategy` and `patchMergeKey` of the Go types
(k8s.io/api v0.36); server-side apply goes by `+listType`, `+listMapKey`, `+mapType` and `+structType`, which are not
always the same. A custom resource has no strategic merge; its x-kubernetes-* extensions say the rest. Pure tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from localcluster.wire import Json


@dataclass(frozen=True, slots=True)
class Shape:
    """One value. The default is what Kubernetes deduces without a schema: maps merge by field, lists are replaced."""

    fields: Mapping[str, Shape] = field(default_factory=dict)
    """Named fields of a struct. Fields that are not named are entries of a map."""
    element: Shape | None = None
    """The shape of a list's items, or of the unnamed fields of a map."""
    atomic: bool = False
    """A struct or map owned and replaced as a whole. (A list is atomic unless `keys` or `is_set`.)"""
    keys: tuple[str, ...] = ()
    """The list-map keys of server-side apply."""
    is_set: bool = False
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Defaults of the list-map keys that an item may leave out."""
    merge_key: str = ""
    """patchMergeKey of a strategic merge patch."""
    merge: bool = False
    """patchStrategy=merge; without `merge_key` a list of primitives."""
    replace: bool = False
    """patchStrategy=replace on a map."""
    open: bool = False
    """A map with entries of any name, not a struct with fields: an entry is owned even when something in it is."""

    def child(self, name: str) -> Shape:
        return self.fields.get(name) or self.element or PLAIN

    def item(self) -> Shape:
        return self.element or PLAIN


PLAIN: Final = Shape()
ATOMIC: Final = Shape(atomic=True)


def _struct(**fields: Shape) -> Shape:
    return Shape(fields=fields)


def _items(element: Shape, *keys: str, merge_key: str = "", **defaults: Any) -> Shape:
    """A list-map; `merge_key` defaults to its first key."""
    return Shape(element=element, keys=keys, merge=True, merge_key=merge_key or keys[0], defaults=defaults)


def _merged(element: Shape, merge_key: str) -> Shape:
    """Merged by strategic merge patches, replaced by server-side apply."""
    return Shape(element=element, merge=True, merge_key=merge_key)


_PRIMITIVES: Final = Shape(is_set=True, merge=True)
_SELECTOR: Final = ATOMIC
_CONDITIONS: Final = _items(PLAIN, "type")
_META: Final = _struct(labels=PLAIN, annotations=PLAIN, finalizers=_PRIMITIVES, ownerReferences=_items(ATOMIC, "uid"))
_KEY_REF: Final = _struct(
    configMapKeyRef=ATOMIC, fieldRef=ATOMIC, resourceFieldRef=ATOMIC, secretKeyRef=ATOMIC, fileKeyRef=ATOMIC
)
_RESOURCES: Final = _struct(limits=PLAIN, requests=PLAIN, claims=Shape(element=PLAIN, keys=("name",)))
_CONTAINER: Final = _struct(
    env=_items(_struct(valueFrom=_KEY_REF), "name"),
    ports=_items(PLAIN, "containerPort", "protocol", protocol="TCP"),
    volumeMounts=_items(PLAIN, "mountPath"),
    volumeDevices=_items(PLAIN, "devicePath"),
    resources=_RESOURCES,
)
_VOLUME: Final = _struct(
    configMap=PLAIN,
    secret=PLAIN,
    projected=PLAIN,
    emptyDir=PLAIN,
    hostPath=PLAIN,
    nfs=PLAIN,
    persistentVolumeClaim=PLAIN,
    downwardAPI=PLAIN,
    csi=_struct(nodePublishSecretRef=ATOMIC),
)
_AFFINITY: Final = _struct(
    nodeAffinity=_struct(requiredDuringSchedulingIgnoredDuringExecution=ATOMIC),
    podAffinity=PLAIN,
    podAntiAffinity=PLAIN,
)
_POD_SPEC: Final = _struct(
    containers=_items(_CONTAINER, "name"),
    initContainers=_items(_CONTAINER, "name"),
    ephemeralContainers=_items(_CONTAINER, "name"),
    volumes=_items(_VOLUME, "name"),
    imagePullSecrets=_items(ATOMIC, "name"),
    hostAliases=_items(PLAIN, "ip"),
    schedulingGates=_items(PLAIN, "name"),
    resourceClaims=_items(PLAIN, "name"),
    nodeSelector=ATOMIC,
    overhead=PLAIN,
    affinity=_AFFINITY,
    securityContext=PLAIN,
    dnsConfig=PLAIN,
    resources=_RESOURCES,
    topologySpreadConstraints=_items(_struct(labelSelector=_SELECTOR), "topologyKey", "whenUnsatisfiable"),
)
_TEMPLATE: Final = _struct(metadata=_META, spec=_POD_SPEC)
_POD_STATUS: Final = _struct(
    conditions=_CONDITIONS,
    podIPs=_merged(PLAIN, "ip"),
    hostIPs=_merged(PLAIN, "ip"),
    resourceClaimStatuses=_items(PLAIN, "name"),
)
_JOB_SPEC: Final = _struct(selector=_SELECTOR, template=_TEMPLATE, podFailurePolicy=PLAIN, successPolicy=PLAIN)
_WORKLOAD_STATUS: Final = _struct(conditions=_CONDITIONS)


def _kind(**parts: Shape) -> Shape:
    return Shape(fields={"apiVersion": PLAIN, "kind": PLAIN, "metadata": _META, **parts})


_GENERIC: Final = _kind(spec=PLAIN, status=PLAIN)

BUILT_IN: Final[Mapping[str, Shape]] = {
    "Pod": _kind(spec=_POD_SPEC, status=_POD_STATUS),
    "PodTemplate": _kind(template=_TEMPLATE),
    "ReplicaSet": _kind(spec=_struct(selector=_SELECTOR, template=_TEMPLATE), status=_WORKLOAD_STATUS),
    "Deployment": _kind(spec=_struct(selector=_SELECTOR, template=_TEMPLATE, strategy=PLAIN), status=_WORKLOAD_STATUS),
    "StatefulSet": _kind(spec=_struct(selector=_SELECTOR, template=_TEMPLATE), status=_WORKLOAD_STATUS),
    "DaemonSet": _kind(spec=_struct(selector=_SELECTOR, template=_TEMPLATE), status=_WORKLOAD_STATUS),
    "Job": _kind(spec=_JOB_SPEC, status=_struct(conditions=_merged(PLAIN, "type"))),
    "CronJob": _kind(spec=_struct(jobTemplate=_struct(metadata=_META, spec=_JOB_SPEC))),
    "Service": _kind(
        spec=_struct(ports=_items(PLAIN, "port", "protocol", protocol="TCP"), selector=ATOMIC),
        status=_struct(conditions=_CONDITIONS),
    ),
    "Node": _kind(
        spec=_struct(podCIDRs=_PRIMITIVES),
        status=_struct(conditions=_CONDITIONS, addresses=_items(PLAIN, "type"), capacity=PLAIN, allocatable=PLAIN),
    ),
    "Namespace": _kind(spec=PLAIN, status=_struct(conditions=_CONDITIONS)),
    "ServiceAccount": _kind(secrets=_items(ATOMIC, "name"), imagePullSecrets=Shape(element=ATOMIC)),
    "PodDisruptionBudget": _kind(
        spec=_struct(selector=Shape(atomic=True, replace=True)), status=_struct(conditions=_CONDITIONS)
    ),
    "ConfigMap": _kind(data=PLAIN, binaryData=PLAIN),
    "Secret": _kind(data=PLAIN, stringData=PLAIN),
    "Event": _kind(involvedObject=ATOMIC),
    "Lease": _GENERIC,
    "PersistentVolumeClaim": _kind(spec=_struct(selector=_SELECTOR), status=_struct(conditions=_CONDITIONS)),
}


def built_in_shape(kind: str) -> Shape:
    """The shape of a built-in kind. A kind outside of the table has standard metadata; its other fields are plain."""
    return BUILT_IN.get(kind, _GENERIC)


def _from_schema(schema: Any) -> Shape:
    if not isinstance(schema, dict):
        return PLAIN
    properties, extra, items = schema.get("properties"), schema.get("additionalProperties"), schema.get("items")
    list_type = schema.get("x-kubernetes-list-type")
    element = items if isinstance(items, dict) else extra
    item_properties = items.get("properties", {}) if isinstance(items, dict) else {}
    keys = tuple(schema.get("x-kubernetes-list-map-keys") or ()) if list_type == "map" else ()
    return Shape(
        fields={name: _from_schema(child) for name, child in properties.items()}
        if isinstance(properties, dict)
        else {},
        element=_from_schema(element) if isinstance(element, dict) else None,
        open=not properties,
        atomic=schema.get("x-kubernetes-map-type") == "atomic",
        keys=keys,
        is_set=list_type == "set",
        defaults={
            key: item_properties[key]["default"] for key in keys if "default" in (item_properties.get(key) or {})
        },
    )


def crd_shape(schema: Json) -> Shape:
    """The shape of a custom resource, from its `openAPIV3Schema`."""
    shape = _from_schema(schema)
    return Shape(fields={**shape.fields, "apiVersion": PLAIN, "kind": PLAIN, "metadata": _META}, element=shape.element)
