"""pydantic models -> structural OpenAPI v3 schemas, as a CustomResourceDefinition wants them.

Pure. pydantic speaks JSON schema: references, `anyOf` with null, titles, `const`. A structural schema has none of
these: every reference is written out, an optional field is one that is not required, each node has a type (but a
quantity). Rules and list semantics (`x-kubernetes-*`) come from `json_schema_extra` of models and fields and pass
through.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import BaseModel

Schema = dict[str, Any]

_DROPPED = ("title", "$defs", "examples")
_ORDER = (
    "description",
    "type",
    "format",
    "default",
    "nullable",
    "enum",
    "pattern",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "required",
    "properties",
    "additionalProperties",
    "items",
)
MAX_INT32 = 2**31 - 1
_ANYTHING = "x-kubernetes-preserve-unknown-fields"


def structural(model: type[BaseModel], *, defaults: bool) -> Schema:
    """The schema of `model`. `defaults`: whether the API server fills them in: for a spec, never for a status,
    whose writer sets every field."""
    raw = _json_schema(model)
    return _convert(raw, raw.get("$defs", {}), defaults)


@cache
def _json_schema(model: type[BaseModel]) -> Schema:
    # pydantic takes 20 to 80 ms for one model, and kinds share the model of their status.
    return model.model_json_schema(by_alias=True, mode="validation")


def _convert(node: Mapping[str, Any], definitions: Mapping[str, Any], defaults: bool) -> Schema:
    flat = _flatten(node, definitions)
    out: Schema = {k: v for k, v in flat.items() if k not in _DROPPED}
    # The API server drops a null default of a field that is not nullable, and would write an empty map or list into
    # each object that leaves it out.
    if not defaults or out.get("default") in (None, {}, []):
        out.pop("default", None)
    if "const" in out:
        out["enum"] = [out.pop("const")]
    if "description" in out:
        out["description"] = " ".join(out["description"].split())
    if out.get("type") == "integer":
        out["format"] = "int32" if out.get("maximum", MAX_INT32) < MAX_INT32 else "int64"
    if not out.get("properties", True):
        del out["properties"]  # the API server would, and `kubectl apply` would find a difference for ever
    # A structural schema has properties or additionalProperties at a node, never both.
    if "properties" in out:
        out["properties"] = {k: _convert(v, definitions, defaults) for k, v in out["properties"].items()}
        out.pop("additionalProperties", None)
    elif isinstance(out.get("additionalProperties"), Mapping):
        out["additionalProperties"] = _convert(out["additionalProperties"], definitions, defaults)
    elif out.get("type") == "object":
        out.pop("additionalProperties", None)
        out["x-kubernetes-preserve-unknown-fields"] = True
    if "items" in out:
        out["items"] = _convert(out["items"], definitions, defaults)
    if "type" not in out and not out.keys() & {"x-kubernetes-int-or-string", _ANYTHING}:
        raise ValueError(f"a structural schema has a type at every node, this one has none: {out}")
    return {k: out[k] for k in (*_ORDER, *sorted(out.keys() - set(_ORDER))) if k in out}


def _flatten(node: Mapping[str, Any], definitions: Mapping[str, Any]) -> Schema:
    """The schema with its references and `anyOf` with null resolved. Keys next to a reference, such as a description or
    rules, override those of its target."""
    own = {k: v for k, v in node.items() if k not in ("$ref", "anyOf", "allOf")}
    if "$ref" in node:
        return _flatten(definitions[node["$ref"].rpartition("/")[2]], definitions) | own
    choices = [c for c in node.get("anyOf", node.get("allOf", [])) if c.get("type") != "null"]
    if len(choices) > 1:
        # The API server would refuse such a CRD when it is installed.
        raise ValueError(f"a structural schema has one type at every node, this one has several: {node}")
    return _flatten(choices[0], definitions) | own if choices else own
