"""One line of a table of refusals. Data only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class Refusal:
    apply: Json
    after: Json | None = None
    """What has been applied before."""
    want_path: str | None = None
    """Where the parser sees it, which reads JSON without the API server in front; None: it has nothing to object."""
