"""The one table of built-in resources: names, scope, subresources and selectable fields. Everything that serves, lists,
discovers or prints a kind starts from a row here; a CustomResourceDefinition adds rows of the same type at run time.

Data only: nothing here reads or writes an object.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

READ_WRITE: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
REVIEW: Final = ("create",)


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource in one API version. Two rows with the same `bucket` serve the same stored objects."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    """Selectable besides metadata.name and metadata.namespace."""
    verbs: tuple[str, ...] = READ_WRITE
    singular: str = ""
    list_kind: str = ""
    storage: str = ""
    """The bucket in the store when it is not `<group>/<plural>`."""
    custom: bool = False
    bucket: str = field(init=False, compare=False, repr=False)
    """The bucket of the store that holds its objects."""
    api_version: str = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        group = f"{self.group}/" if self.group else ""
        object.__setattr__(self, "bucket", self.storage or group + self.plural)
        object.__setattr__(self, "api_version", group + self.version)

    @property
    def group_resource(self) -> str:
        """The name in error messages: `pods`, `jobs.batch`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def group_kind(self) -> str:
        return f"{self.kind}.{self.group}" if self.group else self.kind

    @property
    def singular_name(self) -> str:
        return self.singular or self.kind.lower()

    @property
    def list_name(self) -> str:
        return self.list_kind or self.kind + "List"


_RBAC = "rbac.authorization.k8s.io"
_AUTHZ = "authorization.k8s.io"
_EVENT_FIELDS = (
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
)
_POD_SUBRESOURCES = ("binding", "eviction", "exec", "log", "portforward", "status")
_POD_FIELDS = (
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.nominatedNodeName",
)

BUILTIN: Final[tuple[Resource, ...]] = (
    Resource("", "v1", "ConfigMap", "configmaps", short_names=("cm",)),
    Resource("", "v1", "Endpoints", "endpoints", short_names=("ep",), singular="endpoints"),
    Resource("", "v1", "Event", "events", short_names=("ev",), fields=_EVENT_FIELDS),
    Resource("", "v1", "LimitRange", "limitranges", short_names=("limits",)),
    Resource(
        "",
        "v1",
        "Namespace",
        "namespaces",
        False,
        ("ns",),
        subresources=("finalize", "status"),
        fields=("status.phase",),
        verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
    ),
    Resource("", "v1", "Node", "nodes", False, ("no",), subresources=("status",), fields=("spec.unschedulable",)),
    Resource(
        "", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", short_names=("pvc",), subresources=("status",)
    ),
    Resource("", "v1", "PersistentVolume", "persistentvolumes", False, ("pv",), subresources=("status",)),
    Resource("", "v1", "Pod", "pods", True, ("po",), ("all",), _POD_SUBRESOURCES, _POD_FIELDS),
    Resource("", "v1", "ResourceQuota", "resourcequotas", short_names=("quota",), subresources=("status",)),
    Resource("", "v1", "Secret", "secrets", fields=("type",)),
    Resource("", "v1", "ServiceAccount", "serviceaccounts", short_names=("sa",), subresources=("token",)),
    Resource("", "v1", "Service", "services", True, ("svc",), ("all",), ("status",), ("spec.clusterIP", "spec.type")),
    Resource(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        False,
        ("crd", "crds"),
        ("api-extensions",),
        ("status",),
    ),
    Resource(
        "apps", "v1", "ReplicaSet", "replicasets", True, ("rs",), ("all",), ("scale", "status"), ("status.replicas",)
    ),
    Resource("batch", "v1", "Job", "jobs", True, (), ("all",), ("status",), ("status.successful",)),
    Resource(_AUTHZ, "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", False, verbs=REVIEW),
    Resource(_AUTHZ, "v1", "SelfSubjectRulesReview", "selfsubjectrulesreviews", False, verbs=REVIEW),
    Resource(_AUTHZ, "v1", "SubjectAccessReview", "subjectaccessreviews", False, verbs=REVIEW),
    Resource("authentication.k8s.io", "v1", "SelfSubjectReview", "selfsubjectreviews", False, verbs=REVIEW),
    Resource("authentication.k8s.io", "v1", "TokenReview", "tokenreviews", False, verbs=REVIEW),
    Resource("coordination.k8s.io", "v1", "Lease", "leases"),
    Resource("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices"),
    Resource(
        "events.k8s.io",
        "v1",
        "Event",
        "events",
        short_names=("ev",),
        fields=(
            *_EVENT_FIELDS,
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "regarding.apiVersion",
            "regarding.resourceVersion",
            "regarding.fieldPath",
            "reportingController",
        ),
        storage="events",
    ),
    Resource(_RBAC, "v1", "ClusterRole", "clusterroles", False),
    Resource(_RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings", False),
    Resource(_RBAC, "v1", "Role", "roles"),
    Resource(_RBAC, "v1", "RoleBinding", "rolebindings"),
    Resource("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", False, ("pc",)),
    Resource("scheduling.k8s.io", "v1alpha2", "PodGroup", "podgroups", subresources=("status",)),
    Resource("storage.k8s.io", "v1", "StorageClass", "storageclasses", False, ("sc",), singular="storageclass"),
)
