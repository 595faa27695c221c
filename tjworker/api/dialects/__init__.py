"""The dialects: one file a kind, one row here. Nothing behind `parse` knows which kind a job came from.

Pure. A new kind is a new file with a `DIALECT`, and its row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tjworker.api.dialects import aitrainingjob, trainingjob
from tjworker.api.dialects.base import Dialect
from tjworker.api.model import InvalidJob, TrainingJob

DIALECTS: Mapping[str, Dialect] = {aitrainingjob.PLURAL: aitrainingjob.DIALECT, trainingjob.PLURAL: trainingjob.DIALECT}
"""By plural, as it stands in a JobKey."""


def parse(plural: str, raw: Mapping[str, Any]) -> TrainingJob | InvalidJob:
    """The job behind any JSON object of the kind `plural` (a key of DIALECTS), as the autoscaler has it. Never raises for
    the object's content."""
    job = DIALECTS[plural].parse(raw)
    return job.with_targets() if isinstance(job, TrainingJob) else job
