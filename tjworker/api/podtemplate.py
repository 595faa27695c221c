"""The fields of a pod template that the operator reads.

All other fields are kept as the user wrote them. The API server checks them when a pod is created, so every template
that it accepts is accepted here. The CRD's schema is generated from these models, and the parser validates the raw
template by them. Only the parser checks fields marked SkipJsonSchema, to which some kinds and annotations add entries:
the CRD does not repeat a Pod's types.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.json_schema import SkipJsonSchema

PRESERVE: dict[str, Any] = {"x-kubernetes-preserve-unknown-fields": True}
DNS_LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
DNS_SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
NAME_OR_NONE = rf"^({DNS_SUBDOMAIN.removeprefix('^').removesuffix('$')})?$"
"""Go's clients write a field that is not set as an empty text."""
ABSOLUTE_PATH = "^(/.*)?$"
LABEL_VALUE = r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$"

LabelValue = Annotated[str, Field(max_length=63, pattern=LABEL_VALUE)]
AnnotationValue = Annotated[str, Field(max_length=262144)]


def map_by(key: str) -> dict[str, Any]:
    """Make a list a map: server-side apply merges it by this key, and the API server refuses the same key twice."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}


class _Model(BaseModel):
    # Not strict, pydantic would take "8080" for a number, which the API server refuses in a pod. Unknown fields pass,
    # because Kubernetes adds some with each release.
    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", json_schema_extra=PRESERVE)


class ContainerPort(_Model):
    """A port of a container. Ports whose name starts with `aitj-` get a service and are in the environment of
    every pod of the job."""

    containerPort: int = Field(ge=1, le=65535, description="number of the port")  # noqa: N815
    name: str | None = Field(
        None, max_length=15, description="name of the port; one that starts with `aitj-` gets a service"
    )


class EnvVar(_Model):
    """An environment variable, as in a Pod."""

    name: str = Field(min_length=1, max_length=1024, description="name of the variable")


class Security(_Model):
    """Security context of a pod or of a container, as in a Pod."""


class Named(_Model):
    """A volume or a volume mount, as in a Pod."""

    name: str


class DNSConfig(_Model):
    """How the pod looks names up, as in a Pod."""

    searches: list[str] | None = None


class Container(_Model):
    """A container, as in a Pod."""

    name: str = Field(
        min_length=1, max_length=63, pattern=DNS_LABEL, description="name of the container, unique in the pod"
    )
    env: list[EnvVar] | None = Field(
        None, max_length=1024, description="environment variables; the operator's TRAININGJOB_* and role variables win"
    )
    ports: list[ContainerPort] | None = Field(None, max_length=256, description="ports that the container listens on")
    command: SkipJsonSchema[list[str] | None] = None
    args: SkipJsonSchema[list[str] | None] = None
    volumeMounts: SkipJsonSchema[list[Named] | None] = None  # noqa: N815
    securityContext: SkipJsonSchema[Security | None] = None  # noqa: N815


class PodSpec(_Model):
    """A pod's spec, as in a Pod. The role's restartPolicy overrides `restartPolicy`."""

    containers: list[Container] = Field(
        min_length=1,
        max_length=64,
        json_schema_extra=map_by("name"),
        description="containers of the pod. The exit codes of those whose name starts with `aitj-` count (in other"
        " operators' kinds, of the one with their name, such as `pytorch`), else that of the first container",
    )
    initContainers: list[Container] | None = Field(  # noqa: N815
        None,
        max_length=64,
        json_schema_extra=map_by("name"),
        description="containers that complete before the others start",
    )
    hostNetwork: bool | None = Field(None, description="use the network of the node")  # noqa: N815
    volumes: SkipJsonSchema[list[Named] | None] = None
    dnsConfig: SkipJsonSchema[DNSConfig | None] = None  # noqa: N815
    securityContext: SkipJsonSchema[Security | None] = None  # noqa: N815


class PodMetadata(_Model):
    """Labels and annotations of the pods. Those of the job are added where the template does not set them."""

    labels: dict[str, LabelValue] | None = Field(None, max_length=256, description="labels of the pods")
    annotations: dict[str, AnnotationValue] | None = Field(None, max_length=256, description="annotations of the pods")


class PodTemplate(_Model):
    """A pod template, as in a Deployment or a Job."""

    metadata: PodMetadata | None = Field(None, description="labels and annotations of the pods")
    spec: PodSpec = Field(description="spec of the pods")
