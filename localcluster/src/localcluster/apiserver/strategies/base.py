"""What differs between kinds when one is written: defaults, validation, which part a write may change. A literal table
of these is in `strategies/__init__.py`. Every hook is pure; `prepare` hooks change the new object in place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from localcluster.apiserver.errors import Causes
from localcluster.wire import Json


def _keep(_obj: Json) -> None:
    return None


def _keep_both(_new: Json, _old: Json) -> None:
    return None


def _valid(_obj: Json, _causes: Causes) -> None:
    return None


def _valid_update(_new: Json, _old: Json, _causes: Causes) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Strategy:
    default: Callable[[Json], None] = _keep
    prepare_create: Callable[[Json], None] = _keep
    prepare_update: Callable[[Json, Json], None] = _keep_both
    validate: Callable[[Json, Causes], None] = _valid
    validate_update: Callable[[Json, Json, Causes], None] = _valid_update
    """Besides `validate`, which runs on updates too."""
    validate_status: Callable[[Json, Json, Causes], None] = _valid_update
    complete_create: Callable[[Json], None] = _keep
    """After validation."""
    generation: bool = False
    returns_deleted: bool = False
    """DELETE answers the object, not a Status."""
    orphans_by_default: bool = False
