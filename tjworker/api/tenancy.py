"""The annotation `kubedl.io/tenancy`: whose job it is, in KubeDL's JSON. KubeDL records tenant and user beside the job;
here `tj describe` tells them, and the annotation stands on the pods, for who counts cost by it. It gives nobody a
right. Pure; never raises.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import orjson

from tjworker.api.labels import ANNOTATION_TENANCY
from tjworker.api.model import Ignored
from tjworker.base import printable

_FIELDS = {"tenant": "tenant", "user": "user", "idc": "data center", "region": "region"}
"""Field -> as people call it."""


def tenancy(annotations: Mapping[str, str]) -> str:
    """For people, on one line; empty where nothing is said, or nothing that can be read."""
    said = _said(annotations)
    told = ((called, said.get(name)) for name, called in _FIELDS.items())
    return ", ".join(f"{called} {printable(value)}" for called, value in told if isinstance(value, str) and value)


def ignored_tenancy(annotations: Mapping[str, str]) -> Iterator[Ignored]:
    """The annotation, where it or a part of it says nothing."""
    if ANNOTATION_TENANCY not in annotations:
        return
    if not tenancy(annotations):
        yield Ignored(ANNOTATION_TENANCY, 'names nobody: write {"tenant": "...", "user": "..."}', "annotation")
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
