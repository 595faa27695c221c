"""The batch sizes of an elastic role, in each way that a manifest can say them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.builders import make_training_job
from tjworker.api import kinds
from tjworker.api.kinds.batchsize import ANNOTATION_BATCH_SIZE, annotated_batch_size
from tjworker.api.kinds.guests.parse import ANNOTATION_AUTOSCALE
from tjworker.api.model import BatchSize, InvalidJob, TrainingJob
from tjworker.base import GroupResource

SAID = {"initial": 128, "max": 4096, "perReplicaMin": 8, "perReplicaMax": 256}
WANT = BatchSize(128, 4096, 8, 256)
PYTORCH = GroupResource("pytorchjobs.kubeflow.org")


def parsed(resource: GroupResource, manifest: Any) -> TrainingJob:
    job = kinds.parse(resource, manifest)
    assert isinstance(job, TrainingJob), job
    return job


def test_an_edl_job_has_it_in_an_annotation_for_its_trainers() -> None:
    made = make_training_job("digits").metadata(annotations={ANNOTATION_BATCH_SIZE: json.dumps(SAID)})
    job = parsed(made.resource, made.object())
    assert {role.name: role.batch_size for role in job.roles}["trainer"] == WANT
    assert all(role.batch_size is None for role in job.roles if role.name != "trainer")


def test_a_job_of_another_operator_has_it_in_an_annotation_for_its_workers() -> None:
    container = {"name": "pytorch", "image": "x"}
    manifest = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {
            "name": "a",
            "namespace": "default",
            "uid": "u",
            "resourceVersion": "1",
            "annotations": {ANNOTATION_AUTOSCALE: "Auto", ANNOTATION_BATCH_SIZE: json.dumps(SAID)},
        },
        "spec": {
            "elasticPolicy": {"minReplicas": 1, "maxReplicas": 4},
            "pytorchReplicaSpecs": {"Worker": {"replicas": 2, "template": {"spec": {"containers": [container]}}}},
        },
    }
    (role,) = parsed(PYTORCH, manifest).roles
    assert (role.autoscaled, role.batch_size) == (True, WANT)
    manifest["metadata"]["annotations"][ANNOTATION_BATCH_SIZE] = "8"  # type: ignore[index]
    wrong = kinds.parse(PYTORCH, manifest)
    assert isinstance(wrong, InvalidJob)
    assert wrong.errors[0].path == f"metadata.annotations.{ANNOTATION_BATCH_SIZE}"


@dataclass(frozen=True)
class Annotated:
    text: str
    want: BatchSize | None = None
    path: str = ""
    says: str = ""


TEXTS: dict[str, Annotated] = {
    "one replica takes one sample where nothing else is said": Annotated(
        '{"initial": 8, "max": 64, "perReplicaMax": 8}', BatchSize(8, 64, 1, 8)
    ),
    "no JSON": Annotated("128", says="'128': must be a JSON object such as {\"initial\": 128"),
    "half of JSON": Annotated('{"initial": ', says="must be a JSON object such as"),
    "a list": Annotated("[1]", says="must be a JSON object such as"),
    "deeper than any parser goes": Annotated("[" * 100_000, says="must be a JSON object such as"),
    "a misspelt field": Annotated(
        '{"initial": 8, "max": 64, "perReplicaMax": 8, "most": 9}', path=".most", says="is no field of a batch size"
    ),
    "a field that is missing": Annotated('{"initial": 8, "max": 64}', path=".perReplicaMax", says="required value"),
    "a number as text": Annotated('{"initial": "8", "max": 64, "perReplicaMax": 8}', path=".initial", says="'8'"),
    "none at all": Annotated('{"initial": 0, "max": 64, "perReplicaMax": 8}', path=".initial", says="0"),
    "the initial beyond the largest": Annotated(
        '{"initial": 65, "max": 64, "perReplicaMax": 8}', path=".initial", says="65: must be at most max (64)"
    ),
    "a replica's least beyond its most": Annotated(
        '{"initial": 8, "max": 64, "perReplicaMin": 9, "perReplicaMax": 8}',
        path=".perReplicaMin",
        says="9: must be at most perReplicaMax (8)",
    ),
}


@pytest.mark.parametrize("case", TEXTS.values(), ids=TEXTS.keys())
def test_an_annotation_is_read_or_says_its_field_and_its_rule(case: Annotated) -> None:
    batch, errors = annotated_batch_size({ANNOTATION_BATCH_SIZE: case.text})
    assert batch == case.want
    if case.want is None:
        assert errors[0].path == f"metadata.annotations.{ANNOTATION_BATCH_SIZE}{case.path}"
        assert case.says in f"{errors[0]}"
