"""A job kind -> its page of the API reference, in Markdown, out of the same schema as its CRD. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tjworker.api.crd import columns, schema
from tjworker.api.kinds.base import JobKind
from tjworker.api.schema import Schema

_BOUNDS = (
    ("minimum", "at least {}"),
    ("maximum", "at most {}"),
    ("minLength", "at least {} characters"),
    ("maxLength", "at most {} characters"),
    ("minItems", "at least {} items"),
    ("maxItems", "at most {} items"),
    ("minProperties", "at least {} entries"),
    ("maxProperties", "at most {} entries"),
    ("pattern", "must match `{}`"),
)

HEAD = """# API reference

Generated from the models in `tjworker/api` by `make generate`; edit those. On a cluster that has
the CRDs, `kubectl explain <kind>.spec --recursive` shows the same.

Durations are whole seconds, times are RFC 3339 in UTC. `<name>` stands for a key that you choose,
`[]` for each entry of a list. **Required** fields have no default.
"""


def page(job_kinds: Sequence[JobKind]) -> str:
    return "\n".join([HEAD, *(line for job_kind in job_kinds for line in _kind(job_kind))]).rstrip() + "\n"


def _kind(job_kind: JobKind) -> Iterator[str]:
    whole = schema(job_kind)
    yield f"## {job_kind.kind}\n"
    yield _filled(whole["description"])
    shown = columns(job_kind)
    yield _filled(
        f"`apiVersion`: {', '.join(f'`{v}`' for v in job_kind.api_versions)}. `kubectl get"
        f" {job_kind.short_name or job_kind.plural}` lists"
        " them, `kubectl get training` those of every kind."
        + (f" Scale subresource: `{job_kind.scale_spec_path}`." if job_kind.scale_spec_path else "")
    )
    yield (
        f"Columns: {', '.join(c['name'].upper() for c in shown if not c.get('priority'))}; with `-o wide` also "
        f"{', '.join(c['name'].upper() for c in shown if c.get('priority'))}.\n"
    )
    for part, title in (("spec", "Spec"), ("status", "Status")):
        yield f"### {title} of {job_kind.kind}\n"
        yield "| Field | Type | Default | Meaning and bounds |"
        yield "|---|---|---|---|"
        yield from _rows(part, whole["properties"][part], required=part == "spec")
        yield ""
    yield f"### Rules of {job_kind.kind}\n"
    yield "What the API server refuses beyond the bounds above, with the message that it gives:\n"
    yield "| Where | Rule |"
    yield "|---|---|"
    yield from (f"| `{path}` | {_cell(rule['message'])} |" for path, rule in _all_rules("", whole))
    yield ""


def _filled(paragraph: str) -> str:
    return textwrap.fill(paragraph, 100, break_long_words=False, break_on_hyphens=False) + "\n"


def _rows(path: str, node: Schema, *, required: bool) -> Iterator[str]:
    default = "**required**" if required else f"`{_value(node['default'])}`" if "default" in node else ""
    meaning = [node.get("description", "")]
    if "enum" in node:
        meaning.append("One of " + ", ".join(f"`{_value(v)}`" for v in node["enum"]))
    bounds = "; ".join(text.format(node[key]) for key, text in _BOUNDS if key in node)
    if bounds:
        meaning.append(bounds[0].upper() + bounds[1:])
    sentence = ". ".join(part.rstrip(".") for part in meaning if part)
    yield f"| `{path}` | {_type(node)} | {default} | {_cell(sentence)} |"
    for name, child in _children(node):
        needed = name.lstrip(".") in node.get("required", ())
        yield from _rows(path + name, child, required=needed)


def _children(node: Schema) -> Iterator[tuple[str, Schema]]:
    yield from ((f".{name}", child) for name, child in node.get("properties", {}).items())
    for key, name in (("additionalProperties", ".<name>"), ("items", "[]")):
        child = node.get(key)
        if isinstance(child, dict) and child.get("type") == "object":
            yield name, child


def _all_rules(path: str, node: Schema) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for rule in node.get("x-kubernetes-validations", ()):
        yield (path + rule.get("fieldPath", "")).lstrip("."), rule
    for name, child in _children(node):
        yield from _all_rules(path + name, child)


def _type(node: Schema) -> str:
    inner = node.get("additionalProperties") or node.get("items")
    if isinstance(inner, dict):
        return f"{'map' if 'additionalProperties' in node else 'list'} of {_type(inner)}"
    return str(node.get("type", "quantity"))


def _value(value: object) -> str:
    return (
        {True: "true", False: "false", "": '""'}.get(value, str(value)) if isinstance(value, bool | str) else str(value)
    )


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
