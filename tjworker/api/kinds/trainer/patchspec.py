"""Fields of `runtimePatches`, with the bounds and rules of Trainer 2.3 (RuntimePatch to ContainerPatch of
pkg/apis/trainer/v1alpha1/trainjob_types.go). Pure.

Parts of a pod without fields here are kept as written; the API server checks them when a pod is created.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ConfigDict, Field

from tjworker.api.kinds.base import CamelModel
from tjworker.api.kinds.guests.spec import AsWritten
from tjworker.api.kinds.runpolicy import MAX_INT32
from tjworker.api.podtemplate import map_by

# `IsDomainPrefixedPath` of apimachinery: a DNS subdomain, a slash, and a path.
MANAGER = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[a-zA-Z0-9]([-a-zA-Z0-9_./]*[a-zA-Z0-9])?$"


def cel_rule(rule: str, message: str, path: str = "") -> Any:
    return {"rule": rule, "message": message, **({"fieldPath": path} if path else {})}


class KeySelector(AsWritten):
    """A key of a ConfigMap or Secret."""

    name: str | None = Field(None, max_length=253, description="name of the object")
    key: str | None = Field(None, max_length=253, description="key in the object")


class FieldSelector(AsWritten):
    """A field of the pod."""

    fieldPath: str | None = Field(None, max_length=1024, description="path of the field")  # noqa: N815


class ResourceSelector(AsWritten):
    """A resource of a container."""

    resource: str | None = Field(None, max_length=253, description="such as limits.cpu")


class VariableSource(AsWritten):
    """Source of a variable's value."""

    fieldRef: FieldSelector | None = Field(None, description="a field of the pod")  # noqa: N815
    resourceFieldRef: ResourceSelector | None = Field(None, description="a resource of a container")  # noqa: N815
    configMapKeyRef: KeySelector | None = Field(None, description="a key of a ConfigMap")  # noqa: N815
    secretKeyRef: KeySelector | None = Field(None, description="a key of a Secret")  # noqa: N815


class Variable(AsWritten):
    """An environment variable, as in a Pod."""

    # Typed, because CEL sees nothing of a field without a type, and a rule says that variables cannot change.

    name: str = Field(min_length=1, max_length=1024, description="name of the variable")
    value: str | None = Field(None, max_length=1 << 20, description="its value")
    valueFrom: VariableSource | None = Field(None, description="source of the value")  # noqa: N815


class PatchMetadata(CamelModel):
    """Labels and annotations that a patch adds."""

    labels: dict[str, Annotated[str, Field(max_length=63)]] | None = Field(None, max_length=256, description="labels")
    annotations: dict[str, Annotated[str, Field(max_length=262144)]] | None = Field(
        None, max_length=256, description="annotations"
    )


class NamedItem(AsWritten):
    """An entry of a list that is merged by name."""

    name: str = Field(min_length=1, max_length=253, description="its name")


class PatchedMount(NamedItem):
    """A volume mount, as in a Pod."""

    mountPath: str = Field(min_length=1, max_length=4096, description="path in the container")  # noqa: N815


# Typed for the same reason as Variable: the rule that the patches of a running job stay must see its fields.
class Toleration(AsWritten):
    """A toleration, as in a Pod."""

    key: str | None = Field(None, max_length=317, description="key of the taint")
    operator: str | None = Field(None, max_length=63, description="Equal or Exists")
    value: str | None = Field(None, max_length=63, description="value of the taint")
    effect: str | None = Field(None, max_length=63, description="effect of the taint")


class _PatchFields(CamelModel):
    """A part of a patch. What it does not name no patch may change, so an unknown field is an error here; the API
    server drops it."""

    model_config = ConfigDict(extra="forbid")


# Kueue rewrites node selectors and tolerations at each admission. The fields that it has no use for Trainer keeps
# fixed.
_STAYS: dict[str, Any] = {"x-kubernetes-validations": [cel_rule("self == oldSelf", "field is immutable")]}
"""The rule of a field that a patch cannot change, even while the job is suspended."""


def _items(what: str, most: int, **more: Any) -> Any:
    """A list by name that a patch changes."""
    return Field(None, max_length=most, json_schema_extra={**map_by("name"), **more}, description=what)


class ContainerPatch(_PatchFields):
    """Changes of the container of this name."""

    name: str = Field(min_length=1, max_length=253, description="name of a container of the runtime")
    env: list[Variable] | None = _items("its variables; not of `node` and the initializers", 128)
    volume_mounts: list[PatchedMount] | None = _items("where it mounts volumes", 128)
    security_context: AsWritten | None = Field(None, description="its security, as in a container")


class PodSpecPatch(_PatchFields):
    """What a patch may change of a pod."""

    service_account_name: str | None = Field(
        None, max_length=253, json_schema_extra=_STAYS, description="service account of the pods"
    )
    volumes: list[NamedItem] | None = _items("volumes, as in a Pod", 128, **_STAYS)
    init_containers: list[ContainerPatch] | None = _items("init containers of the runtime", 64, **_STAYS)
    containers: list[ContainerPatch] | None = _items("containers of the runtime", 64, **_STAYS)
    image_pull_secrets: list[NamedItem] | None = _items("Secrets to pull images with", 64, **_STAYS)
    security_context: AsWritten | None = Field(None, description="security, as in a Pod")
    node_selector: dict[str, str] | None = Field(None, max_length=256, description="labels that the pods' nodes have")
    affinity: AsWritten | None = Field(None, description="affinity, as in a Pod")
    tolerations: list[Toleration] | None = Field(
        None, max_length=128, description="tolerations, in the place of the runtime's"
    )
    scheduling_gates: list[NamedItem] | None = _items("gates that hold the pods back", 16)
    termination_grace_period_seconds: int | None = Field(
        None, ge=0, le=MAX_INT32, json_schema_extra=_STAYS, description="seconds between the signal to end and the kill"
    )


class PodPatch(_PatchFields):
    """What a patch changes of pods."""

    metadata: PatchMetadata | None = Field(None, description="labels and annotations of the pods")
    spec: PodSpecPatch | None = Field(None, description="their spec")


class PatchedJobSpec(_PatchFields):
    """What a patch changes of a replicated job."""

    template: PodPatch | None = Field(None, description="its pods")


class PatchedJobTemplate(_PatchFields):
    """What a patch changes of a replicated job."""

    metadata: PatchMetadata | None = Field(None, description="labels and annotations of the child Job")
    spec: PatchedJobSpec | None = Field(None, description="its spec")


class PatchedJob(_PatchFields):
    """Changes of the replicated job of this name."""

    name: str = Field(min_length=1, max_length=63, description="name of a replicated job of the runtime")
    template: PatchedJobTemplate | None = Field(None, description="what is merged into its template")


class PatchedJobSetSpec(_PatchFields):
    """What a patch changes of the runtime's jobs."""

    replicated_jobs: list[PatchedJob] | None = Field(
        None, max_length=20, json_schema_extra=map_by("name"), description="replicated jobs that are changed"
    )


class PatchedJobSet(_PatchFields):
    """What a patch changes of the runtime's template."""

    metadata: PatchMetadata | None = Field(
        None, description="labels and annotations of Trainer's JobSet; here they reach the PodGroup alone"
    )
    spec: PatchedJobSetSpec | None = Field(None, description="replicated jobs that are changed")


class PatchedRuntimeSpec(_PatchFields):
    """What a patch changes of the runtime."""

    template: PatchedJobSet | None = Field(None, description="the template of its jobs")


class RuntimePatch(_PatchFields):
    """Changes of the runtime by one manager."""

    manager: str = Field(
        min_length=1,
        max_length=317,
        pattern=MANAGER,
        description="manager of the change: a path with a domain, such as kueue.x-k8s.io/manager",
    )
    time: str | None = Field(None, max_length=64, description="when; under Kubeflow's Trainer its webhook fills it in")
    training_runtime_spec: PatchedRuntimeSpec | None = Field(None, description="what is merged into the runtime")
