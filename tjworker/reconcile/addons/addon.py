"""The type of an addon, and the reader of its annotation. Pure.

The passes call every addon of `ADDONS` at the same points, and name none of them.

An annotation may hold a password by mistake, so no message repeats its value.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

import orjson
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from tjworker.api.kinds.base import MAX_ERRORS, field_path
from tjworker.api.model import FieldError, InvalidJob, TrainingJob
from tjworker.api.observed import Observed
from tjworker.api.status import ConditionType, JobStatus
from tjworker.api.wording import rule_words
from tjworker.reconcile.one_pass import Pass
from tjworker.reconcile.plan import Event, Plan, Write
from tjworker.reconcile.rules import Rules


class Config(BaseModel):
    """The JSON of an annotation, with KubeDL's names. Unknown keys are refused, because they would have no effect."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", alias_generator=to_camel)


DEEPER_IN_A_POD = 16
"""Levels of JSON above the annotation's values in an object with a pod template."""
AnyConfig = TypeVar("AnyConfig", bound=Config)
Read = tuple[AnyConfig | None, tuple[FieldError, ...]]


@dataclass(frozen=True, slots=True)
class Addon:
    """An addon that only changes pods needs the first four fields. The others are the points of a job's life at which
    one with ports or objects of its own acts."""

    annotation: str
    errors: Callable[[TrainingJob, Rules], Iterable[FieldError]]
    """The errors in the annotation of a job that has it."""
    apply: Callable[[TrainingJob, Rules], TrainingJob] = lambda job, _: job
    """Returns the job with the annotation's additions to its pods."""
    keep: Callable[[TrainingJob, Rules], TrainingJob] = lambda job, _: job
    """Returns a job that has begun as it goes on if its annotation has errors."""
    prepare: Callable[[Pass], Pass] = lambda p: p
    """Returns the pass with what the status must have before a pod is created."""
    shape: Callable[[Pass], Iterable[Write]] = lambda _: ()
    """The writes for the addon's own objects while the job lives. They follow those of the job."""
    report: Callable[[Pass, JobStatus], tuple[JobStatus, tuple[Event, ...]]] = lambda _, status: (status, ())
    """(pass, status) -> (status with the addon's condition, events about it)."""
    report_refusal: Callable[[TrainingJob, float, str], Plan] = lambda _job, _now, _message: Plan()
    """(job, now, message) -> the plan after the API server refused one of the addon's objects."""
    next_seconds: Callable[[Pass], float | None] = lambda _: None
    """Seconds until the addon has more to write although nothing changes; None if it waits for an event."""
    conditions: tuple[ConditionType, ...] = ()
    """The addon's conditions, which become False when the job is suspended."""
    remove: Callable[[TrainingJob | InvalidJob, Observed, str], Iterable[Write]] = lambda _job, _observed, _why: ()
    """(job, observed, why) -> the deletes of the addon's objects."""
    at_the_end: Callable[[Pass, JobStatus], tuple[JobStatus, float | None]] = lambda _, status: (status, None)
    """(pass, status) -> (status of the ended job, seconds until its objects go; None if it has none)."""
    after_the_end: Callable[[TrainingJob | InvalidJob, Observed, float], Plan | None] = lambda _job, _observed, _now: (
        None
    )
    """(ended job, observed, now) -> the plan for what the addon has left; None if that is nothing."""


def path_of(annotation: str) -> str:
    return f"metadata.annotations[{annotation}]"


def read_config(job: TrainingJob, annotation: str, model: type[AnyConfig]) -> Read[AnyConfig]:
    """(configuration of the annotation or None, errors)."""
    path = path_of(annotation)
    raw, problem = _read_object(job.annotations[annotation])
    if problem:
        return None, (FieldError(path, f"{problem}, such as {_example(model)}"),)
    if problem := _unwritable(raw):
        return None, (FieldError(path, f"has what a pod's JSON cannot carry: {problem}; take it out"),)
    try:
        return model.model_validate(raw), ()
    except ValidationError as error:
        problems = error.errors(include_url=False, include_input=False)[:MAX_ERRORS]
        return None, tuple(_error(path, p, model) for p in problems)


def _read_object(text: str) -> tuple[object, str]:
    """(the object, '') or (None, what is wrong with the text)."""
    try:
        raw = json.loads(text)
    except json.JSONDecodeError as error:
        return None, f"is not JSON: {error.msg} at line {error.lineno}, column {error.colno}; write an object"
    except ValueError:
        return None, "has a number that is too long; write an object"
    except RecursionError:
        return None, "is nested too deep; write an object"
    return (raw, "") if isinstance(raw, dict) else (None, "must be a JSON object")


def _unwritable(raw: object) -> str:
    """Why the object cannot be written into a pod; '' if it can."""
    # The reader of Python accepts JSON that the writer refuses, such as deeper nesting.
    for _ in range(DEEPER_IN_A_POD):
        raw = [raw]
    try:
        orjson.dumps(raw)
    except TypeError as error:
        return str(error)
    return ""


def _error(path: str, problem: ErrorDetails, model: type[Config]) -> FieldError:
    """The error without the value, which may be a secret."""
    if problem["type"] == "extra_forbidden":
        known = ", ".join(sorted(field.alias or name for name, field in model.model_fields.items()))
        unknown = str(problem["loc"][-1])[:80]
        return FieldError(path, f"has the unknown key {unknown!r}; take it out. Known are {known}")
    return FieldError(field_path(path, problem["loc"]), rule_words(problem))


def _example(model: type[Config]) -> str:
    first = next(field.alias or name for name, field in model.model_fields.items())
    return f'{{"{first}": "..."}}'
