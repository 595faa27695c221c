"""Bodies of requests as JSON: JSON itself, YAML and protobuf. Pure."""

from __future__ import annotations

import re
from typing import Any

import yaml

from localcluster import jsontext
from localcluster.apiserver import protobuf
from localcluster.apiserver.errors import bad_request, unsupported_media_type
from localcluster.resources import Resource
from localcluster.wire import Json, Request

_SHOWN_BYTES = 30


def body_of(request: Request, resource: Resource | None = None) -> Json:
    kind = content_type(request)
    if kind == "application/vnd.kubernetes.protobuf":
        return protobuf.decode(request.body)
    if kind not in ("application/json", "", "application/yaml"):
        raise unsupported_media_type(
            kind, ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"]
        )
    what = f"the object provided is unrecognized (must be of type {resource.kind}): " if resource else ""
    body = _parse_body(
        request.body, f"{what}couldn't get version/kind; json parse error", yaml_too=kind == "application/yaml"
    )
    if not isinstance(body, dict):
        raise bad_request(
            f"{what}couldn't get version/kind; json parse error: json: cannot unmarshal {_go_kind(body)} into Go"
            " value of type struct"
        )
    if wrong := wrong_head(body):
        # `transformDecodeError` quotes the beginning of the body.
        head = request.body[:_SHOWN_BYTES].decode(errors="replace")
        more = " ..." if len(request.body) > _SHOWN_BYTES else ""
        raise bad_request(f"{what}{wrong}{f' ({head}{more})' if what else ''}")
    return body


def wrong_head(body: Json) -> str:
    """Returns why the kind of object cannot be read; '' when it can."""
    for name in ("apiVersion", "kind"):
        value = body.get(name)
        if value is not None and not isinstance(value, str):
            why = f"json: cannot unmarshal {_go_kind(value)} into Go struct field .{name} of type string"
            return f"couldn't get version/kind; json parse error: {why}"
    return ""


def patch_body(request: Request) -> Any:
    return _parse_body(request.body, "error decoding patch", yaml_too="yaml" in content_type(request))


def content_type(request: Request) -> str:
    return request.headers.get("content-type", "").split(";")[0].strip()


def _parse_body(body: bytes, complaint: str, *, yaml_too: bool) -> Any:
    try:
        return jsontext.loads(body)
    except ValueError as wrong:
        if not yaml_too:
            raise bad_request(f"{complaint}: {_explain_error(wrong)}") from None
    try:
        return jsontext.copied(yaml.load(body, Loader=_YamlLoader))  # noqa: S506  derived from SafeLoader
    except (yaml.YAMLError, TypeError, ValueError) as wrong:
        raise bad_request(f"error decoding YAML: error converting YAML to JSON: yaml: {wrong}") from None


class _YamlLoader(yaml.SafeLoader):
    """Kubernetes reads times as text."""


_YamlLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in rules if tag != "tag:yaml.org,2002:timestamp"]
    for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _explain_error(error: ValueError) -> str:
    return re.sub(r": line.*", "", str(error)) or "invalid character"


def _go_kind(value: Any) -> str:
    return {dict: "object", list: "array", str: "string", bool: "bool", int: "number", float: "number"}.get(
        type(value), "null"
    )
