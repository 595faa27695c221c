"""A resource quantity as a field of a kind. Pure."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, WithJsonSchema

# `ParseQuantity` of apimachinery without the minus: no resource of a pod may be negative.
QUANTITY = r"^\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?[0-9]{1,3}))?$"
is_quantity = re.compile(QUANTITY, re.ASCII).fullmatch


def is_amount(value: object) -> bool:
    """True for a value of the schema's `x-kubernetes-int-or-string`: 1, "500m", "1Gi". A fraction is a text."""
    if isinstance(value, str):
        return is_quantity(value) is not None
    # The API server reads larger numbers as fractions.
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _quantity(value: Any) -> int | str:
    if is_amount(value):
        made: int | str = value
        return made
    raise ValueError('must be a quantity, such as 1, "500m" or "1Gi"')


Quantity = Annotated[
    Any,
    AfterValidator(_quantity),
    WithJsonSchema(
        {
            "x-kubernetes-int-or-string": True,
            "pattern": QUANTITY,
            "maxLength": 64,
            "minimum": 0,
            "description": 'a quantity, such as 1, "500m" or "1Gi"',
        }
    ),
]
