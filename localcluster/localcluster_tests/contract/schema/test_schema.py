"""The schema library gives the API server's own answers: what k8s.io/apiextensions-apiserver v0.36.3 said when its
validators were run on the cases of `objects.txt` (custom resources) and `schemas.txt` (a CRD with one version).

A case is its sentence (`==`), its `schema` (that of spec; `root`: of the whole object), the `value` (an update: from
`old`), all in JSON, and a line `- REASON FIELD: MESSAGE` for each cause; a message with a line break is quoted.
"""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from localcluster.schema import FieldCause, StructuralSchema

PATH = "spec.validation.openAPIV3Schema"


@dataclass
class Case:
    parts: dict[str, Any] = field(default_factory=dict)
    want: list[tuple[str, str, str]] = field(default_factory=list)
    """(reason, message, field)"""

    @property
    def schema(self) -> dict[str, Any]:
        root: dict[str, Any] | None = self.parts.get("root")
        return root or {"type": "object", "properties": {"spec": self.parts["schema"]}}

    def object(self, part: str) -> dict[str, Any]:
        rest = self.parts[part] if "root" in self.parts else {"metadata": {"name": "a"}, "spec": self.parts[part]}
        return {"apiVersion": "example.com/v1", "kind": "Foo", **rest}


def load(name: str) -> dict[str, Case]:
    cases: dict[str, Case] = {}
    for line in Path(__file__).with_name(name).read_text(encoding="utf-8").splitlines():
        word, _, rest = line.partition(" ")
        if word == "==":
            case = cases[rest] = Case()
        elif word == "-":
            head, _, message = rest.partition(": ")
            reason, place = head.split(" ", 1)
            case.want.append((reason, json.loads(message) if message.startswith('"') else message, place))
        else:
            case.parts[word] = json.loads(rest)
    return cases


OBJECTS, SCHEMAS = load("objects.txt"), load("schemas.txt")


def _tuples(causes: list[FieldCause]) -> list[tuple[str, str, str]]:
    return sorted((cause.reason, cause.message, cause.field) for cause in causes)


@pytest.mark.parametrize("case", OBJECTS.values(), ids=OBJECTS.keys())
def test_an_object_is_refused_with_the_api_servers_causes(case: Case) -> None:
    schema, obj = StructuralSchema(case.schema), case.object("value")
    schema.prune(obj)
    schema.default(obj)
    before = copy.deepcopy(obj)
    assert _tuples(schema.validate(obj, case.object("old") if "old" in case.parts else None)) == sorted(case.want)
    assert obj == before, "validation changes nothing"


@pytest.mark.parametrize("case", SCHEMAS.values(), ids=SCHEMAS.keys())
def test_a_schema_is_refused_with_the_api_servers_causes(case: Case) -> None:
    given = case.parts["schema"]
    schema = copy.deepcopy(given)
    assert _tuples(StructuralSchema(schema).check(PATH)) == sorted(case.want)
    assert schema == given, "a check changes nothing"
