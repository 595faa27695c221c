"""The result of a conversion: the new job, and the fields that did not carry over. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tjworker.api.model import FieldError

Step = str | int
Path = tuple[Step, ...]
Origins = Mapping[Path, Path]
"""Field of the converted job -> the field of the manifest that it comes from. What is below one is below the other."""
MOST_OF_A_VALUE = 60


@dataclass(frozen=True, slots=True)
class Left:
    """A field that does not carry over."""

    path: str
    """The field, as the user wrote it."""
    value: Any
    why: str
    instead: str
    """What the user can do, as a sentence without its full stop."""

    def __str__(self) -> str:
        return f"{self.path}: {shown(self.value)}: {self.why}; {self.instead}"


@dataclass(frozen=True, slots=True)
class Converted:
    manifest: dict[str, Any]
    left: tuple[Left, ...]
    notes: tuple[str, ...]
    """What carries over but looks different in the cluster, a sentence each."""
    origins: Origins


@dataclass(frozen=True, slots=True)
class RefusedManifest:
    """The manifest is invalid: its own operator would refuse it, too."""

    errors: tuple[FieldError, ...]


def shown(value: Any) -> str:
    # YAML has dates and binary values, which JSON lacks.
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= MOST_OF_A_VALUE else f"{text[: MOST_OF_A_VALUE - 3]}..."


def printed(path: Path) -> str:
    """A path as kubectl prints it: `spec.tasks[0].name`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")


def value_at(raw: Any, path: Path) -> Any:
    """The value at a path that the manifest has."""
    for step in path:
        raw = raw[step]
    return raw


def at(raw: Any, path: str) -> Any:
    """The value at a path as kubectl prints it; None if there is none. No step of the path may contain a dot."""
    # `[0]` becomes a step of its own.
    for step in path.replace("[", ".[").split("."):
        if step.startswith("["):
            place = int(step[1:-1])
            raw = raw[place] if isinstance(raw, list) and place < len(raw) else None
        else:
            raw = raw.get(step) if isinstance(raw, Mapping) else None
    return raw
