"""The one table of Kubernetes resources that the operator touches: what each is called, and who does what with it.

Clients build their paths from it, the watcher its reflectors, the projection its owner look-up, and the shipped RBAC is
generated from it: no process may use a verb that is not here. Pure data. It has no wildcard, and no verb that
reads a Secret, and must never have one.
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
    """The operator does its work without it: a CRD that may be missing, or a kind that a namespaced install may not
    read."""
    only: Mapping[Process, tuple[str, ...]] = field(default_factory=dict)
    """The RBAC allows a process that is named here no other names than these."""
    templated: bool = False
    """Made from a user's template. The API server must refuse a field that it does not know: it would drop a misspelt
    `command` silently, and the container would run something else."""
    is_job: bool = False
    """A job kind: its name is the first part of a JobKey."""
    needed_by: tuple[GroupResource, ...] = ()
    """The job kinds of other operators without which nobody needs it: its rights are given with theirs."""
    is_named: bool = False
    """Its objects are named by jobs, as a ClusterTrainingRuntime is. They are watched for their changes alone: the
    projection keeps nothing of them."""
    guest: bool = False
    """A job kind of another operator's, which a setting switches on; its rights are given with its CRD."""
    gang: str = ""
    """The PodGroup of this gang scheduler, which a setting switches on; its rights are in a folder of their own."""
    verbs: Mapping[Process, tuple[str, ...]] = field(default_factory=dict)
    subresources: Mapping[str, Mapping[Process, tuple[str, ...]]] = field(default_factory=dict)

    @property
    def name(self) -> GroupResource:
        """As Kubernetes' GroupResource prints it: `pods`, `jobs.batch`."""
        return GroupResource(f"{self.plural}.{self.group}" if self.group else self.plural)

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The API path of the collection, the object or its subresource; parts are not quoted (names need none)."""
        parts = ["/apis", self.group, self.version] if self.group else ["/api", self.version]
        if namespace and self.namespaced:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        parts += [part for part in (name, subresource) if part]
        return "/".join(parts)


_JOB_VERBS: Mapping[Process, tuple[str, ...]] = {"watcher": READ, "worker": ("get", "delete"), "reporter": ("get",)}
# Nobody sends a request to `finalizers`: the admission plugin OwnerReferencesPermissionEnforcement (always on in
# OpenShift) lets only those set blockOwnerDeletion who may update it, as in kubebuilder's roles and Kubernetes' own.
_JOB_SUBRESOURCES: Mapping[str, Mapping[Process, tuple[str, ...]]] = {
    "status": {"worker": ("update", "patch"), "reporter": ("patch",)},
    "finalizers": {"worker": ("update",)},
}
# The worker lists only to look for orphans; a pass reads the projection. Of a pod that a controller keeps, the report
# server reads whose that one is.
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
        # A list of the one of a name: its version is that of the cluster (tjworker/references.py).
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
    # The spec of Kubernetes' own cannot be changed.
    _pod_groups("kubernetes", "scheduling.k8s.io", "v1alpha2", ("get", "list", "create", "delete")),
    _pod_groups("volcano", "scheduling.volcano.sh", "v1beta1", _CHILD_VERBS["worker"]),
    _pod_groups("scheduler-plugins", "scheduling.x-k8s.io", "v1alpha1", _CHILD_VERBS["worker"]),
    # For jobs with a spec.priority (tjworker/priorities.py).
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
    # autoscaling policy of its jobs (tjworker/namespace_policies.py).
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
    # Who sends a report of progress (tjworker/reports/tokens.py).
    Resource(
        "tokenreviews",
        "authentication.k8s.io",
        "v1",
        "TokenReview",
        namespaced=False,
        optional=True,
        verbs={"reporter": ("create",)},
    ),
    # The keys of an MPIJob: made, and never read. What has their name is the job's, as its UID stands in it.
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
    # What a runtime says that its jobs need. The worker reads one whose name is taken, for its owner.
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
    """What the watcher follows where these job kinds are served, with this gang scheduler."""
    return tuple(
        row
        for row in _ROWS
        if row.watched and (not row.is_job or row.name in kinds) and _serves(row, kinds) and row.gang in ("", gang)
    )


def needed(kinds: Container[GroupResource], gang: str = "none") -> tuple[Resource, ...]:
    """What an operator touches that serves these job kinds, with this gang scheduler."""
    return tuple(
        row for row in _ROWS if (not row.guest or row.name in kinds) and _serves(row, kinds) and row.gang in ("", gang)
    )


def _serves(row: Resource, kinds: Container[GroupResource]) -> bool:
    return not row.needed_by or any(kind in kinds for kind in row.needed_by)
