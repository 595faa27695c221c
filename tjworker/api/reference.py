"""Renders the API reference of the job kinds in Markdown, from the schemas of their CRDs. Pure."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tjworker.api.crd import schema
from tjworker.api.kinds.base import JobKind
from tjworker.api.kinds.quantity import QUANTITY
from tjworker.api.podtemplate import ABSOLUTE_PATH, DNS_LABEL, LABEL_VALUE, NAME_OR_NONE
from tjworker.api.schema import Schema

_INTEGER_LIMITS = {2**31 - 1, 2**53}
"""Maxima of integers that the API server stores. No user meets these bounds, so the reference omits them."""

HEAD = """# API reference

Generated from the models in `tjworker/api` by `make generate`; edit those. On a cluster that has
the CRDs, `kubectl explain <kind>.spec --recursive` shows the same.

Durations are whole seconds, times are RFC 3339 in UTC. `<name>` is a key that you choose,
`[]` each entry of a list, `{a,b}` the fields `a` and `b`. A field that begins with a
dot belongs to the object in **bold** above it. **Required** fields have no default. The entries of
`env`, `volumes`, `volumeMounts`, `tolerations` and `imagePullSecrets` have the fields that they have in
a Pod, and a condition those of a Kubernetes condition. The CRD limits the length of every
string, list and map; a refusal names the limit.
`kubectl get -o wide` also shows the message of each job.
"""


def page(job_kinds: Sequence[JobKind]) -> str:
    """The reference of these kinds: what all share, what the kinds of an API group share, and each kind's differences.

    A reader puts a kind together from the first table, the table of its group over it, and its own over both.
    """
    kinds = [(job_kind, _Tables.of(job_kind)) for job_kind in job_kinds]
    shared = _Tables.shared_by([tables for _, tables in kinds])
    lines = [HEAD, *_shared_section(shared)]
    for group in dict.fromkeys(job_kind.group for job_kind in job_kinds):
        members = [(job_kind, tables) for job_kind, tables in kinds if job_kind.group == group]
        base = shared
        # A table for two kinds would be no shorter than their differences.
        if 2 < len(members) < len(kinds):
            base = _Tables.shared_by([tables for _, tables in members]).over(shared, [tables for _, tables in members])
            lines += _group_section(group, base, shared)
        for job_kind, tables in members:
            lines += _kind(job_kind, tables, base)
    return "\n".join(lines).rstrip() + "\n"


@dataclass(frozen=True, slots=True)
class _Tables:
    """The rows of one section of the page, in the order in which they are printed."""

    spec: list[str]
    status: list[str]
    rules: list[str]

    @classmethod
    def shared_by(cls, kinds: Sequence[_Tables]) -> _Tables:
        """The rows that enough of these kinds have in common for a table."""
        return cls(
            _shared([tables.spec for tables in kinds], THIRD),
            _shared([tables.status for tables in kinds], THIRD),
            _shared([tables.rules for tables in kinds], HALF),
        )

    def over(self, base: _Tables, kinds: Sequence[_Tables]) -> _Tables:
        """These tables, with the rows of the base for other fields that at least one of the kinds has."""
        return _Tables(
            _laid_over(self.spec, base.spec, [tables.spec for tables in kinds]),
            _laid_over(self.status, base.status, [tables.status for tables in kinds]),
            [*(row for row in base.rules if row not in self.rules), *self.rules],
        )

    @classmethod
    def of(cls, job_kind: JobKind) -> _Tables:
        whole = schema(job_kind)
        spec, status = whole["properties"]["spec"], whole["properties"]["status"]
        tables = cls(
            [row for row in _rows("spec", spec, required=True) if not _in_own_section(row, job_kind)],
            [
                row
                for row in _rows("status", status, required=False)
                if not _in_own_section(row, job_kind) and not _is_memory(_path(row))
            ],
            [
                f"| `{path}` | {_cell(rule['message'])} |"
                for path, rule in _all_rules("", whole)
                if not rule["message"].startswith(_NAMES_ROLES)
            ],
        )
        for short, long in _short_names(job_kind).items():
            written, printed = f"| `spec.{long}", f"| `spec.{short}"
            parts = (tables.spec, tables.status, tables.rules)
            tables = cls(*([row.replace(written, printed, 1) for row in rows] for rows in parts))
        return tables


_PATTERNS = {
    DNS_LABEL: "Must be a DNS label",
    NAME_OR_NONE: "Must be a DNS subdomain",
    LABEL_VALUE: "Must be a label value",
    QUANTITY: "Must be a quantity",
    ABSOLUTE_PATH: "Must begin with `/`",
}
_LIKE_OWN = ("status.operator.", "ReplicaSpecs.<name>.template.")
"""Fields of another operator's kind that contain the status or the pod template of an AITrainingJob."""
ROLES = "<roles>"
"""The page's name for the map of roles. Other operators name it differently in each kind, such as tfReplicaSpecs."""
PATCHED = "<patched>"
"""The page's name for the job template in a TrainJob's patch, which contains most of a TrainJob's fields."""
_PATCHED_PATH = "runtimePatches[].trainingRuntimeSpec.template.spec.replicatedJobs[].template"
_AS_IN_A_POD = {"env", "volumes", "volumeMounts", "VolumeMounts", "tolerations", "imagePullSecrets"}
"""Lists whose entries have the fields that they have in a Pod: the head of the page says so."""
_NAMES_ROLES = ("a role of a ", "a role of an ")
"""Beginnings of the rules that only list the roles of a kind. The field of the roles lists them, too."""
MEMORY_FIELDS = (
    "attempts",
    "missingNodes",
    "shortNodes",
    "creatingSince",
    "targetsBeside",
    "hostPorts",
    "snapshot",
    "refusedAnnotations",
    "rescaleSeconds",
    "rescaleMeasuredAt",
    "suspendedSeconds",
    "suspendedSecondsBeforeRunning",
)
"""Fields of the status in which the operator keeps what its next pass needs: `kubectl explain` describes them."""


def _is_memory(path: str) -> bool:
    return path.startswith("status.") and path.split(".")[1] in MEMORY_FIELDS


def _short_names(job_kind: JobKind) -> dict[str, str]:
    """Map the page's names for paths below `spec` to the paths in this kind."""
    roles, patches = _role_field(job_kind), "runtimePatches" in schema(job_kind)["properties"]["spec"]["properties"]
    return ({ROLES: roles} if roles else {}) | ({PATCHED: _PATCHED_PATH} if patches else {})


def _in_own_section(row: str, job_kind: JobKind) -> bool:
    """True if the page of the operator's own kinds describes this field of another operator's kind."""
    return job_kind.guest is not None and any(part in _path(row) for part in _LIKE_OWN)


def _role_field(job_kind: JobKind) -> str | None:
    names = schema(job_kind)["properties"]["spec"]["properties"]
    return next((name for name in names if job_kind.guest and name.endswith("ReplicaSpecs")), None)


def _shared(tables: Sequence[list[str]], share: float) -> list[str]:
    """The identical rows of more than this share of the kinds, in the order of the kinds. If two such rows have the
    same path, the more frequent row is returned: a path has one meaning in the shared tables."""
    counted = Counter(row for rows in tables for row in dict.fromkeys(rows))
    chosen = {row: None for row, count in counted.items() if count > max(1, share * len(tables))}
    # More than half of the kinds can agree on only one row of a path, more than a third on two.
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
                    # Kinds order their fields differently: a sort would part an object from its fields.
                    result.insert(place, row)
                place = result.index(row) + 1
    return result


THIRD, HALF = 1 / 3, 1 / 2


def _laid_over(rows: list[str], base: list[str], kinds: Sequence[list[str]]) -> list[str]:
    """`rows`, with the rows of `base` for other fields that at least one of the kinds has."""
    open_fields = {_path(row) for table in kinds for row in table} - {_path(row) for row in rows}
    return [*(row for row in base if _path(row) in open_fields), *rows]


def _shared_section(shared: _Tables) -> Iterator[str]:
    yield "## What the kinds share\n"
    yield _filled(
        "The section of a kind, or of an API group, lists only how it differs from these tables: fields that it adds"
        " or defines otherwise, and fields that it lacks."
    )
    if any(ROLES in row for row in shared.spec):
        yield _filled(
            "`status.operator` has the fields of the `status` of an AITrainingJob, and `template` those of its"
            f" `template`: [api.md](api.md). `{ROLES}` is the map of roles, which each kind names differently, such as"
            " `tfReplicaSpecs`."
        )
    else:
        yield _filled(
            "The operator also keeps what its next pass needs in `status`: "
            + ", ".join(f"`{name}`" for name in MEMORY_FIELDS)
            + ". `kubectl explain` describes these fields."
        )
    yield from _table(FIELDS, shared.spec, shared.status)
    if shared.rules:
        yield REFUSES
    yield from _table(RULES, shared.rules)


def _group_section(group: str, tables: _Tables, base: _Tables) -> Iterator[str]:
    yield f"## What the kinds of {group} share\n"
    yield from _differences(tables, base)


def _differences(tables: _Tables, base: _Tables) -> Iterator[str]:
    """Print how these tables differ from the tables above them on the page."""
    lacks = _lacking(tables.spec + tables.status, base.spec + base.status)
    if lacks:
        yield _filled("Lacks " + ", ".join(f"`{path}`" for path in lacks) + ".")
    yield from _table(FIELDS, _beyond(tables.spec, base.spec), _beyond(tables.status, base.status))
    yield from _table(RULES, _beyond(tables.rules, base.rules))
    without = [row for row in base.rules if row not in tables.rules]
    if without:
        yield "These shared rules do not hold here:\n"
        yield from _table(RULES, without)


def _kind(job_kind: JobKind, tables: _Tables, shared: _Tables) -> Iterator[str]:
    whole = schema(job_kind)
    yield f"## {job_kind.kind} ({job_kind.group})\n"
    yield _filled(whole["description"])
    short_names = _short_names(job_kind)
    versions = " and ".join(f"`{version}`" for version in job_kind.api_versions)
    scaled = job_kind.scale_spec_path.replace(short_names.get(ROLES, ROLES), ROLES)
    yield _filled(
        f"`apiVersion`: {versions}. `kubectl get {job_kind.short_name or job_kind.plural}`."
        + "".join(f" `{short}` is `{long}`." for short, long in short_names.items())
        + (f" Scale subresource: `{scaled}`." if scaled else "")
    )
    yield from _differences(tables, shared)


FIELDS = "| Field | Type, default | Meaning and bounds |\n|---|---|---|"
RULES = "| Where | Rule |\n|---|---|"
REFUSES = "The API server refuses a job that breaks one of these rules, with this message:\n"


def _table(head: str, *parts: Sequence[str]) -> Iterator[str]:
    rows = [row for part in parts for row in _merged(part)]
    if rows:
        yield from (head, *rows, "")


def _merged(rows: Sequence[str]) -> list[str]:
    """Merge rows with the same meaning into one row with all their paths."""
    paths: dict[str, list[str]] = {}
    for row in rows:
        # The path ends at the second backtick; the meaning may have backticks of its own.
        _, path, meaning = row.split("`", 2)
        paths.setdefault(meaning, []).append(path)
    cells = [(_braced(alike), meaning) for meaning, alike in paths.items()]
    return list(_below_their_objects(cells))


def _below_their_objects(cells: Sequence[tuple[list[str], str]]) -> Iterator[str]:
    """The rows. Fields of an object follow its row, without its path."""
    above = ""
    for place, (paths, meaning) in enumerate(cells):
        following = cells[place + 1][0] if place + 1 < len(cells) else []
        one = paths[0] if len(paths) == 1 else ""
        if one and any(path.startswith((f"{one}.", f"{one}[]")) for path in following):
            above = one
            yield f"| **`{one}`**{meaning}"
        elif above and all(path.startswith(f"{above}.") for path in paths):
            yield f"| {', '.join(f'`{path.removeprefix(above)}`' for path in paths)}{meaning}"
        else:
            above = ""
            yield f"| {', '.join(f'`{path}`' for path in paths)}{meaning}"


def _braced(paths: Sequence[str]) -> list[str]:
    """Paths that differ in one name become one: `a.{b,c}.d`."""
    groups: list[list[str]] = []
    for path in paths:
        for group in groups:
            if _differing([*group, path]) is not None:
                group.append(path)
                break
        else:
            groups.append([path])
    return [_brace(group) for group in groups]


def _differing(paths: Sequence[str]) -> int | None:
    """The index of the only segment in which these paths differ; None if they differ in several."""
    columns = list(zip(*(path.split(".") for path in paths), strict=False))
    places = [place for place, names in enumerate(columns) if len(set(names)) > 1]
    same_length = len({path.count(".") for path in paths}) == 1
    return places[0] if same_length and len(places) == 1 else None


def _brace(paths: Sequence[str]) -> str:
    place = _differing(paths)
    if place is None:
        return paths[0]
    segments = [path.split(".") for path in paths]
    end = "[]" if all(each[place].endswith("[]") for each in segments) else ""
    names = [each[place].removesuffix(end) for each in segments]
    one = segments[0]
    return ".".join([*one[:place], f"{{{','.join(names)}}}{end}", *one[place + 1 :]])


def _beyond(rows: Sequence[str], shared: Sequence[str]) -> list[str]:
    return [row for row in rows if row not in shared]


def _lacking(rows: Sequence[str], shared: Sequence[str]) -> list[str]:
    """Fields of the shared tables that the kind lacks. A missing object is listed without its fields."""
    paths = {_path(row) for row in rows}
    missing = [path for path in map(_path, shared) if path not in paths]
    return [path for path in missing if not any(path.startswith((f"{above}.", f"{above}[")) for above in missing)]


def _path(row: str) -> str:
    return row.split("`", 2)[1]


def _filled(paragraph: str) -> str:
    return textwrap.fill(paragraph, 100, break_long_words=False, break_on_hyphens=False) + "\n"


def _rows(path: str, node: Schema, *, required: bool) -> Iterator[str]:
    default = ", **required**" if required else f", `{_value(node['default'])}`" if "default" in node else ""
    if path.startswith("status"):  # only the operator writes it
        default = ""
    meaning = [node.get("description", "")]
    of_objects = list(_each(node)) if not path.endswith("ReplicaSpecs") else []
    meaning += [
        text for _, child in of_objects if _says_more(text := child.get("description", "")) and text not in meaning
    ]
    values = [f"`{_value(value)}`" for value in node.get("enum", ())]
    # Most descriptions explain each value. Go's clients write "" for a missing field.
    if any(value not in meaning[0] for value in values if value != '`""`'):
        meaning.append("One of " + ", ".join(values))
    is_conditions = path.endswith(".conditions")
    if is_conditions:
        meaning.append("Types: " + node["items"]["properties"]["type"]["description"])
    if not path.startswith("status"):
        meaning += _bounds(node)
    sentence = ". ".join(part.rstrip(".") for part in meaning if part)
    shown = path + "".join(suffix for suffix, _ in of_objects)
    yield f"| `{shown}` | {_type(node)}{default} | {_cell(sentence)} |"
    if path.rpartition(".")[2] in _AS_IN_A_POD or is_conditions:
        return
    for suffix, child in of_objects:
        yield from _below(path + suffix, child)
    if not of_objects:
        yield from _below(path, node)


def _says_more(text: str) -> bool:
    """True if the description of an object in a list or map adds more than its name, such as "A failed pod"."""
    return len(text) > 45


def _below(path: str, node: Schema) -> Iterator[str]:
    for name, child in _children(node):
        needed = name.lstrip(".") in node.get("required", ())
        yield from _rows(path + name, child, required=needed)


def _bounds(node: Schema) -> Iterator[str]:
    least, most = node.get("minimum"), node.get("maximum")
    if most in _INTEGER_LIMITS:
        most = None
    if least is not None and most is not None:
        yield f"{least} to {most}"
    elif least is not None:
        yield f"At least {least}"
    elif most is not None:
        yield f"At most {most}"
    if "pattern" in node:
        yield _PATTERNS.get(node["pattern"]) or f"Must match `{node['pattern']}`"


def _children(node: Schema) -> Iterator[tuple[str, Schema]]:
    yield from ((f".{name}", child) for name, child in node.get("properties", {}).items())
    yield from _each(node)


def _each(node: Schema) -> Iterator[tuple[str, Schema]]:
    """The objects of a list or map. They share its row."""
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
        many = "map" if "additionalProperties" in node else "list"
        return many if _type(inner) == "object" else f"{many} of {_type(inner)}"
    return str(node.get("type", "quantity"))


def _value(value: object) -> str:
    return (
        {True: "true", False: "false", "": '""'}.get(value, str(value)) if isinstance(value, bool | str) else str(value)
    )


def _cell(text: str) -> str:
    # A | ends the cell of a table in Markdown, also within backticks.
    return text.replace("|", "\\|")
