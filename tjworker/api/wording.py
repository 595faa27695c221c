"""What is wrong with a value that a model refuses, in words for its author: pydantic's name Python's types. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from pydantic_core import ErrorDetails

from tjworker.api.podtemplate import ABSOLUTE_PATH, DNS_LABEL, LABEL_VALUE, NAME_OR_NONE

_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]+")
_RULES = {
    "missing": "required value",
    "model_type": "must be an object",
    "dict_type": "must be an object",
    "list_type": "must be a list",
    "string_type": "must be text",
    "int_type": "must be a whole number",
    "bool_type": "must be true or false",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "too_long": "must have at most {max_length} entries",
    "too_short": "must have at least {min_length} entries",
    "string_too_long": "must have at most {max_length} characters",
    "string_too_short": "must have at least {min_length} characters",
    "literal_error": "must be {expected}",
    "value_error": "{error}",
    "extra_forbidden": "unknown field; remove it",
}
"""By pydantic's name of the error, with its values. A test holds that the models raise no other."""
_NAME_RULE = "lower-case letters, digits and '-', with a letter or digit at both ends"
_PATTERNS = {
    DNS_LABEL: _NAME_RULE,
    NAME_OR_NONE: f"{_NAME_RULE}, in parts with a '.' between them",
    LABEL_VALUE: "letters, digits, '-', '_' and '.', with a letter or digit at both ends",
    ABSOLUTE_PATH: "must be a path that begins with /",
}


def problem_words(problem: ErrorDetails) -> str:
    """A short value and the rule that it breaks: `-1: must be at least 0`."""
    kind, value = problem["type"], problem["input"]
    if kind in ("missing", "extra_forbidden"):
        return rule_words(problem)
    # "must be a whole number" would puzzle the author of `replicas: "3"`.
    if (kind == "int_type" and isinstance(value, str) and _WHOLE_NUMBER.fullmatch(value)) or (
        kind == "bool_type" and value in ("true", "false")
    ):
        return f"{value[:80]!r} is text: write it without quotes"
    if kind == "string_type" and isinstance(value, bool | int | float):
        return f"{_shown(value)} is not text: write it in quotes"
    return f"{_shown(value)}: {rule_words(problem)}"


def rule_words(problem: ErrorDetails) -> str:
    """The rule alone."""
    kind, values = problem["type"], problem.get("ctx", {})
    if kind == "string_pattern_mismatch":
        return _PATTERNS.get(values["pattern"], f"must match the pattern {values['pattern']}")
    if values.get("min_length") == 1:
        return "must not be empty"
    return _RULES[kind].format(**values).replace("'", "" if kind == "literal_error" else "'")


def _shown(value: object) -> str:
    """The value as its author wrote it in YAML."""
    if isinstance(value, str):
        return repr(value[:80])
    if value is None or isinstance(value, bool | int | float):
        return json.dumps(value)[:80]
    return "an object" if isinstance(value, Mapping) else "a list"
