"""The job kinds of other operators as tests need them: one row a kind. A test that goes through all of them goes
through `GUESTS`; `tests/unit/tjworker/api/test_kinds.py` says which kind has no row.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tjworker.api.kinds import GUEST_KINDS, parse
from tjworker.api.model import TrainingJob
from tjworker.base import GroupResource

Json = dict[str, Any]
KIND_OF = {kind.resource: kind for kind in GUEST_KINDS if not kind.companions}
"""Kinds whose manifests have a map of roles. A TrainJob has none: `tests/support/trainer.py`."""
GUESTS: Mapping[GroupResource, Mapping[str, int]] = {
    GroupResource(name): roles
    for name, roles in {
        "jaxjobs.kubeflow.org": {"Worker": 2},
        "mpijobs.kubeflow.org": {"Launcher": 1, "Worker": 2},
        "paddlejobs.kubeflow.org": {"Worker": 2},
        "pytorchjobs.kubeflow.org": {"Master": 1, "Worker": 2},
        "tfjobs.kubeflow.org": {"PS": 1, "Worker": 2},
        "xgboostjobs.kubeflow.org": {"Master": 1, "Worker": 2},
        "elasticdljobs.training.kubedl.io": {"Master": 1},
        "marsjobs.training.kubedl.io": {"Scheduler": 1, "Worker": 2},
        "mpijobs.training.kubedl.io": {"Launcher": 1, "Worker": 2},
        "pytorchjobs.training.kubedl.io": {"Master": 1, "Worker": 2},
        "tfjobs.training.kubedl.io": {"PS": 1, "Worker": 2},
        "xdljobs.training.kubedl.io": {"PS": 1, "Worker": 2},
        "xgboostjobs.training.kubedl.io": {"Master": 1, "Worker": 2},
    }.items()
}
"""Roles of a job that runs until it is deleted, and their replicas."""


def guest_job(resource: GroupResource, *, restart: str = "OnFailure", **run_policy: Any) -> Json:
    kind = KIND_OF[resource]
    made = kind.with_run_policy(run_policy)
    spec = made["spec"]
    spec[kind.roles_field] = {
        name: {
            "replicas": replicas,
            "restartPolicy": restart,
            "template": {"spec": {"containers": [{"name": "main", "image": "trainer:1"}]}},
        }
        for name, replicas in GUESTS[resource].items()
    }
    return {"apiVersion": kind.api_versions[0], "kind": kind.kind, "metadata": {"name": "digits"}, "spec": spec}


_CONTAINER: Json = {
    "name": "main",
    "image": "trainer:1",
    "command": ["train"],
    "env": [{"name": "LR", "value": "0.1"}],
    "ports": [{"name": "port", "containerPort": 7164}],
}
_ELASTIC: Json = {
    "minReplicas": 1,
    "maxReplicas": 4,
    "rdzvConf": [{"key": "timeout", "value": "60"}],
    "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization"}}}],
}


def whole_guest(resource: GroupResource) -> Json:
    """A manifest of everything a little: every map and list of the schema has an entry."""
    made = guest_job(resource)
    template = {
        "metadata": {"labels": {"team": "vision"}, "annotations": {"note": "a"}},
        "spec": {"containers": [_CONTAINER], "initContainers": [{**_CONTAINER, "name": "fetch"}]},
    }
    for role in made["spec"][KIND_OF[resource].roles_field].values():
        role["template"] = template
    if resource == GroupResource("pytorchjobs.kubeflow.org"):
        made["spec"]["elasticPolicy"] = _ELASTIC
    whole: Json = json.loads(json.dumps(made))  # no part of it is there twice
    return whole


def parsed(resource: GroupResource, raw: Json) -> TrainingJob:
    job = parse(resource, raw)
    assert isinstance(job, TrainingJob), getattr(job, "errors", "")
    return job


def suspended(resource: GroupResource, value: bool) -> Json:
    """The merge patch."""
    patch: Any = value
    for field in reversed(KIND_OF[resource].suspend_path):
        patch = {field: patch}
    made: Json = patch
    return made
