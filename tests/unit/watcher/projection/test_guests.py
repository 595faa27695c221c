"""Jobs of other operators' kinds in the projection: only our own status of them is kept, and of what carries their
owner reference only what we have made."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from tjworker.api.kinds import GUEST_KINDS, parse
from tjworker.api.kinds.base import MEMORY, JobKind
from tjworker.api.labels import JOB_UID
from tjworker.api.resources import PODS
from watcher.projection import project

Json = dict[str, Any]
OWN = {"phase": "Succeed", "completionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1, "restarts": 2}
ALL_KINDS = pytest.mark.parametrize("kind", GUEST_KINDS, ids=lambda kind: kind.resource)


def job(kind: JobKind, status: Json, **run: Any) -> Json:
    meta = {"name": "a", "namespace": "team", "uid": "u", "resourceVersion": "7", "generation": 1}
    made = kind.with_run_policy(run)
    made["spec"][kind.roles_field] = {}
    return {"apiVersion": kind.api_versions[0], "kind": kind.kind, "metadata": meta, "status": status, **made}


def pod(kind: JobKind, **labels: str) -> Json:
    reference = {"apiVersion": kind.api_versions[0], "kind": kind.kind, "name": "a", "uid": "u", "controller": True}
    meta = {"name": "a-worker-0", "namespace": "team", "uid": "p", "resourceVersion": "8", "labels": labels}
    return {"metadata": {**meta, "ownerReferences": [reference]}, "spec": {"containers": []}, "status": {}}


@ALL_KINDS
def test_pods_of_its_own_operator_are_strangers(kind: JobKind) -> None:
    assert project(PODS, pod(kind, **{"training.kubeflow.org/job-name": "a"})) is None
    ours = project(PODS, pod(kind, **{JOB_UID: "u"}))
    assert ours is not None
    assert ours.change.key == f"{kind.resource}/team/a"


@ALL_KINDS
def test_of_its_status_only_our_own_is_kept(kind: JobKind) -> None:
    theirs = {"conditions": [{"type": "Running", "status": "True"}], MEMORY: {**OWN, "phase": "Running"}}
    kept = project(kind.resource, job(kind, theirs))
    assert kept is not None
    record = orjson.loads(kept.change.record or b"")
    assert record["status"] == {MEMORY: {**OWN, "phase": "Running"}}
    assert parse(kind.resource, record).status.restarts == 2


@ALL_KINDS
def test_another_controllers_job_is_none_of_ours(kind: JobKind) -> None:
    if kind.group != "kubeflow.org":
        pytest.skip("only Kubeflow's have managedBy")
    assert project(kind.resource, job(kind, {}, managedBy="kueue.x-k8s.io/multikueue")) is None
    assert project(kind.resource, job(kind, {}, managedBy="kubeflow.org/training-operator")) is not None
