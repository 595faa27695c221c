"""What differs between two runs of one case is masked: identities, versions, times, generated names. Equal things stay
equal.

A uid becomes <uid1>, <uid2> ... and a resourceVersion <rv1>, <rv2> ... in the order in which the case meets them, so
that a test still sees whether a write changed the version or an object is another one.
"""

from __future__ import annotations

import json
import re
from typing import Any

_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_PATTERNS = (
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"), "<microtime>"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "<time>"),
    (re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{5}\b"), "-<5>"),
    (re.compile(r"\b10\.\d+\.\d+\.\d+\b"), "<ip>"),
    (re.compile(r"current: \d+"), "current: <rv>"),
    (re.compile(r"object meta: \d+"), "object meta: <rv>"),
    (re.compile(r"in the precondition \(\d+\)"), "in the precondition (<rv>)"),
    (re.compile(r"in record \(\d+\)"), "in record (<rv>)"),
    (re.compile(r"too old resource version: \d+ \(\d+\)"), "too old resource version: <rv> (<rv>)"),
    (re.compile(r"^\d+(ms|s)$"), "<age>"),
    (re.compile(r"\d+/\d+ nodes are available: \d+"), "<n>/<n> nodes are available: <n>"),
    (re.compile(r"\d+/\d+ nodes are available: (?=[a-z])"), "<n>/<n> nodes are available: "),
    # Go's print of what it had in hand, and its own parsers' words, are not part of the contract.
    (re.compile(r'Invalid value: "(?:\{|map\[).*(?:\}|\])": ', re.DOTALL), "Invalid value: <object>: "),
    (
        re.compile(r'Invalid value: \{"(?!matchLabels).*?\}: field is immutable', re.DOTALL),
        "Invalid value: <object>: field is immutable",
    ),
    (re.compile(r"Invalid value: \[\{.*\}\]: must have", re.DOTALL), "Invalid value: <object>: must have"),
    (re.compile(r"(previously negative\))\n.*", re.DOTALL), r"\1"),
    (re.compile(r"(volumeAttributesClassName for bound claims)\n.*", re.DOTALL), r"\1"),
    (re.compile(r"parsing time .*", re.DOTALL), "parsing time <why>"),
    (re.compile(r"(error (?:decoding YAML|decoding patch|converting YAML to JSON)): .*", re.DOTALL), r"\1: <why>"),
    (re.compile(r"continue key is not valid: .*", re.DOTALL), "continue key is not valid: <why>"),
    (re.compile(r"json parse error: .*", re.DOTALL), "json parse error: <why>"),
)


class Masks:
    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._uids: dict[str, str] = {}
        self._versions: dict[str, str] = {}

    def copy(self) -> Masks:
        """To try an answer that may not be the last one."""
        copied = Masks(self._namespace)
        copied._uids, copied._versions = dict(self._uids), dict(self._versions)
        return copied

    def clean(self, value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            kept = {self.text(name): self.clean(item, name) for name, item in value.items()}
            if isinstance(kept.get("causes"), list):
                # Kubernetes repeats a cause as often as it happens to check it; their order follows its code.
                unique = {json.dumps(cause, sort_keys=True) for cause in kept["causes"]}
                kept["causes"] = [json.loads(cause) for cause in sorted(unique)]
            return kept
        if isinstance(value, list):
            return [self.clean(item, key) for item in value]
        if isinstance(value, str):
            if key == "resourceVersion" and value not in ("", "0"):
                return self._versions.setdefault(value, f"<rv{len(self._versions) + 1}>")
            if key == "continue" and value:
                return "<continue>"
            return self.text(value)
        return value

    def text(self, text: str) -> str:
        text = _UID.sub(lambda found: self._uids.setdefault(found[0], f"<uid{len(self._uids) + 1}>"), text)
        for pattern, replacement in _PATTERNS:
            text = pattern.sub(replacement, text)
        return text.replace(self._namespace, "NS")
