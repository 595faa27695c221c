"""The table of Kubernetes resources that the operator uses: their names, and the verbs of each process.

Clients build their paths from it, the watcher its reflectors, the projection its owner look-up. The shipped RBAC is
generated from it, so no process may use a verb that is missing here. Pure data. It must never have a wildcard, nor a
verb that reads a Secret.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from tjworker.api.kinds import GUEST_KINDS, KNOWN_KINDS
from tjworker.base import GroupResource

Process = Literal["watcher", "worker", "reporter"]
READ = ("list", "watch")


@dataclass(frozen=True, slots=True)
class Resource:
    """One row. `group` is '' for the core group."""

    plural: str
    group: str
    version: str
    kind: str
    namespaced: bool = True
    watched: bool = False
    """The watcher runs a reflector for it."""
    optional: bool = False
    """The operator works without it: a CRD that may be missing, or a kind that a namespaced installation may not
    read."""
    only: Mapping[Process, tuple[str, ...]] = field(default_factory=dict)
    """Process -> the only object names that RBAC allows it; a process that is not here may use all names."""
    templated: bool = False
    """Made from a user's template, so the API server must refuse unknown fields."""
    is_job: bool = False
    """A job kind: its name is the first part of a JobKey."""
    needed_by: tuple[GroupResource, ...] = ()
    """The job kinds of other operators that need it. Its rights are granted with theirs. Empty: it is always needed."""
    is_named: bool = False
    """Jobs name its objects, such as a ClusterTrainingRuntime. A change wakes those jobs; the projection does not keep
    the objects."""
    guest: bool = False
    """A job kind of another operator. A setting switches it on; its rights are granted with its CRD."""
    gang: str = ""
    """The gang scheduler whose PodGroup it is. A setting switches it on; its rights have a folder of their own."""
    verbs: Mapping[Process, tuple[str, ...]] = field(default_factory=dict)
    subresources: Mapping[str, Mapping[Process, tuple[str, ...]]] = field(default_factory=dict)

    @property
    def name(self) -> GroupResource:
        """The form of Kubernetes' GroupResource: `pods`, `jobs.batch`."""
        return GroupResource(f"{self.plural}.{self.group}" if self.group else self.plural)

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The API path of the collection, the object or its subresource. Names of Kubernetes need no quoting."""
        parts = ["/apis", self.group, self.version] if self.group else ["/api", self.version]
        if namespace and self.namespaced:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        parts += [part for part in (name, subresource) if part]
        return "/".join(parts)


_JOB_VERBS: Mapping[Process, tuple[str, ...]] = {"watcher": READ, "worker": ("get", "delete"), "reporter": ("get",)}
# No request goes to `finalizers`. The admission plug-in OwnerReferencesPermissionEnforcement (always on in OpenShift)
# requires this right to set blockOwnerDeletion; kubebuilder's roles and Kubernetes' own have it for the same reason.
_JOB_SUBRESOURCES: Mapping[str, Mapping[Process, tuple[str, ...]]] = {
    "status": {"worker": ("update", "patch"), "reporter": ("patch",)},
    "finalizers": {"worker": ("update",)},
}
# The worker lists only to find orphans; a pass reads the projection. The report server reads the controller of a pod
# to find the pod's job.
_KEEPER_VERBS: Mapping[Process, tuple[str, ...]] = {
    "watcher": READ,
    "worker": ("get", "list", "create", "patch", "delete"),
    "reporter": ("get",),
}
_CHILD_VERBS: Mapping[Process, tuple[str, ...]] = {
    "watcher": READ,
    "worker": ("get", "list", "create", "patch", "delete"),
}


def _pod_groups(gang: str, group: str, version: str, verbs: tuple[str, ...]) -> Resource:
    rights: Mapping[Process, tuple[str, ...]] = {"watcher": READ, "worker": verbs}
    return Resource("podgroups", group, version, "PodGroup", watched=True, optional=True, gang=gang, verbs=rights)


_JOBS = tuple(
    Resource(
        kind.plural,
        kind.group,
        kind.versions[0],
        kind.kind,
        watched=True,
        is_job=True,
        optional=kind.optional,
        guest=kind.guest is not None,
        verbs=_JOB_VERBS,
        subresources=_JOB_SUBRESOURCES,
    )
    for kind in KNOWN_KINDS.values()
)
_COMPANIONS = tuple(
    Resource(
        of.plural,
        of.group,
        of.version,
        of.kind,
        namespaced=of.namespaced,
        watched=True,
        optional=True,
        is_named=True,
        needed_by=(kind.resource,),
        # A list, even of one object: the list's resourceVersion says when the object was absent
        # (tjworker/controllers/references.py).
        verbs={"watcher": READ, "worker": ("list",)},
    )
    for kind in GUEST_KINDS
    for of in kind.companions
)
_ROWS = (
    *_JOBS,
    *_COMPANIONS,
    Resource(
        "pods",
        "",
        "v1",
        "Pod",
        watched=True,
        templated=True,
        verbs={"watcher": READ, "worker": ("get", "list", "create", "patch", "delete"), "reporter": ("get", "list")},
        subresources={"log": {"worker": ("get",)}},
    ),
    Resource(
        "services",
        "",
        "v1",
        "Service",
        watched=True,
        verbs={"watcher": READ, "worker": ("get", "list", "create", "delete")},
    ),
    Resource("replicasets", "apps", "v1", "ReplicaSet", watched=True, templated=True, verbs=_KEEPER_VERBS),
    Resource("jobs", "batch", "v1", "Job", watched=True, templated=True, verbs=_KEEPER_VERBS),
    Resource(
        "nodes",
        "",
        "v1",
        "Node",
        namespaced=False,
        watched=True,
        optional=True,
        verbs={"watcher": READ, "worker": ("get", "list")},
    ),
    # The spec of Kubernetes' own PodGroup is immutable, so the worker needs no verb patch.
    _pod_groups("kubernetes", "scheduling.k8s.io", "v1alpha2", ("get", "list", "create", "delete")),
    _pod_groups("volcano", "scheduling.volcano.sh", "v1beta1", _CHILD_VERBS["worker"]),
    _pod_groups("scheduler-plugins", "scheduling.x-k8s.io", "v1alpha1", _CHILD_VERBS["worker"]),
    # For jobs with a spec.priority (tjworker/controllers/priorities.py).
    Resource(
        "priorityclasses",
        "scheduling.k8s.io",
        "v1",
        "PriorityClass",
        namespaced=False,
        optional=True,
        verbs={"worker": ("get",)},
    ),
    # The UID of kube-system is the identity of the cluster (watcher/cluster_id.py). A label of a namespace chooses the
    # autoscaling policy of its jobs (tjworker/controllers/namespace_policies.py).
    Resource(
        "namespaces",
        "",
        "v1",
        "Namespace",
        namespaced=False,
        optional=True,
        only={"watcher": ("kube-system",)},
        verbs={"watcher": ("get",), "worker": ("list",)},
    ),
    # The report server learns from it which pod sends a report of progress (tjworker/reports/tokens.py).
    Resource(
        "tokenreviews",
        "authentication.k8s.io",
        "v1",
        "TokenReview",
        namespaced=False,
        optional=True,
        verbs={"reporter": ("create",)},
    ),
    # The keys of an MPIJob. They are created and never read: their names contain the job's UID, so an existing Secret
    # of that name is the job's own.
    Resource(
        "secrets",
        "",
        "v1",
        "Secret",
        needed_by=(
            GroupResource("mpijobs.kubeflow.org"),
            GroupResource("mpijobs.training.kubedl.io"),
            GroupResource("trainjobs.trainer.kubeflow.org"),
        ),
        verbs={"worker": ("create",)},
    ),
    # A runtime may ask for claims for each of its jobs. If the name of one is taken, the worker reads its owner.
    Resource(
        "persistentvolumeclaims",
        "",
        "v1",
        "PersistentVolumeClaim",
        templated=True,
        needed_by=(GroupResource("trainjobs.trainer.kubeflow.org"),),
        verbs={"worker": ("get", "create")},
    ),
    Resource("events", "", "v1", "Event", verbs={"worker": ("get", "create", "patch")}),
    Resource("leases", "coordination.k8s.io", "v1", "Lease", verbs={"watcher": ("get", "create", "update")}),
)


def by_name(rows: Iterable[Resource]) -> Mapping[GroupResource, Resource]:
    return {row.name: row for row in rows}


RESOURCES = by_name(_ROWS)


def watched(kinds: Container[GroupResource], gang: str = "none") -> tuple[Resource, ...]:
    """The resources that the watcher watches if these job kinds are served with this gang scheduler."""
    return tuple(
        row
        for row in _ROWS
        if row.watched and (not row.is_job or row.name in kinds) and _serves(row, kinds) and row.gang in ("", gang)
    )


def needed(kinds: Container[GroupResource], gang: str = "none") -> tuple[Resource, ...]:
    """The resources that the operator uses if it serves these job kinds with this gang scheduler."""
    return tuple(
        row for row in _ROWS if (not row.guest or row.name in kinds) and _serves(row, kinds) and row.gang in ("", gang)
    )


def _serves(row: Resource, kinds: Container[GroupResource]) -> bool:
    return not row.needed_by or any(kind in kinds for kind in row.needed_by)
