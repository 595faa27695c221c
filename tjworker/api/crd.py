"""Builds the CustomResourceDefinition (apiextensions.k8s.io/v1) of a job kind, as JSON. Pure; `generate` writes it to
`k8s/crds/`."""

from __future__ import annotations

from typing import Any

from tjworker.api.kinds.base import Companion, JobKind
from tjworker.api.schema import Schema, structural
from tjworker.api.status import JobStatus

COLUMNS: tuple[dict[str, Any], ...] = (
    {"name": "Phase", "type": "string", "jsonPath": ".status.phase", "description": "where the job is in its life"},
    {"name": "Active", "type": "string", "jsonPath": ".status.active", "description": "pods that run of those desired"},
    {
        "name": "Restarts",
        "type": "integer",
        "jsonPath": ".status.restarts",
        "description": "restarts of all roles, for every cause",
    },
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    {
        "name": "Message",
        "type": "string",
        "jsonPath": ".status.message",
        "priority": 1,
        "description": "why the job is in its phase",
    },
)
"""The printer columns. A column is one JSONPath, so that the status holds the sums (`JobStatus.summarised`)."""


LABELS = {"app.kubernetes.io/component": "crd"}
"""An uninstallation leaves objects with this label alone: to delete a CRD is to delete all jobs of its kind, also those
that another operator serves."""


def columns(job_kind: JobKind) -> tuple[dict[str, Any], ...]:
    return job_kind.guest.columns if job_kind.guest else COLUMNS


def build(job_kind: JobKind) -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": job_kind.resource, "labels": dict(LABELS)},
        "spec": {
            "group": job_kind.group,
            "names": {
                "plural": job_kind.plural,
                "singular": job_kind.singular,
                "kind": job_kind.kind,
                "listKind": f"{job_kind.kind}List",
                # Only the operator's own kinds have a short name: the API server accepts the same one in two groups,
                # and kubectl would choose one of them.
                **({"shortNames": [job_kind.short_name]} if job_kind.short_name else {}),
                "categories": ["training"],
            },
            "scope": "Namespaced",
            "versions": [_version(job_kind, version) for version in job_kind.versions],
        },
    }


def build_companion(kind: Companion) -> dict[str, Any]:
    """The CRD of objects that jobs name, such as runtimes; these have only a spec."""
    described = {
        "description": kind.description,
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string", "description": "group and version of this kind"},
            "kind": {"type": "string", "description": "name of this kind"},
            "metadata": {"type": "object"},
            "spec": structural(kind.spec_model, defaults=True),
        },
    }
    names = {"plural": kind.plural, "singular": kind.singular, "kind": kind.kind, "listKind": f"{kind.kind}List"}
    version = {"name": kind.version, "served": True, "storage": True, "schema": {"openAPIV3Schema": described}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.resource, "labels": dict(LABELS)},
        "spec": {
            "group": kind.group,
            "names": names,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "versions": [version],
        },
    }


def _version(job_kind: JobKind, version: str) -> dict[str, Any]:
    replicas, selector = job_kind.guest.scale_paths if job_kind.guest else (".status.replicas", ".status.selector")
    scale = {
        "specReplicasPath": job_kind.scale_spec_path,
        "statusReplicasPath": replicas,
        "labelSelectorPath": selector,
    }
    return {
        "name": version,
        "served": True,
        # The API server refuses a CRD without exactly one stored version. Versions differ in defaults alone, so that no
        # conversion webhook is needed.
        "storage": version == job_kind.versions[0],
        "schema": {"openAPIV3Schema": schema(job_kind, version)},
        # Without the subresource, `kubectl replace` of an older manifest would erase the status, and with it the
        # attempts and targets. A write of the status would also raise metadata.generation, as an edit does.
        "subresources": {"status": {}, **({"scale": scale} if job_kind.scale_spec_path else {})},
        "additionalPrinterColumns": [dict(column) for column in columns(job_kind)],
    }


def schema(job_kind: JobKind, version: str = "") -> Schema:
    """The schema of a whole object. `version`: with the defaults of this version; '': with none of them."""
    spec = structural(job_kind.spec_model, defaults=True)
    status = structural(job_kind.guest.status_model if job_kind.guest else JobStatus, defaults=False)
    for name, value in job_kind.version_defaults.get(version, {}).items():
        described = spec["properties"][name]
        spec["properties"][name] = {
            "description": described["description"],
            "type": "string",
            "default": value,
        } | described
    return {
        "description": job_kind.description,
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string", "description": "group and version of this kind"},
            "kind": {"type": "string", "description": "name of this kind"},
            # Declared for rules that read it; the API server itself checks names, up to 253 characters.
            "metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 253}}},
            "spec": spec,
            # The operator alone writes the whole status. Otherwise managedFields would name each of its fields: a
            # status write would cost the API server a fifth more, and a big job's status would not fit into etcd.
            "status": {**status, "x-kubernetes-map-type": "atomic"},
        },
        # Only rules at the root can read metadata.name, of which pod names are made.
        "x-kubernetes-validations": [dict(rule) for rule in job_kind.root_rules],
    }
