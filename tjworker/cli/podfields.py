"""What a pod template may have, out of the kubernetes package's models: unknown fields and values of another type. The
models are generated from Kubernetes' own OpenAPI document. Imports them, which takes a moment.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from typing import Any

from kubernetes.client import models

from tjworker.api.model import FieldError
from tjworker.api.quantity import milli

_LIST = re.compile(r"[Ll]ist\[(.+)\]")
_MAP = re.compile(r"[Dd]ict[(\[]str, (.+)[)\]]")
_PLAIN: dict[str, tuple[tuple[type, ...], str]] = {
    "bool": ((bool,), "true or false"),
    "int": ((int,), "a whole number"),
    "float": ((int, float), "a number"),
    "str": ((str,), "a string"),
}
_QUANTITIES = frozenset({"limits", "requests", "capacity", "allocatedResources"})
"""Maps of quantities, which may be written as numbers."""
_EITHER = frozenset({"port", "target_port", "max_surge", "max_unavailable", "size_limit", "divisor"})
"""Numbers or strings (intstr, quantity), which the models call str or object."""


def template_errors(template: Any, path: str) -> Iterator[FieldError]:
    yield from _object(template, "V1PodTemplateSpec", path)


def _object(value: Any, model: str, path: str) -> Iterator[FieldError]:
    if value is None:
        return
    if not isinstance(value, dict):
        yield FieldError(path, f"{_shown(value)} is not an object")
        return
    known = getattr(models, model)
    names = {json: python for python, json in known.attribute_map.items()}
    for name, part in value.items():
        if name not in names:
            yield unknown_field(f"{path}.{name}", str(name), names)
        elif names[name] not in _EITHER and part is not None:
            yield from _value(part, known.openapi_types[names[name]], f"{path}.{name}")


def _value(value: Any, type_: str, path: str) -> Iterator[FieldError]:
    if items := _LIST.fullmatch(type_):
        if not isinstance(value, list):
            yield FieldError(path, f"{_shown(value)} is not a list")
            return
        for index, item in enumerate(value):
            yield from _value(item, items[1], f"{path}[{index}]")
    elif values := _MAP.fullmatch(type_):
        if not isinstance(value, dict):
            yield FieldError(path, f"{_shown(value)} is not an object")
            return
        for name, part in value.items():
            if path.rpartition(".")[2] in _QUANTITIES:
                yield from _quantity(part, f"{path}.{name}")
            else:
                yield from _value(part, values[1], f"{path}.{name}")
    elif type_ in _PLAIN:
        types, wanted = _PLAIN[type_]
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            hint = f"; write it in quotes: {str(value)!r}" if type_ == "str" and isinstance(value, int | float) else ""
            yield FieldError(path, f"{_shown(value)} is not {wanted}{hint}")
    elif hasattr(models, type_):
        yield from _object(value, type_, path)


def unknown_field(path: str, name: str, known: Any) -> FieldError:
    close = difflib.get_close_matches(name, list(known), n=1)
    return FieldError(path, f"unknown field{f'; did you mean {close[0]!r}?' if close else ''}")


def _quantity(value: Any, path: str) -> Iterator[FieldError]:
    try:
        milli(value)
    except (ValueError, TypeError):
        yield FieldError(path, f"{_shown(value)} is no quantity, such as 500m, 2 or 1.5Gi")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
