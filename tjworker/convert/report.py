"""What a conversion has to say: the job that came out of it, and what of the manifest did not carry over. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tjworker.api.model import FieldError

Step = str | int
Path = tuple[Step, ...]
Origins = Mapping[Path, Path]
"""Place in the converted job -> place in the manifest that it came from. What lies below both lies there alike."""
MOST_OF_A_VALUE = 60


@dataclass(frozen=True, slots=True)
class Left:
    """A field that does not carry over."""

    path: str
    """As the user wrote it."""
    value: Any
    why: str
    instead: str
    """What to do, as a sentence without its full stop."""

    def __str__(self) -> str:
        return f"{self.path}: {shown(self.value)}: {self.why}; {self.instead}"


@dataclass(frozen=True, slots=True)
class Converted:
    manifest: dict[str, Any]
    left: tuple[Left, ...]
    notes: tuple[str, ...]
    """What is carried over and shows in another way than before."""
    origins: Origins


@dataclass(frozen=True, slots=True)
class RefusedManifest:
    """The manifest is none that its own operator would take."""

    errors: tuple[FieldError, ...]


def shown(value: Any) -> str:
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= MOST_OF_A_VALUE else f"{text[: MOST_OF_A_VALUE - 3]}..."


def printed(path: Path) -> str:
    """As kubectl prints a field."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")


def at(raw: Any, path: str) -> Any:
    """The value of a field as kubectl prints its path; None where there is none. Keys with dots are not asked for."""
    for step in path.replace("[", ".[").split("."):
        if step.startswith("["):
            place = int(step[1:-1])
            raw = raw[place] if isinstance(raw, list) and place < len(raw) else None
        else:
            raw = raw.get(step) if isinstance(raw, Mapping) else None
    return raw
