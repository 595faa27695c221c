"""The one table of Kubernetes resources that the operator touches: what each is called, and who does what with it.

Clients build their paths from it, the watcher its informers, the projection its owner look-up, and the shipped RBAC is
generated from it: a verb that is not here is a verb that no process of ours may use. Pure data. There is no Secret in it
and no wildcard, and there never will be.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Process = Literal["watcher", "worker"]
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
    """The watcher runs an informer for it."""
    optional: bool = False
    """The operator does its work without it: a CRD that may be missing, or a kind that a namespaced install may not read."""
    only: tuple[str, ...] = ()
    """The RBAC allows no other names than these; empty: all."""
    templated: bool = False
    """Made from a template that a user wrote: a field that the API server does not know refuses it, else it would be dropped
    without a word, and a container that lacks its `command` runs something else."""
    is_job: bool = False
    """One of our own kinds: its plural is the first part of a JobKey."""
    verbs: Mapping[Process, tuple[str, ...]] = field(default_factory=dict)
    subresources: Mapping[str, Mapping[Process, tuple[str, ...]]] = field(default_factory=dict)

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


_JOB_VERBS: Mapping[Process, tuple[str, ...]] = {"watcher": READ, "worker": ("get", "patch", "delete")}
_JOB_SUBRESOURCES: Mapping[str, Mapping[Process, tuple[str, ...]]] = {"status": {"worker": ("get", "update", "patch")}}
# The worker lists only to look for orphans; a pass reads the projection.
_CHILD_VERBS: Mapping[Process, tuple[str, ...]] = {
    "watcher": READ,
    "worker": ("get", "list", "create", "patch", "delete"),
}

_ROWS = (
    Resource(
        "aitrainingjobs",
        "elasticdeeplearning.ai",
        "v1",
        "AITrainingJob",
        watched=True,
        is_job=True,
        verbs=_JOB_VERBS,
        subresources=_JOB_SUBRESOURCES,
    ),
    Resource(
        "trainingjobs",
        "paddlepaddle.org",
        "v1",
        "TrainingJob",
        watched=True,
        is_job=True,
        optional=True,
        verbs=_JOB_VERBS,
        subresources=_JOB_SUBRESOURCES,
    ),
    Resource(
        "pods",
        "",
        "v1",
        "Pod",
        watched=True,
        templated=True,
        verbs={"watcher": READ, "worker": ("get", "list", "create", "patch", "delete")},
        subresources={"log": {"worker": ("get",)}},
    ),
    Resource("services", "", "v1", "Service", watched=True, verbs=_CHILD_VERBS),
    Resource("replicasets", "apps", "v1", "ReplicaSet", watched=True, templated=True, verbs=_CHILD_VERBS),
    Resource("jobs", "batch", "v1", "Job", watched=True, templated=True, verbs=_CHILD_VERBS),
    Resource(
        "podgroups", "scheduling.x-k8s.io", "v1alpha1", "PodGroup", watched=True, optional=True, verbs=_CHILD_VERBS
    ),
    Resource(
        "nodes",
        "",
        "v1",
        "Node",
        namespaced=False,
        watched=True,
        optional=True,
        verbs={"watcher": READ, "worker": ("list",)},
    ),
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
    # Its UID is the identity of the cluster (watcher/history.py).
    Resource(
        "namespaces",
        "",
        "v1",
        "Namespace",
        namespaced=False,
        optional=True,
        only=("kube-system",),
        verbs={"watcher": ("get",)},
    ),
    Resource("events", "", "v1", "Event", verbs={"worker": ("get", "create", "patch")}),
    Resource("leases", "coordination.k8s.io", "v1", "Lease", verbs={"watcher": ("get", "create", "update")}),
)

RESOURCES: Mapping[str, Resource] = {row.plural: row for row in _ROWS}
WATCHED: tuple[Resource, ...] = tuple(row for row in _ROWS if row.watched)
JOB_PLURALS: Mapping[tuple[str, str], str] = {(row.group, row.kind): row.plural for row in _ROWS if row.is_job}
"""(API group, kind) of an owner reference -> the first part of the JobKey. The version does not matter."""
JOB_GROUPS: Mapping[str, str] = {row.group: row.plural for row in _ROWS if row.is_job}
"""API group (the label `group-name` of a child) -> the first part of the JobKey."""
