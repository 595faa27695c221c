"""What has not changed is not looked at again. The causes are those that looking at everything finds, for random schemas (with
alternatives, sets and maps), values and old values, valid or not."""

from __future__ import annotations

import random
from typing import Any

from localcluster.schema.correlate import Correlated, clone
from localcluster.schema.node import Node, build
from localcluster.schema.values import ValueValidator, _Result

TRIES = 3000
FIELDS = ("a", "b", "c")
Json = dict[str, Any]


class _LooksAtEverything(ValueValidator):
    def _ratcheted(self, value: Any, node: Node, path: str, old: Correlated | None) -> _Result:
        result = self._node(value, node, path, old)
        if result.errors and old is not None and old.unchanged:
            result.errors = {}
        return result


def _schema(rng: random.Random, depth: int) -> Json:
    kind = rng.choice(["object", "array", "string", "integer"] if depth else ["string", "integer"])
    schema: Json = {"type": kind}
    if kind == "object":
        schema["properties"] = {name: _schema(rng, depth - 1) for name in FIELDS}
        if rng.random() < 0.4:
            schema["required"] = [rng.choice(FIELDS)]
    elif kind == "array":
        schema["items"] = _schema(rng, depth - 1)
        schema["maxItems"] = rng.choice([1, 2, 9])
        if schema["items"]["type"] == "object" and rng.random() < 0.7:
            schema |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]}
    elif kind == "string":
        schema["maxLength"] = rng.choice([1, 2])
    else:
        schema["maximum"] = rng.choice([1, 2])
    if depth and rng.random() < 0.4:
        schema[rng.choice(["anyOf", "oneOf", "allOf"])] = [_schema(rng, depth - 1) for _ in range(2)]
    return schema


def _value(rng: random.Random, schema: Json) -> Any:
    kind = schema["type"] if rng.random() < 0.9 else rng.choice(["object", "string", "integer"])
    if kind == "object":
        properties = schema.get("properties", {})
        return {name: _value(rng, properties[name]) for name in FIELDS if name in properties and rng.random() < 0.8}
    if kind == "array":
        return [_value(rng, schema["items"]) for _ in range(rng.randrange(4))]
    return rng.choice(["", "x", "xx", "xxx"]) if kind == "string" else rng.choice([0, 1, 2, 3, True, 1.0])


def _edited(rng: random.Random, value: Any, schema: Json) -> Any:
    """The value with some of its parts made anew."""
    if rng.random() < 0.2:
        return _value(rng, schema)
    if isinstance(value, dict):
        return {name: _edited(rng, inner, schema["properties"][name]) for name, inner in value.items()}
    if isinstance(value, list) and schema["type"] == "array":
        items = [_edited(rng, item, schema["items"]) for item in value]
        return items if rng.random() < 0.8 else items[::-1]
    return clone(value)


def test_what_is_skipped_has_no_part_in_the_causes() -> None:
    seed = random.SystemRandom().randrange(2**32)
    rng = random.Random(seed)
    told = 0
    for number in range(TRIES):
        schema = _schema(rng, 3)
        old = _value(rng, schema)
        new = _edited(rng, old, schema)
        node = build(schema)
        quick = ValueValidator().validate(new, node, Correlated(new, old, node))
        whole = _LooksAtEverything().validate(new, node, Correlated(new, old, node))
        assert quick == whole, f"seed {seed}, try {number}: {schema} {old} -> {new}"
        told += bool(whole)
    assert told > TRIES / 20, f"seed {seed}: too few of the values were wrong to tell anything: {told}"
