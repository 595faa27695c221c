"""The additions with which a pod reports the progress of its training: three variables, a token of its own, and the
certificate authority of the server.

A setting adds them to every job, without an annotation. Entries of the template with the same names stay. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tjworker.api.model import Role, TrainingJob
from tjworker.api.reporting import (
    CA_ANNOTATION,
    FOLDER,
    VOLUME,
    ReportServer,
    report_environment,
    report_mount,
    report_volume,
)
from tjworker.base import Json
from tjworker.reconcile.volumes import add_mount


def with_reports(job: TrainingJob, server: ReportServer | None) -> TrainingJob:
    """The job with these additions; the same job if reports are off."""
    if server is None:
        return job
    return replace(job, roles=tuple(_with_reports(job, role, server) for role in job.roles))


def _with_reports(job: TrainingJob, role: Role, server: ReportServer) -> Role:
    template = role.template if isinstance(role.template, Mapping) else {}
    spec = template.get("spec")
    if not isinstance(spec, Mapping) or not spec.get("containers") or _reports_elsewhere(spec):
        return role
    environment = [{"name": name, "value": value} for name, value in report_environment(server, job.name).items()]
    containers = [_container(container, environment) for container in spec["containers"]]
    volumes = [*(spec.get("volumes") or ()), report_volume(job.name)]
    metadata = template.get("metadata") or {}
    annotations = {**(metadata.get("annotations") or {}), CA_ANNOTATION: server.ca_pem}
    # A token needs a service account. Kubernetes sets `default` itself only if its admission plugin runs.
    account = {} if spec.get("serviceAccountName") or spec.get("serviceAccount") else {"serviceAccountName": "default"}
    changed = {
        **template,
        "metadata": {**metadata, "annotations": annotations},
        "spec": {**spec, **account, "containers": containers, "volumes": volumes},
    }
    return replace(role, template=changed)


def _reports_elsewhere(spec: Json) -> bool:
    """True if the template was written for another server: it has a volume of this name, or a mount at this path."""
    volumes = [v.get("name") for v in spec.get("volumes") or () if isinstance(v, Mapping)]
    mounts = [m for c in spec["containers"] if isinstance(c, Mapping) for m in c.get("volumeMounts") or ()]
    paths = [str(m.get("mountPath", "")).rstrip("/") for m in mounts if isinstance(m, Mapping)]
    return VOLUME in volumes or FOLDER in paths


def _container(container: Any, environment: list[dict[str, str]]) -> Any:
    if not isinstance(container, Mapping):
        return container
    own = list(container.get("env") or ())
    named = {e.get("name") for e in own if isinstance(e, Mapping)}
    added = [variable for variable in environment if variable["name"] not in named]
    return add_mount({**container, "env": [*added, *own]}, report_mount())
