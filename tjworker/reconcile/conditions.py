"""Conditions as in Kubernetes: one per type. The transition time changes only with the status. Pure."""

from __future__ import annotations

from tjworker.api.status import ConditionType, JobStatus, renewed_condition


def is_true(status: JobStatus, type_: ConditionType) -> bool:
    condition = status.condition(type_)
    return condition is not None and condition.status == "True"


def set_condition(
    status: JobStatus, type_: ConditionType, value: bool, reason: str, message: str, *, now: str, generation: int
) -> JobStatus:
    """The status with that condition; the same object if nothing changes."""
    old = status.condition(type_)
    new = renewed_condition(old, type_, value, reason, message, now=now, generation=generation)
    if old == new:
        return status
    others = tuple(c for c in status.conditions if c.type != type_)
    position = next((i for i, c in enumerate(status.conditions) if c.type == type_), len(others))
    return status.model_copy(update={"conditions": (*others[:position], new, *others[position:])})


def clear_condition(
    status: JobStatus, type_: ConditionType, reason: str, message: str, *, now: str, generation: int
) -> JobStatus:
    """The status with that condition False if it was True. A missing condition is not added."""
    if not is_true(status, type_):
        return status
    return set_condition(status, type_, False, reason, message, now=now, generation=generation)


def drop_condition(status: JobStatus, type_: ConditionType) -> JobStatus:
    """The status without that condition, which is about a moment that is over."""
    kept = tuple(c for c in status.conditions if c.type != type_)
    return status if len(kept) == len(status.conditions) else status.model_copy(update={"conditions": kept})


def see_generation(status: JobStatus, generation: int) -> JobStatus:
    """The status with this generation, also in every condition."""
    # `kubectl wait` ignores a condition whose generation is older than the object's. So a condition that an edit of the
    # spec does not change must get the new generation, too.
    if all(c.observed_generation == generation for c in status.conditions):
        return status.model_copy(update={"observed_generation": generation})
    seen = tuple(c.model_copy(update={"observed_generation": generation}) for c in status.conditions)
    return status.model_copy(update={"conditions": seen, "observed_generation": generation})
