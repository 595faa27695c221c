"""Rows of configuration and role bindings. Pure."""

from __future__ import annotations

from typing import Any

from localcluster.apiserver.tables.base import Printer, Row, age_of, make_columns
from localcluster.wire import Json


def _configmap_row(obj: Json, now: float) -> tuple[Row, Any]:
    return [
        obj["metadata"]["name"],
        len(obj.get("data") or {}) + len(obj.get("binaryData") or {}),
        age_of(obj, now),
    ], None


def _secret_row(obj: Json, now: float) -> tuple[Row, Any]:
    return [obj["metadata"]["name"], obj.get("type", ""), len(obj.get("data") or {}), age_of(obj, now)], None


def _role_binding(obj: Json, now: float) -> tuple[Row, Any]:
    def names(kind: str, prefix: str = "") -> str:
        found = [s for s in obj.get("subjects") or () if s.get("kind") == kind]
        return ", ".join(prefix.format(**s) + s.get("name", "") for s in found)

    role = obj.get("roleRef", {})
    role_name = f"{role.get('kind', '')}/{role.get('name', '')}"
    subjects = [names("User"), names("Group"), names("ServiceAccount", "{namespace}/")]
    return [obj["metadata"]["name"], role_name, age_of(obj, now), *subjects], None


CONFIGMAP = Printer(make_columns("Name:name", "Data", "Age"), _configmap_row)
SECRET = Printer(make_columns("Name:name", "Type", "Data", "Age"), _secret_row)
ROLE_BINDING = Printer(make_columns("Name:name", "Role", "Age", "Users+", "Groups+", "ServiceAccounts+"), _role_binding)
