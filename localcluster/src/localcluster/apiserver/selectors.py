"""Label and field selectors: text in, predicate out, with kube-apiserver's refusals. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from localcluster.apiserver import meta
from localcluster.apiserver.errors import bad_request, show
from localcluster.resources import Resource
from localcluster.wire import Json

Match = Callable[[Json], bool]

_KEY = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?(?:/[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?)?"
_VALUE = r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?)?"
_SET = re.compile(rf"^({_KEY})\s+(in|notin)\s*\(([^()]*)\)$")
_EQUAL = re.compile(rf"^({_KEY})\s*(==|=|!=)\s*({_VALUE})$")
_EXISTS = re.compile(rf"^(!?)\s*({_KEY})$")
_COMPARE = re.compile(rf"^({_KEY})\s*(<|>)\s*(-?\d+)$")


def split(text: str) -> list[str]:
    """The requirements of a selector: commas inside parentheses separate values, not requirements."""
    return [part.strip() for part in re.split(r",(?![^(]*\))", text) if part.strip()]


def label_selector(text: str) -> Match | None:
    """A predicate over objects, None for the empty selector. Raises StatusError 400."""
    if text.startswith(","):
        raise bad_request("found ',', expected: !, identifier, or 'end of string'")
    tests = [_label_test(part, text) for part in split(text)]
    if not tests:
        return None
    return lambda obj: _matches_all(tests, obj["metadata"].get("labels") or {})


def _matches_all(tests: list[Callable[[dict[str, str]], bool]], labels: dict[str, str]) -> bool:
    return all(test(labels) for test in tests)


def _label_test(part: str, whole: str) -> Callable[[dict[str, str]], bool]:
    if found := _SET.match(part):
        key, operator, values = found.groups()
        wanted = {value.strip() for value in values.split(",")}
        if operator == "in":
            return lambda labels: key in labels and labels[key] in wanted
        return lambda labels: key not in labels or labels[key] not in wanted
    if found := _EQUAL.match(part):
        key, operator, value = found.groups()
        if operator == "!=":
            return lambda labels: labels.get(key) != value
        return lambda labels: labels.get(key) == value
    if found := _EXISTS.match(part):
        absent, key = found.groups()
        return (lambda labels: key not in labels) if absent else (lambda labels: key in labels)
    if found := _COMPARE.match(part):
        key, operator, number = found.groups()
        limit = int(number)
        return lambda labels: (
            _is_int(labels.get(key)) and ((int(labels[key]) > limit) if operator == ">" else (int(labels[key]) < limit))
        )
    raise bad_request(f"unable to parse requirement: {_explain_part(part)}")


def _explain_part(part: str) -> str:
    operators = "in, notin, =, ==, !=, gt, lt"
    found = re.match(rf"^({_KEY})\s+(\S+)", part)
    if found:
        return f"found '{found.group(2)}', expected: {operators}"
    key = re.split(r"[=!<>\s]", part)[0]
    if key and (wrong := meta.check_qualified_name(key)):
        return f'<nil>: Invalid value: "{key}": {"; ".join(wrong)}'
    value = re.match(rf"^{_KEY}\s*(?:==|=|!=)\s*(.*)$", part)
    if value is not None and (wrong := meta.check_label_value(value[1])):
        return f"values[0][{key}]: Invalid value: {show(value[1])}: {'; '.join(wrong)}"
    number = re.match(rf"^{_KEY}\s*[<>]\s*(.*)$", part)
    if number is not None:
        return f"values[0]: Invalid value: {show(number[1])}: for 'Gt', 'Lt' operators, the value must be an integer"
    return f"found '{part}', expected: identifier"


def _is_int(text: str | None) -> bool:
    return text is not None and re.fullmatch(r"-?\d+", text) is not None


# -- fields ----------------------------------------------------------------------------------------
FieldTest = tuple[str, bool, str]
"""(path, equal, value)"""


def parse_fields(text: str, resource: Resource) -> list[FieldTest]:
    """The requirements of a field selector. Raises StatusError 400 for a field that the kind cannot be selected by."""
    tests: list[FieldTest] = []
    for part in (p for p in re.split(r"(?<!\\),", text) if p):
        found = re.match(r"^(.*?)(!=|==|=)(.*)$", part)
        if found is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{part}'")
        path, operator, value = found.group(1), found.group(2), re.sub(r"\\([\\,=])", r"\1", found.group(3))
        if path not in ("metadata.name", "metadata.namespace", *resource.fields):
            raise bad_request(_refuse_field(path, resource))
        tests.append((path, operator != "!=", value))
    return tests


def _refuse_field(path: str, resource: Resource) -> str:
    if resource.custom:
        return f"field label not supported: {path}"
    if resource.group == "" and resource.kind in ("Pod", "Node", "Namespace", "Secret", "Event", "Service"):
        return f"field label not supported: {path}"
    return f'"{path}" is not a known field selector: only "metadata.name", "metadata.namespace"'


def field_selector(tests: list[FieldTest]) -> Match | None:
    if not tests:
        return None
    return lambda obj: all((field_value(obj, path) == value) is equal for path, equal, value in tests)


_EVENT_SOURCE = {
    "source": ("source", "component"),
    "reportingComponent": ("reportingComponent",),
    "reportingController": ("reportingComponent",),
}


def field_value(obj: Json, path: str) -> str:
    """The value of a selectable field as text; what is absent is empty."""
    if path.startswith("regarding."):
        path = "involvedObject." + path.removeprefix("regarding.")
    parts = _EVENT_SOURCE.get(path) or tuple(path.split("."))
    value: Any = obj
    for part in parts:
        value = value.get(part) if isinstance(value, dict) else None
    if value is None and path in ("spec.hostNetwork", "spec.unschedulable"):
        return "false"
    if value is None and path in ("status.replicas", "status.successful"):
        return "0"
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
