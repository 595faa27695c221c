"""A part of a manifest that has no effect. The condition Created and `tj convert` name it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Ignored:
    """A part of a job's manifest that is set and has no effect."""

    path: str
    """The field's path as kubectl prints it, or the key of a label or an annotation."""
    because: str = ""
    """The reason, in the words of messages; '' if there is none but that nothing acts on the part."""
    part: Literal["field", "label", "annotation"] = "field"

    def __str__(self) -> str:
        named = self.path if self.part == "field" else f"{self.part} {self.path}"
        return f"{named} ({self.because})" if self.because else named
