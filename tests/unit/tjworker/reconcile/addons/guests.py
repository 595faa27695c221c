"""A small job of any kind of another operator's."""

from __future__ import annotations

from collections.abc import Mapping

from tests.support.guests import guest_job, parsed
from tjworker.api.model import TrainingJob
from tjworker.base import GroupResource


def guest(resource: GroupResource, annotations: Mapping[str, str]) -> TrainingJob:
    raw = guest_job(resource)
    raw["metadata"] |= {"namespace": "default", "uid": "u", "annotations": dict(annotations)}
    return parsed(resource, raw)
