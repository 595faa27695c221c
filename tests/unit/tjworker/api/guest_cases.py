"""How the tables of other operators' kinds are written: manifests, and what they become in the internal job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.support.guests import parsed
from tjworker.api.kinds import KNOWN_KINDS, parse
from tjworker.api.model import InvalidJob, TrainingJob
from tjworker.base import GroupResource

Json = dict[str, Any]


def role(replicas: int | None = 1, container: Json | None = None, **fields: Any) -> Json:
    template = {"spec": {"containers": [{"name": "main", "image": "trainer:1", **(container or {})}]}}
    return {**({} if replicas is None else {"replicas": replicas}), "template": template, **fields}


def manifest(kind: GroupResource, roles: Json, name: str = "digits", **spec: Any) -> Json:
    made = KNOWN_KINDS[kind]
    return {
        "apiVersion": made.api_versions[0],
        "kind": made.kind,
        "metadata": {"name": name, "namespace": "default", "uid": "u"},
        "spec": {made.roles_field: roles, **spec},
    }


def read(kind: GroupResource, roles: Json, **spec: Any) -> TrainingJob:
    return parsed(kind, manifest(kind, roles, **spec))


@dataclass(frozen=True)
class Case:
    kind: GroupResource
    roles: Json
    spec: Json = field(default_factory=dict)
    want: Mapping[str, Any] = field(default_factory=dict)
    """Field of the job, or `<role>.<field>`."""

    def found(self) -> Mapping[str, Any]:
        """What the job has of that."""
        job, values = read(self.kind, self.roles, **self.spec), {}
        for name in self.want:
            of, _, attribute = name.rpartition(".")
            values[name] = getattr(job.role(of) if of else job, attribute)
        return values


Refusal = tuple[GroupResource, Json, str]
"""Kind, manifest, and words of its errors."""


def refusal_of(kind: GroupResource, raw: Json) -> str:
    job = parse(kind, raw)
    assert isinstance(job, InvalidJob), "taken"
    return "; ".join(map(str, job.errors))
