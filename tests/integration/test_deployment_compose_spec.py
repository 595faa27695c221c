"""docker-compose.yml against the JSON schema of the Compose Specification, which lies beside this file.

The schema's language is JSON Schema; the words of it that this schema uses are interpreted below, and an unknown one is
an error, so that a newer schema cannot be half understood.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support import fast_yaml as yaml
from tests.support.paths import ROOT

Json = dict[str, Any]
SCHEMA: Json = json.loads((Path(__file__).parent / "test_deployment_compose_spec.json").read_text(encoding="utf-8"))
_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "object": (dict,),
    "array": (list,),
    "boolean": (bool,),
    "null": (type(None),),
    "integer": (int,),
    "number": (int, float),
}
_SILENT = {"$schema", "$id", "$defs", "$comment", "format"}


class Wrong(Exception):
    """`path: rule`."""


def validate(value: Any, schema: Json, path: str = "$") -> set[str]:
    """The properties of `value` that the schema spoke of. Raises Wrong."""
    seen: set[str] = set()
    for word in sorted(schema.keys() - _SILENT, key=_LAST.__contains__):
        seen |= _WORDS[word](value, schema, path, seen)
    return seen


def _ref(value: Any, schema: Json, path: str, _: set[str]) -> set[str]:
    return validate(value, SCHEMA["$defs"][schema["$ref"].removeprefix("#/$defs/")], path)


def _type(value: Any, schema: Json, path: str, _: set[str]) -> set[str]:
    names = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
    fits = any(isinstance(value, _TYPES[n]) and (n == "boolean" or not isinstance(value, bool)) for n in names)
    if not fits:
        raise Wrong(f"{path}: {value!r} is not of type {' or '.join(names)}")
    return set()


def _properties(value: Any, schema: Json, path: str, _: set[str]) -> set[str]:
    if not isinstance(value, dict):
        return set()
    found = set()
    for key, item in value.items():
        if key in schema.get("properties", {}):
            validate(item, schema["properties"][key], f"{path}.{key}")
            found.add(key)
        for pattern, rule in schema.get("patternProperties", {}).items():
            if re.search(pattern, key):
                validate(item, rule, f"{path}.{key}")
                found.add(key)
    return found


def _others(value: Any, schema: Json, path: str, seen: set[str]) -> set[str]:
    rule = schema.get("additionalProperties", schema.get("unevaluatedProperties"))
    if "additionalProperties" in schema:  # speaks of the schema's own properties alone
        seen = _properties(value, schema, path, seen)
    if not isinstance(value, dict):
        return set()
    for key in value.keys() - seen:
        if rule is False:
            raise Wrong(f"{path}: {key} is no property here")
        if isinstance(rule, dict):
            validate(value[key], rule, f"{path}.{key}")
    return set(value)


def _items(value: Any, schema: Json, path: str, _: set[str]) -> set[str]:
    for index, item in enumerate(value if isinstance(value, list) else ()):
        validate(item, schema["items"], f"{path}[{index}]")
    return set()


def _choice(value: Any, schema: Json, path: str, _: set[str]) -> set[str]:
    word = "oneOf" if "oneOf" in schema else "anyOf"
    passed, complaints = [], []
    for rule in schema[word]:
        try:
            passed.append(validate(value, rule, path))
        except Wrong as wrong:
            complaints.append(str(wrong))
    if not passed or (word == "oneOf" and len(passed) > 1):
        raise Wrong(f"{path}: {len(passed)} of {word} fit: {complaints}")
    return set().union(*passed)


def _all(value: Any, schema: Json, path: str, _: set[str]) -> set[str]:
    return set().union(*(validate(value, rule, path) for rule in schema["allOf"]))


def _demand(says: Callable[[Any, Any], bool], word: str) -> Callable[[Any, Json, str, set[str]], set[str]]:
    def rule(value: Any, schema: Json, path: str, _: set[str]) -> set[str]:
        if not says(value, schema[word]):
            raise Wrong(f"{path}: {value!r} breaks {word} {schema[word]}")
        return set()

    return rule


_LAST = {"additionalProperties", "unevaluatedProperties"}
_WORDS: dict[str, Callable[[Any, Json, str, set[str]], set[str]]] = {
    "$ref": _ref,
    "type": _type,
    "properties": _properties,
    "patternProperties": _properties,
    "additionalProperties": _others,
    "unevaluatedProperties": _others,
    "items": _items,
    "oneOf": _choice,
    "anyOf": _choice,
    "allOf": _all,
    "required": _demand(lambda v, names: not isinstance(v, dict) or set(names) <= v.keys(), "required"),
    "enum": _demand(lambda v, allowed: v in allowed, "enum"),
    "pattern": _demand(lambda v, p: not isinstance(v, str) or re.search(p, v) is not None, "pattern"),
    "minimum": _demand(lambda v, n: not isinstance(v, int) or v >= n, "minimum"),
    "maximum": _demand(lambda v, n: not isinstance(v, int) or v <= n, "maximum"),
    "uniqueItems": _demand(
        lambda v, _: not isinstance(v, list) or len({json.dumps(i) for i in v}) == len(v), "uniqueItems"
    ),
}


def compose() -> Json:
    found: Json = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
    return found


def test_the_compose_file_is_one_by_the_specification() -> None:
    validate(compose(), SCHEMA)


def test_nothing_deprecated_is_in_it() -> None:
    assert "version" not in compose()
    assert not any({"container_name", "links"} & service.keys() for service in compose()["services"].values())


@pytest.mark.parametrize(
    ("where", "value", "want"),
    [
        (("services", "worker", "comand"), ["x"], "comand is no property here"),
        (("services", "worker", "depends_on", "redis", "condition"), "healthy", "breaks enum|fit"),
        (("services", "redis", "healthcheck", "interval"), 5, "interval"),
        (("services", "flower", "ports"), "5555", "ports"),
        (("volums",), {}, "volums is no property here"),
        (("configs", "certificates", "file"), {"a": 1}, "file"),
    ],
)
def test_the_check_finds(where: tuple[str, ...], value: Any, want: str) -> None:
    broken = json.loads(json.dumps(compose()))
    node = broken
    for key in where[:-1]:
        node = node[key]
    node[where[-1]] = value
    with pytest.raises(Wrong, match=want):
        validate(broken, SCHEMA)


def test_names_that_a_service_refers_to_are_declared() -> None:
    file = compose()
    for name, service in file["services"].items():
        assert set(service.get("depends_on", ())) <= file["services"].keys(), name
        for volume in service.get("volumes", ()):
            source = re.sub(r"\$\{\w+:-(\w+)\}", r"\1", volume).split(":")[0]
            assert source in file["volumes"], name
        assert {c["source"] for c in service.get("configs", ())} <= file["configs"].keys(), name
