"""Answers in a comparable form; and `python -m tests.contract.kubectl.probe URL TOKEN FILE` records those of a real
kube-apiserver (a fresh one, as for `session.py`)."""

from __future__ import annotations

import json
import re
import ssl
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.contract.kubectl.requests import STEPS

_MASKS = (
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<uid>"),
    (r"20[23][0-9]-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "<time>"),
    (r"\b10\.96\.\d+\.\d+", "<ip>"),
    (r"gen-[a-z0-9]{5}", "gen-<random>"),
    (r"current: \d+", "current: <rv>"),
    (r"in record \(\d+\)", "in record (<rv>)"),
    # Go's own parser's words, and its print of internal structs: not part of the contract.
    (r"json parse error: [^\n]*?(\"?,?\n)", r"json parse error: <why>\1"),
    (r"the object provided is unrecognized \(must be of type \w+\): ", ""),
    (r"continue key is not valid: [^\"]*", "continue key is not valid: <why>"),
)
_INTERNALS = (
    (r"(previously negative\))\n.*", r"\1"),
    (r'Invalid value: "\{.*\}": ', "Invalid value: <object>: "),
    (r"Invalid value: \[\{[^]]*\}\]: must have", "Invalid value: <object>: must have"),
)
"""Go's print of internal structs, in one message."""


def comparable(status: int, headers: Mapping[str, str], body: bytes) -> str:
    warning = {name.lower(): value for name, value in headers.items()}.get("warning", "")
    try:
        text = json.dumps(_clean(json.loads(body)), sort_keys=True, indent=1)
    except ValueError:
        lines = body.decode(errors="replace").splitlines()
        text = "\n".join(
            json.dumps(_clean(json.loads(line)), sort_keys=True) if line.startswith("{") else line for line in lines
        )
    text = f"{status} {warning}\n{text}\n"
    for pattern, replacement in _MASKS:
        text = re.sub(pattern, replacement, text)
    return text


def _clean(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {
            name: "<masked>" if name in ("resourceVersion", "continue") and item else _clean(item)
            for name, item in value.items()
        }
        kept.pop("managedFields", None)
        if isinstance(kept.get("causes"), list):
            # Kubernetes repeats a cause as often as it happens to check; the order follows its code.
            kept["causes"] = sorted({json.dumps(cause, sort_keys=True) for cause in kept["causes"]})
            return kept
        return {name: item for name, item in kept.items() if name != "continue" or item}
    if isinstance(value, list):
        return [_clean(item) for item in value]
    if isinstance(value, str):
        for pattern, replacement in _INTERNALS:
            value = re.sub(pattern, replacement, value, flags=re.DOTALL)
    return value


def title(step: tuple[Any, ...]) -> str:
    method, path, *rest = step
    body = rest[0] if rest else None
    shown = "" if body is None else body.decode() if isinstance(body, bytes) else json.dumps(body)
    return f"{method} {path} {shown}"


def encode(step: tuple[Any, ...]) -> tuple[bytes, str]:
    """(body, content type)"""
    if len(step) < 3:
        return b"", ""
    body = step[2] if isinstance(step[2], bytes) else json.dumps(step[2]).encode()
    return body, step[3] if len(step) > 3 else "application/json"


def _ask(url: str, token: str, step: tuple[Any, ...]) -> str:
    body, content_type = encode(step)
    headers = {
        "Accept": "application/json",
        "Authorization": f"Bearer {token}",
        "User-Agent": "probe/1",
        "Content-Type": content_type,
    }
    request = urllib.request.Request(url + step[1], data=body or None, method=step[0], headers=headers)  # noqa: S310
    try:
        with urllib.request.urlopen(request, context=ssl._create_unverified_context(), timeout=20) as answer:  # noqa: S310, S323
            return comparable(answer.status, dict(answer.headers), answer.read())
    except urllib.error.HTTPError as error:
        return comparable(error.code, dict(error.headers), error.read())


def main(url: str, token: str, file: Path) -> None:
    answers = []
    for step in STEPS:
        answers.append({"request": title(step), "answer": _ask(url, token, step)})
        if "customresourcedefinitions" in step[1]:
            # Recording only: a real API server serves a new definition a moment later.
            time.sleep(3)
    file.write_text(json.dumps(answers, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
