"""A job kind -> its page of the API reference, in Markdown, out of the same schema as its CRD. Pure."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
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
    """What several of these kinds share is printed once, at the top; the section of a kind lists its differences."""
    kinds = [(job_kind, _Tables.of(job_kind)) for job_kind in job_kinds]
    shared = _Tables(
        _shared([tables.spec for _, tables in kinds], THIRD),
        _shared([tables.status for _, tables in kinds], THIRD),
        _shared([tables.rules for _, tables in kinds], HALF),
    )
    lines = [HEAD, *_shared_section(shared)]
    for job_kind, tables in kinds:
        lines += _kind(job_kind, tables, shared)
    return "\n".join(lines).rstrip() + "\n"


@dataclass(frozen=True, slots=True)
class _Tables:
    """The rows of one section of the page, in the order in which they are printed."""

    spec: list[str]
    status: list[str]
    rules: list[str]

    @classmethod
    def of(cls, job_kind: JobKind) -> _Tables:
        whole = schema(job_kind)
        spec, status = whole["properties"]["spec"], whole["properties"]["status"]
        tables = cls(
            list(_rows("spec", spec, required=True)),
            [row for row in _rows("status", status, required=False) if not row.startswith(OWN_STATUS)],
            [f"| `{path}` | {_cell(rule['message'])} |" for path, rule in _all_rules("", whole)],
        )
        roles = _role_field(job_kind)
        if roles is None:
            return tables
        own, said = f"| `spec.{roles}", f"| `spec.{ROLES}"
        parts = (tables.spec, tables.status, tables.rules)
        return cls(*([said + row.removeprefix(own) if row.startswith(own) else row for row in rows] for rows in parts))


OWN_STATUS = "| `status.operator."
"""Below this field of another operator's kind lies the status of an AITrainingJob, which has a page of its own."""
ROLES = "<roles>"
"""Stands for the map of roles, which other operators name differently in each kind: tfReplicaSpecs."""


def _role_field(job_kind: JobKind) -> str | None:
    names = schema(job_kind)["properties"]["spec"]["properties"]
    return next((name for name in names if job_kind.guest and name.endswith("ReplicaSpecs")), None)


def _shared(tables: Sequence[list[str]], share: float) -> list[str]:
    """The rows that more than this share of the kinds have to the letter, each behind the row that it follows in a
    kind. Of two such rows for one path, the one that more kinds have: a path has one meaning in the shared tables."""
    counted = Counter(row for rows in tables for row in dict.fromkeys(rows))
    chosen = {row: None for row, count in counted.items() if count > max(1, share * len(tables))}
    if share < HALF:
        best: dict[str, str] = {}
        for row in chosen:
            best[_path(row)] = max(best.get(_path(row), row), row, key=lambda each: counted[each])
        chosen = dict.fromkeys(best.values())
    result: list[str] = []
    for rows in tables:
        place = 0
        for row in dict.fromkeys(rows):
            if row in chosen:
                if row not in result:
                    result.insert(place, row)
                place = result.index(row) + 1
    return result


THIRD, HALF = 1 / 3, 1 / 2


def _shared_section(shared: _Tables) -> Iterator[str]:
    yield "## What the kinds share\n"
    yield _filled(
        "Fields and rules that several kinds of this page have. The section of a kind lists only what differs:"
        " a field that it has otherwise is listed there and holds there, a field that it lacks is named there."
    )
    if any(ROLES in row for row in shared.spec):
        yield _filled(
            "The fields of `status.operator` are those of the `status` of an AITrainingJob: [api.md](api.md)."
        )
        yield _filled(f"`{ROLES}` is the map of roles. Its name is said with each kind, such as `tfReplicaSpecs`.")
    yield from _table("### Spec that the kinds share\n", FIELDS, shared.spec)
    yield from _table("### Status that the kinds share\n", FIELDS, shared.status)
    yield from _table(f"### Rules that the kinds share\n\n{REFUSES}", RULES, shared.rules)


def _kind(job_kind: JobKind, tables: _Tables, shared: _Tables) -> Iterator[str]:
    whole = schema(job_kind)
    yield f"## {job_kind.kind} ({job_kind.group})\n"
    yield _filled(whole["description"])
    shown = columns(job_kind)
    roles = _role_field(job_kind)
    yield _filled(
        f"`apiVersion`: {', '.join(f'`{v}`' for v in job_kind.api_versions)}. `kubectl get"
        f" {job_kind.short_name or job_kind.plural}` lists"
        " them, `kubectl get training` those of every kind."
        + (f" Scale subresource: `{job_kind.scale_spec_path}`." if job_kind.scale_spec_path else "")
        + (f" `{ROLES}` is `{roles}`." if roles else "")
    )
    yield (
        f"Columns: {', '.join(c['name'].upper() for c in shown if not c.get('priority'))}; with `-o wide` also "
        f"{', '.join(c['name'].upper() for c in shown if c.get('priority'))}.\n"
    )
    lacks = _lacking(tables.spec + tables.status, shared.spec + shared.status)
    if lacks:
        yield _filled("It lacks " + ", ".join(f"`{path}`" for path in lacks) + ".")
    name = f"{job_kind.kind} ({job_kind.group})"
    yield from _table(f"### Spec of {name}\n", FIELDS, _beyond(tables.spec, shared.spec))
    yield from _table(f"### Status of {name}\n", FIELDS, _beyond(tables.status, shared.status))
    yield from _table(f"### Rules of {name}\n\n{REFUSES}", RULES, _beyond(tables.rules, shared.rules))
    without = [row for row in shared.rules if row not in tables.rules]
    if without:
        yield from _table("Of the rules that the kinds share, these do not hold here:\n", RULES, without)


FIELDS = "| Field | Type | Default | Meaning and bounds |\n|---|---|---|---|"
RULES = "| Where | Rule |\n|---|---|"
REFUSES = "What the API server refuses beyond the bounds above, with the message that it gives:\n"


def _table(title: str, head: str, rows: Sequence[str]) -> Iterator[str]:
    if rows:
        yield from (title, head, *rows, "")


def _beyond(rows: Sequence[str], shared: Sequence[str]) -> list[str]:
    return [row for row in rows if row not in shared]


def _lacking(rows: Sequence[str], shared: Sequence[str]) -> list[str]:
    """Fields of the shared tables that the kind has in no form; of a missing object its own path alone."""
    paths = {_path(row) for row in rows}
    missing = [path for path in map(_path, shared) if path not in paths]
    return [path for path in missing if not any(path.startswith((f"{above}.", f"{above}[")) for above in missing)]


def _path(row: str) -> str:
    return row.split("`", 2)[1]


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
