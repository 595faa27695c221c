"""The annotation `kubedl.io/tenancy`: whose job it is, in KubeDL's JSON. KubeDL records tenant and user beside the job;
here `tj describe` tells them, and the annotation stands on the pods, for who counts cost by it. It gives nobody a
right. Pure; never raises.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, ValidationError

from tjworker.api.labels import ANNOTATION_TENANCY


class Tenancy(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")

    tenant: str = ""
    user: str = ""
    idc: str = ""
    region: str = ""

    def __str__(self) -> str:
        told = {"tenant": self.tenant, "user": self.user, "data center": self.idc, "region": self.region}
        return ", ".join(f"{name} {value}" for name, value in told.items() if value)


def tenancy(annotations: Mapping[str, str]) -> Tenancy:
    """Empty where nothing is said, or nothing that can be read."""
    try:
        return Tenancy.model_validate_json(annotations.get(ANNOTATION_TENANCY, "{}"))
    except ValidationError:
        return Tenancy()


def tenancy_trouble(annotations: Mapping[str, str]) -> str:
    """Why the annotation says nothing, for people."""
    if ANNOTATION_TENANCY not in annotations or str(tenancy(annotations)):
        return ""
    return f'annotation {ANNOTATION_TENANCY} (names nobody: write {{"tenant": "...", "user": "..."}})'
