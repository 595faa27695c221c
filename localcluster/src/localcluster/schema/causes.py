"""One violation as `details.causes` of a 422 Status shows it, and the texts that kube-apiserver builds it from.

Mirrors k8s.io/apimachinery/pkg/util/validation/field/errors.go (v0.36) with Go's way of printing values. Pure; knows no
schema and no object.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from localcluster.schema.gotext import go_json, go_quote, go_value

NO_PATH: Final = "<nil>"
"""What Go prints for a field path that is nil: errors that belong to the whole object carry it as their field."""

RULES_NOT_CHECKED: Final = (
    "some validation rules were not checked because the object was invalid; correct the existing errors to complete"
    " validation"
)


@dataclass(frozen=True, slots=True)
class FieldCause:
    """`reason` as the API has it (FieldValueInvalid, ...), `message` without the field, `field` a path such as
    `spec.roles[0].name`."""

    reason: str
    message: str
    field: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


class Omitted:
    """A value that is left out of the message (field.OmitValueType)."""


OMITTED: Final = Omitted()


def _with(kind: str, detail: str) -> str:
    return f"{kind}: {detail}" if detail else kind


def _valued(kind: str, value: Any, detail: str) -> str:
    return _with(kind if isinstance(value, Omitted) else f"{kind}: {go_value(value)}", detail)


def invalid(field: str, value: Any, detail: str) -> FieldCause:
    return FieldCause("FieldValueInvalid", _valued("Invalid value", value, detail), field)


def type_invalid(field: str, value: Any, detail: str) -> FieldCause:
    return FieldCause("FieldValueTypeInvalid", _valued("Invalid value", value, detail), field)


def required(field: str, detail: str = "") -> FieldCause:
    return FieldCause("FieldValueRequired", _with("Required value", detail), field)


def forbidden(field: str, detail: str) -> FieldCause:
    return FieldCause("FieldValueForbidden", _with("Forbidden", detail), field)


def duplicate(field: str, value: Any) -> FieldCause:
    return FieldCause("FieldValueDuplicate", _valued("Duplicate value", value, ""), field)


def not_supported(field: str, value: Any, supported: Sequence[Any]) -> FieldCause:
    names = ", ".join(go_quote(v if isinstance(v, str) else go_json(v)) for v in supported)
    return FieldCause(
        "FieldValueNotSupported",
        _valued("Unsupported value", value, f"supported values: {names}" if supported else ""),
        field,
    )


def too_long(field: str, max_length: int) -> FieldCause:
    unit = "byte" if max_length == 1 else "bytes"
    detail = f"may not be more than {max_length} {unit}" if max_length >= 0 else "value is too long"
    return FieldCause("FieldValueTooLong", f"Too long: {detail}", field)


def too_many(field: str, actual: int, maximum: int) -> FieldCause:
    unit = "item" if maximum == 1 else "items"
    return FieldCause("FieldValueTooMany", f"Too many: {actual}: must have at most {maximum} {unit}", field)


BLOCKING: Final = frozenset(
    {"FieldValueNotSupported", "FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany", "FieldValueTypeInvalid"}
)
"""Reasons after which CEL rules are not run (hasBlockingErr of the custom resource strategy)."""


def rules_not_checked() -> FieldCause:
    return invalid(NO_PATH, None, RULES_NOT_CHECKED)


def aggregate(causes: Iterable[FieldCause]) -> str:
    """The tail of a Status message: one cause as it is, several as `[a, b]`, repeated ones once."""
    texts = list(dict.fromkeys(str(cause) for cause in causes))
    return texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
