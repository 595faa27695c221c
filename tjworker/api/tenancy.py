"""The annotation `kubedl.io/tenancy`: the tenant and the user of a job, in KubeDL's JSON. Pure; never raises.

KubeDL records both with the job. Here `tj describe` shows them, and pods get the annotation, for programs that count
costs by it. It grants no rights.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import orjson

from tjworker.api.ignored import Ignored
from tjworker.api.labels import ANNOTATION_TENANCY
from tjworker.base import printable

_FIELDS = {"tenant": "tenant", "user": "user", "idc": "data center", "region": "region"}
"""Field -> its name in messages."""


def tenancy(annotations: Mapping[str, str]) -> str:
    """The tenancy on one line, for messages; '' if the annotation is missing or unreadable."""
    given = _said(annotations)
    named = ((called, given.get(name)) for name, called in _FIELDS.items())
    return ", ".join(f"{called} {printable(value)}" for called, value in named if isinstance(value, str) and value)


def ignored_tenancy(annotations: Mapping[str, str]) -> Iterator[Ignored]:
    """The annotation, or the part of it that cannot be read."""
    if ANNOTATION_TENANCY not in annotations:
        return
    if not tenancy(annotations):
        yield Ignored(ANNOTATION_TENANCY, 'has no tenant or user: write {"tenant": "...", "user": "..."}', "annotation")
        return
    said = _said(annotations)
    wrong = [name for name in _FIELDS if not isinstance(said.get(name), str | None)]
    if wrong:
        why = f"{' and '.join(wrong)} {'is' if len(wrong) == 1 else 'are'} no text"
        yield Ignored(ANNOTATION_TENANCY, why, "annotation")


def _said(annotations: Mapping[str, str]) -> Mapping[str, object]:
    try:
        said = orjson.loads(annotations.get(ANNOTATION_TENANCY, "{}"))
    except orjson.JSONDecodeError:
        return {}
    return said if isinstance(said, Mapping) else {}
