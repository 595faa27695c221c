"""A small job of any kind of another operator's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tjworker.api.kinds import KNOWN_KINDS, parse
from tjworker.api.model import TrainingJob
from tjworker.base import GroupResource

_ROLES = (("Worker",), ("Master",), ("Master", "Worker"), ("Launcher", "Worker"))


def guest(resource: GroupResource, annotations: Mapping[str, str]) -> TrainingJob:
    """With as few roles as the kind takes."""
    kind = KNOWN_KINDS[resource]
    template = {"spec": {"containers": [{"name": "main", "image": "trainer:1"}]}}
    for names in _ROLES:
        raw: dict[str, Any] = {
            "apiVersion": kind.api_versions[0],
            "kind": kind.kind,
            "metadata": {"name": "digits", "namespace": "default", "uid": "u", "annotations": dict(annotations)},
            "spec": {kind.scale_spec_path.split(".")[2]: {name: {"template": template} for name in names}},
        }
        job = parse(resource, raw)
        if isinstance(job, TrainingJob):
            return job
    raise AssertionError(f"{kind.kind} takes none of these roles: {_ROLES}")
