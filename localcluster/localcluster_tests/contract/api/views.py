"""Views: short paths into a JSON answer, and how an answer is written on one line. Pure."""

from __future__ import annotations

import json
import re
from typing import Any

from localcluster_tests.contract.api.masks import Masks

_ABSENT = object()
_DOT = re.compile(r"(?<!\\)\.")


def look(value: Any, view: str, masks: Masks) -> str:
    """One view as JSON; `-` for what is not there. Only what is shown is masked, as the masks' numbers depend on it."""
    mark, path = (view[0], view[1:]) if view[0] in "#~?" else ("", view)
    found = _find(value, [] if path == "." else [part.replace("\\.", ".") for part in _DOT.split(path)])
    if mark == "?":
        return "absent" if found is _ABSENT else "present"
    if found is _ABSENT:
        return "-"
    if mark == "#":
        return str(len(found))
    found = masks.clean(found, path.rpartition(".")[2])
    if mark == "~":
        found = sorted(found, key=_text)
    return _text(found)


def _find(value: Any, path: list[str]) -> Any:
    for position, part in enumerate(path):
        if part == "*":
            items = value.values() if isinstance(value, dict) else value
            if not isinstance(items, list) and not isinstance(value, dict):
                return _ABSENT
            found = [_find(item, path[position + 1 :]) for item in items]
            return [None if item is _ABSENT else item for item in found]
        if isinstance(value, list) and "=" in part:
            name, _, wanted = part.partition("=")
            value = next((item for item in value if item.get(name) == wanted), _ABSENT)
        elif isinstance(value, list) and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        elif isinstance(value, dict) and part in value:
            value = value[part]
        else:
            return _ABSENT
    return value


def pick(value: Any, path: str) -> str:
    """For `${name.path}`: a string as it is, everything else as JSON."""
    found = _find(value, [part.replace("\\.", ".") for part in _DOT.split(path)])
    if found is _ABSENT:
        raise KeyError(f"{path} is not in {_text(value)[:300]}")
    return found if isinstance(found, str) else _text(found)


def answer(status: int, warning: str, body: Any, views: tuple[str, ...], masks: Masks) -> str:
    """`201`, `200 "a" {"k": "1"}`, or a Status: `404 NotFound: pods "a" not found {"kind": "pods", "name": "a"}`."""
    warned = f" [warning {masks.text(warning)}]" if warning else ""
    if isinstance(body, str):
        return f"{status}{warned} {masks.text(body).strip()!r}"
    if status >= 400 or (isinstance(body, dict) and body.get("status") == "Failure"):
        return f"{status}{warned} {failure(masks.clean(body))}"
    shown = _without_fields(body, views)
    return " ".join([f"{status}{warned}", *(look(shown, view, masks) for view in views)])


def event(line: Any, views: tuple[str, ...], masks: Masks) -> str:
    if line["type"] == "ERROR":
        return f"ERROR {line['object'].get('code')} {failure(masks.clean(line['object']))}"
    shown = _without_fields(line["object"], views)
    return " ".join([line["type"], *(look(shown, view, masks) for view in views or ("metadata.name",))])


def failure(status: Any) -> str:
    if not isinstance(status, dict) or status.get("kind") != "Status":
        return _text(status)
    message, details = status.get("message", ""), dict(status.get("details") or {})
    found = details.pop("causes", None) or []
    if len(found) > 1 and " is invalid: [" in message:
        message = (
            message.partition(" is invalid: [")[0] + " is invalid:"
        )  # in an order of its own; the causes are sorted
    causes = [_cause(cause, message) for cause in found]
    parts = [f"{status.get('reason', '')}: {message}", *([_text(details)] if details else []), *causes]
    return " ".join(parts).replace("\n", " ").strip()


def _cause(cause: dict[str, str], message: str) -> str:
    """`(reason at field)`; its own message only when the Status does not repeat it."""
    own = "" if cause.get("message", "") in message else f": {cause.get('message')}"
    return f"({cause.get('reason', '')} at {cause.get('field', '')}{own})"


def _without_fields(value: Any, views: tuple[str, ...]) -> Any:
    """managedFields only where a view asks for them."""
    if any("managedFields" in view for view in views):
        return value
    if isinstance(value, dict):
        return {name: _without_fields(item, views) for name, item in value.items() if name != "managedFields"}
    if isinstance(value, list):
        return [_without_fields(item, views) for item in value]
    return value


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
