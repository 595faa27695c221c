"""Makes `builtin.json.gz` (the schemas of the built-in kinds) and `protobuf.json.gz` (their field numbers) out of
Kubernetes' own OpenAPI v3 documents and .proto files.

    python -m localcluster.apiserver.openapi.build <folder> <k8s.io/api source> <k8s.io/apimachinery source> ...

`<folder>` holds the documents of a running kube-apiserver (each path under /openapi/v3 saved as *_openapi.json): those
in Kubernetes' repository lack the enums that a server adds. Run by hand when the supported Kubernetes version changes;
safe to run twice (the same input gives the same bytes). Never used at run time. The documents are Kubernetes' own,
under the Apache License 2.0.
"""

from __future__ import annotations

import gzip
import re
import sys
from pathlib import Path
from typing import Any

import orjson

from localcluster.apiserver.openapi.references import references
from localcluster.resources import BUILTIN

TARGET = Path(__file__).with_name("builtin.json.gz")
PROTO_TARGET = Path(__file__).with_name("protobuf.json.gz")
_MESSAGE = re.compile(r"^message (\w+) \{(.*?)^\}", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r"^\s*(optional|repeated)?\s*(map<string,\s*[\w.]+>|[\w.]+) (\w+) = (\d+)", re.MULTILINE)
_EXTRA_KINDS = {
    ("", "v1", "Binding"),
    ("policy", "v1", "Eviction"),
    ("autoscaling", "v1", "Scale"),
    ("authentication.k8s.io", "v1", "TokenRequest"),
    ("", "v1", "Status"),
    ("", "v1", "DeleteOptions"),
}


def collect(documents: list[dict[str, Any]], kinds: set[tuple[str, str, str]]) -> dict[str, Any]:
    """The schemas of these (group, version, kind)s, their lists, and all that they refer to."""
    schemas: dict[str, Any] = {}
    for document in documents:
        schemas |= document["components"]["schemas"]
    wanted = kinds | {(group, version, kind + "List") for group, version, kind in kinds}
    todo = [
        name
        for name, schema in schemas.items()
        if any(
            (gvk["group"], gvk["version"], gvk["kind"]) in wanted
            for gvk in schema.get("x-kubernetes-group-version-kind", [])
        )
    ]
    chosen: dict[str, Any] = {}
    while todo:
        name = todo.pop()
        if name not in chosen:
            chosen[name] = schemas[name]
            todo.extend(references(schemas[name]))
    return dict(sorted(chosen.items()))


def messages(text: str) -> dict[str, Any]:
    """message -> field number -> [name, type, repeated]; types of messages are full names."""
    found = re.search(r"^package ([\w.]+);", text, re.MULTILINE)
    package = found.group(1) if found else ""
    result: dict[str, Any] = {}
    for name, body in _MESSAGE.findall(text):
        fields = {}
        for label, kind, field, number in _FIELD.findall(re.sub(r"//.*", "", body)):
            fields[number] = [field, _full(kind, package), label == "repeated"]
        result[f"{package}.{name}"] = fields
    return result


def _full(kind: str, package: str) -> str:
    if kind.startswith("map<"):
        return f"map {_full(kind[4:-1].split(',')[1].strip(), package)}"
    if kind.startswith("."):
        return kind[1:]
    return (
        kind
        if kind in ("string", "bytes", "bool", "int32", "int64", "double")
        else kind
        if "." in kind
        else f"{package}.{kind}"
    )


def collect_messages(table: dict[str, Any], wanted: list[str]) -> dict[str, Any]:
    chosen: dict[str, Any] = {}
    todo = list(wanted)
    while todo:
        name = todo.pop()
        if name in table and name not in chosen:
            chosen[name] = table[name]
            todo.extend(kind.removeprefix("map ") for _, kind, _ in table[name].values())
    return dict(sorted(chosen.items()))


def main(folder: Path, sources: list[Path]) -> None:
    documents = [orjson.loads(path.read_bytes()) for path in sorted(folder.glob("*_openapi.json"))]
    kinds = {(row.group, row.version, row.kind) for row in BUILTIN} | _EXTRA_KINDS
    chosen = collect([d for d in documents if "components" in d and "schemas" in d["components"]], kinds)
    TARGET.write_bytes(gzip.compress(orjson.dumps(chosen), 9, mtime=0))
    sys.stdout.write(f"{len(chosen)} schemas, {TARGET.stat().st_size} bytes: {TARGET.name}\n")
    table: dict[str, Any] = {}
    for source in sources:
        for path in sorted(source.rglob("generated.proto")):
            table |= messages(path.read_text())
    roots = ["k8s." + name.removeprefix("io.k8s.") if name.startswith("io.k8s.") else name for name in chosen]
    numbers = collect_messages(table, ["k8s.io." + name.removeprefix("k8s.") for name in roots])
    PROTO_TARGET.write_bytes(gzip.compress(orjson.dumps(numbers), 9, mtime=0))
    sys.stdout.write(f"{len(numbers)} messages, {PROTO_TARGET.stat().st_size} bytes: {PROTO_TARGET.name}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(text) for text in sys.argv[2:]])
