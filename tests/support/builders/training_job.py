"""A TrainingJob of paddlepaddle.org: the builder of the other kind, with this one's roles."""

from __future__ import annotations

import copy
from typing import Any

from tests.support.builders.job import JobBuilder, make_job
from tjworker.api.kinds.trainingjob import RESOURCE as TRAININGJOBS

IMAGE = "trainer:1"


def make_training_job(
    name: str = "digits",
    *,
    least: Any = 2,
    most: int | None = None,
    pservers: int = 2,
    trainer: dict[str, Any] | None = None,
    pserver: dict[str, Any] | None = None,
    **spec: Any,
) -> JobBuilder:
    """`least`, `most`: min-instance and max-instance of the trainers. Fields of the spec by their names in the
    manifest."""
    bounds = {"min-instance": least, **({} if most is None else {"max-instance": most})}
    roles = {"trainer": bounds | (trainer or {}), "pserver": {"min-instance": pservers} | (pserver or {})}
    made = make_job(name, resource=TRAININGJOBS)
    made.raw["spec"] = {"image": IMAGE, **roles, **copy.deepcopy(spec)}
    return made
