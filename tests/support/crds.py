"""The CRD of each kind, built once a process, because pydantic takes 40 to 80 ms for one schema."""

from __future__ import annotations

from functools import cache
from typing import Any

import orjson

from tjworker.api import crd
from tjworker.api.kinds import KNOWN_KINDS
from tjworker.base import GroupResource


def crd_of(resource: GroupResource) -> dict[str, Any]:
    """A new copy for each caller, who may change it."""
    definition: dict[str, Any] = orjson.loads(_built(resource))
    return definition


@cache
def _built(resource: GroupResource) -> bytes:
    return orjson.dumps(crd.build(KNOWN_KINDS[resource]))
