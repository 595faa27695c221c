"""The batch sizes with which the training of an elastic role converges: a field of a role of an AITrainingJob, an
annotation of a job of any other kind. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ConfigDict, Field, ValidationError

from tjworker.api.kinds.base import CamelModel, field_errors
from tjworker.api.kinds.runpolicy import MAX_INT32
from tjworker.api.model import BatchSize, FieldError

ANNOTATION_BATCH_SIZE = "elasticdeeplearning.ai/batch-size"
"""Annotation with the `BatchSizeSpec`, as JSON, of the role that the autoscaler scales."""
PATH = f"metadata.annotations.{ANNOTATION_BATCH_SIZE}"
_RULES: list[Any] = [
    {
        "rule": f"self.{low} <= self.{high}",
        "fieldPath": f".{low}",
        "message": f"{low} must be at most {high}",
        "messageExpression": f"'{low} is %d, it must be at most {high} (%d)'.format([self.{low}, self.{high}])",
    }
    for low, high in (("initial", "max"), ("perReplicaMin", "perReplicaMax"))
]


class BatchSizeSpec(CamelModel):
    """Samples in one step of the training. The policy `goodput` needs it."""

    model_config = ConfigDict(json_schema_extra={"x-kubernetes-validations": _RULES})

    initial: int = Field(
        ge=1, le=MAX_INT32, description="samples per step of all replicas for which the learning rate was chosen"
    )
    max: int = Field(ge=1, le=MAX_INT32, description="most samples per step with which the training converges")
    per_replica_min: int = Field(1, ge=1, le=MAX_INT32, description="fewest samples per step of one replica")
    per_replica_max: int = Field(ge=1, le=MAX_INT32, description="most samples per step of one replica")

    def value(self) -> BatchSize:
        return BatchSize(self.initial, self.max, self.per_replica_min, self.per_replica_max)


def order_errors(batch: BatchSizeSpec | None, path: str) -> Iterator[FieldError]:
    """The errors by the CEL rules of the CRD, in the same words."""
    if batch is None:
        return
    if batch.initial > batch.max:
        yield FieldError(f"{path}.initial", f"{batch.initial}: must be at most max ({batch.max})")
    if batch.per_replica_min > batch.per_replica_max:
        yield FieldError(
            f"{path}.perReplicaMin", f"{batch.per_replica_min}: must be at most perReplicaMax ({batch.per_replica_max})"
        )


def annotated_batch_size(annotations: Mapping[str, str]) -> tuple[BatchSize | None, tuple[FieldError, ...]]:
    """The batch size in the annotation, and its errors."""
    text = annotations.get(ANNOTATION_BATCH_SIZE)
    if text is None:
        return None, ()
    example = '{"initial": 128, "max": 4096, "perReplicaMax": 256}'
    try:
        raw = json.loads(text)
    # An annotation of thousands of brackets must not end the pass of its job.
    except (ValueError, RecursionError):
        raw = None
    if not isinstance(raw, dict):
        return None, (FieldError(PATH, f"{text[:80]!r}: must be a JSON object such as {example}"),)
    # The API server prunes nothing inside an annotation, and the model ignores unknown fields. Without this check a
    # misspelt `perReplicaMin` would silently be 1.
    if unknown := sorted(set(raw) - {"initial", "max", "perReplicaMin", "perReplicaMax"}):
        return None, (FieldError(f"{PATH}.{unknown[0][:80]}", f"is no field of a batch size such as {example}"),)
    try:
        batch = BatchSizeSpec.model_validate(raw)
    except ValidationError as error:
        return None, field_errors(error, PATH)
    # CEL cannot parse the JSON of an annotation, so the parser alone can refuse the order of its numbers.
    wrong = tuple(order_errors(batch, PATH))
    return (None if wrong else batch.value()), wrong
