"""The options of one write, from its query (and, for deletes, its body). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, cast

from localcluster import jsontext
from localcluster.apiserver.errors import StatusError, bad_request, show
from localcluster.apiserver.typed import WrongType, decode
from localcluster.wire import Json, Request

FieldValidation = Literal["Strict", "Warn", "Ignore"]


@dataclass(slots=True)
class WriteOptions:
    dry_run: bool = False
    manager: str = "unknown"
    manager_given: bool = True
    field_validation: FieldValidation = "Warn"
    force: bool = False
    warnings: list[str] = field(default_factory=list)
    """Become Warning headers."""


_KINDS = {"PUT": "UpdateOptions", "PATCH": "PatchOptions"}
_LONGEST_MANAGER = 128


def write_options(request: Request) -> WriteOptions:
    query = request.query
    kind = _KINDS.get(request.method, "CreateOptions")
    dry_run = query.get("dryRun", "")
    if dry_run not in ("", "All"):
        raise _invalid("dryRun", f'Unsupported value: ["{dry_run}"]: supported values: "All"', kind)
    if len(query.get("fieldManager", "").encode()) > _LONGEST_MANAGER:
        raise _invalid(
            "fieldManager", f"Too long: may not be more than {_LONGEST_MANAGER} bytes", kind, "FieldValueTooLong"
        )
    if (
        query.get("force")
        and request.method == "PATCH"
        and "apply-patch" not in request.headers.get("content-type", "")
    ):
        raise _invalid("force", "Forbidden: may not be specified for non-apply patch", kind, "FieldValueForbidden")
    validation = query.get("fieldValidation") or "Warn"
    if validation not in ("Strict", "Warn", "Ignore"):
        raise _invalid(
            "fieldValidation",
            f'Unsupported value: "{validation}": supported values: "", "Ignore", "Strict", "Warn"',
            kind,
        )
    manager = (
        query.get("fieldManager")
        or request.headers.get("user-agent", "unknown").split("/")[0].split(" ")[0]
        or "unknown"
    )
    return WriteOptions(
        bool(dry_run),
        manager[:_LONGEST_MANAGER],
        bool(query.get("fieldManager")),
        cast("FieldValidation", validation),
        query.get("force") in ("true", "1"),
    )


def _invalid(field_name: str, why: str, kind: str, reason: str = "FieldValueNotSupported") -> StatusError:
    return StatusError(
        422,
        "Invalid",
        f'{kind}.meta.k8s.io "" is invalid: {field_name}: {why}',
        {"group": "meta.k8s.io", "kind": kind, "causes": [{"reason": reason, "message": why, "field": field_name}]},
    )


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    grace_seconds: int | None = None
    propagation: str = ""
    uid: str | None = None
    resource_version: str | None = None
    dry_run: bool = False


def delete_options(request: Request, body: Json) -> DeleteOptions:
    query: Mapping[str, str] = {} if body else request.query
    try:
        decode("v1", "DeleteOptions", jsontext.copied(body))
    except WrongType as wrong:
        raise bad_request(str(wrong)) from None
    grace = body.get(
        "gracePeriodSeconds", parse_number(query["gracePeriodSeconds"]) if query.get("gracePeriodSeconds") else None
    )
    dry_run = body.get("dryRun") or ([query["dryRun"]] if query.get("dryRun") else [])
    if any(value != "All" for value in dry_run):
        raise _invalid("dryRun", f'Unsupported value: {show(dry_run)}: supported values: "All"', "DeleteOptions")
    propagation = body.get("propagationPolicy") or query.get("propagationPolicy") or ""
    if propagation not in ("", "Background", "Foreground", "Orphan"):
        raise _invalid(
            "propagationPolicy",
            f'Unsupported value: "{propagation}": supported values: "Foreground", "Background", "Orphan", "nil"',
            "DeleteOptions",
        )
    if propagation and body.get("orphanDependents") is not None:
        raise _invalid(
            "propagationPolicy",
            f'Invalid value: "{propagation}": orphanDependents and deletionPropagation cannot be both set',
            "DeleteOptions",
            "FieldValueInvalid",
        )
    if not propagation and body.get("orphanDependents") is not None:
        propagation = "Orphan" if body["orphanDependents"] else "Background"
    conditions = body.get("preconditions") or {}
    return DeleteOptions(
        max(1, grace) if grace is not None and grace < 0 else grace,
        propagation,
        conditions.get("uid"),
        conditions.get("resourceVersion"),
        bool(dry_run),
    )


def parse_number(text: str) -> int:
    """A number of the query, in Go's words when it is none."""
    try:
        return int(text)
    except ValueError:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None
