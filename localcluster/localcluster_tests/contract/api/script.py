"""Cases of the contract as text: requests, and under each the answer that a real kube-apiserver gives. Parses; sends
nothing.

A file holds definitions (`LET`) and cases. A case is an English sentence and its steps; it runs in a namespace of its
own:

    LET c containers: [{name: c, image: x}]

    # a second create of the same name is refused and changes nothing
    a := POST configmaps {metadata: {name: a}, data: {k: "1"}}
    = 201
    POST configmaps {metadata: {name: a}, data: {k: "2"}}
    = 409 AlreadyExists: configmaps "a" already exists {"kind": "configmaps", "name": "a"}
    GET configmaps/${a.metadata.name} | data.k
    = 200 "1"

| step | meaning |
|---|---|
| `METHOD[:how] path [body] [| views]` | one request; an indented line goes on with it |
| `WAIT[:seconds] METHOD path [| views]` | again and again until the answer is the one that is written below |
| `HOLDS:seconds METHOD path [| views]` | for that long the answer is the one that is written below |
| `w := WATCH[:how] path` | opens a watch |
| `EVENTS[:all] w n [| views]` | its next n events; `end` for n: until the server ends it; `:all` shows bookmarks too |
| `name := ...` | keeps the answer: `${name.metadata.uid}` in later steps |

`path` is absolute, or starts with a plural of `PLURALS` and is taken in the case's namespace. `$ns` is that namespace,
`$word` a definition of the file, `$$` a dollar. `how`: a content type of `HOW` for a body, else an Accept header. The
body is YAML, `apiVersion` and `kind` are added unless it has them; after `!` it is sent unchanged. Views are paths
into the answer: `*` for each item, `name=x` the item of that name, `\\.` a dot, `.` the whole, `#` in front counts, `~`
sorts, `?` says whether it is there at all.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path(__file__).with_name("cases")
WAIT_SECONDS = 120.0

PLURALS = {
    "configmaps": ("/api/v1", "v1", "ConfigMap"),
    "endpoints": ("/api/v1", "v1", "Endpoints"),
    "events": ("/api/v1", "v1", "Event"),
    "persistentvolumeclaims": ("/api/v1", "v1", "PersistentVolumeClaim"),
    "pods": ("/api/v1", "v1", "Pod"),
    "secrets": ("/api/v1", "v1", "Secret"),
    "serviceaccounts": ("/api/v1", "v1", "ServiceAccount"),
    "services": ("/api/v1", "v1", "Service"),
    "replicasets": ("/apis/apps/v1", "apps/v1", "ReplicaSet"),
    "jobs": ("/apis/batch/v1", "batch/v1", "Job"),
    "leases": ("/apis/coordination.k8s.io/v1", "coordination.k8s.io/v1", "Lease"),
    "endpointslices": ("/apis/discovery.k8s.io/v1", "discovery.k8s.io/v1", "EndpointSlice"),
}
CLUSTER_WIDE = {
    "namespaces": ("/api/v1", "v1", "Namespace"),
    "nodes": ("/api/v1", "v1", "Node"),
    "persistentvolumes": ("/api/v1", "v1", "PersistentVolume"),
    "storageclasses": ("/apis/storage.k8s.io/v1", "storage.k8s.io/v1", "StorageClass"),
    "priorityclasses": ("/apis/scheduling.k8s.io/v1", "scheduling.k8s.io/v1", "PriorityClass"),
    "customresourcedefinitions": (
        "/apis/apiextensions.k8s.io/v1",
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
    ),
}
SUBRESOURCE_KINDS = {
    "eviction": ("policy/v1", "Eviction"),
    "binding": ("v1", "Binding"),
    "scale": ("autoscaling/v1", "Scale"),
    "token": ("authentication.k8s.io/v1", "TokenRequest"),
}
HOW = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
    "yaml": "application/yaml",
    "table": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
    "partial": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json",
    "partiallist": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json",
}


class ScriptError(Exception):
    """A case file that cannot be understood: names file and line."""


@dataclass(slots=True)
class Step:
    text: str
    """The text in the file, continuation lines included."""
    line: int
    want: str = ""
    verb: str = ""
    """WAIT, HOLDS, EVENTS, WATCH, or empty for a plain request."""
    seconds: float = WAIT_SECONDS
    save: str = ""
    method: str = ""
    how: str = ""
    target: str = ""
    body: str = ""
    views: tuple[str, ...] = ()


@dataclass(slots=True)
class Case:
    sentence: str
    file: str
    line: int
    definitions: dict[str, str]
    steps: list[Step] = field(default_factory=list)


_STEP = re.compile(
    r"(?:(?P<save>\w+) := )?(?:(?P<verb>WAIT|HOLDS)(?::(?P<seconds>[\d.]+))? )?"
    r"(?P<method>[A-Z]+)(?::(?P<how>\S+))? (?P<rest>.*)",
    re.DOTALL,
)
_VIEWS = re.compile(r"\s\|\s(?P<views>[^|{}\[\]]*)$")


def load(folder: Path = FOLDER) -> list[Case]:
    cases = [case for file in sorted(folder.glob("*.txt")) for case in parse(file)]
    sentences = [case.sentence for case in cases]
    if twice := {sentence for sentence in sentences if sentences.count(sentence) > 1}:
        raise ScriptError(f"the same sentence twice: {', '.join(sorted(twice))}")
    return cases


def parse(file: Path) -> list[Case]:
    cases: list[Case] = []
    definitions: dict[str, str] = {}
    for number, line in _logical_lines(file.read_text(encoding="utf-8")):
        if line.startswith("LET "):
            name, _, text = line[4:].partition(" ")
            definitions[name] = text.strip()
        elif line.startswith("# "):
            cases.append(Case(line[2:].strip(), file.stem, number, definitions))
        elif line.startswith("= ") or line == "=":
            if not cases or not cases[-1].steps:
                raise ScriptError(f"{file.name}:{number}: an answer without a request")
            cases[-1].steps[-1].want = line[2:]
        elif cases:
            cases[-1].steps.append(_step(file, number, line))
        else:
            raise ScriptError(f"{file.name}:{number}: a step before the first case (`# sentence`)")
    return cases


def _logical_lines(text: str) -> list[tuple[int, str]]:
    """Lines with their continuations; notes (`#:`) and empty lines are left out."""
    lines: list[tuple[int, str]] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#:"):
            continue
        if line[0] == " ":
            lines[-1] = (lines[-1][0], f"{lines[-1][1]}\n{line}")
        else:
            lines.append((number, line.rstrip()))
    return lines


def _step(file: Path, number: int, line: str) -> Step:
    found = _STEP.fullmatch(line)
    if found is None:
        raise ScriptError(f"{file.name}:{number}: not a step: {line}")
    rest: str = found["rest"]
    views: tuple[str, ...] = ()
    if found_views := _VIEWS.search(rest):
        rest, views = rest[: found_views.start()], tuple(view.strip() for view in found_views["views"].split(","))
    target, _, body = rest.partition(" ")
    method = found["method"]
    return Step(
        line,
        number,
        verb=found["verb"] or (method if method in ("EVENTS", "WATCH") else ""),
        seconds=float(found["seconds"] or WAIT_SECONDS),
        save=found["save"] or "",
        method=method,
        how=found["how"] or "",
        target=target.strip(),
        body=body.strip(),
        views=views,
    )
