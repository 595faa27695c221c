"""Every field of every kind either shows in the converted job or stands in the report: none is dropped in silence."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.support.kinds import TEST_KINDS, TRAININGJOBS
from tests.unit.tjworker.convert.manifests import EXAMPLES, Json, converted, example, kind_of
from tjworker import convert
from tjworker.api import crd
from tjworker.api.schema import structural
from tjworker.convert.volcano.spec import JobSpec

BASES: dict[str, Json] = {name: example(name) for name in EXAMPLES}
EDL = "TrainingJob of EDL"
BASES[EDL] = TEST_KINDS[TRAININGJOBS].whole()
BASES[EDL]["spec"] |= {"fault_tolerant": True, "trainer_port": 8000, "trainer_ports_num": 1}
for elastic in ("pytorchjob.yaml", "paddlejob.yaml", "kubedl-pytorchjob.yaml"):
    BASES[elastic]["spec"]["elasticPolicy"] = {"minReplicas": 1, "maxReplicas": 4}
BASES["kubedl-pytorchjob.yaml"]["spec"]["enableElastic"] = True
MARS = BASES["kubedl-marsjob.yaml"]["spec"]["marsReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
MARS["resources"] = {"limits": {"memory": "1Gi"}}
BASES["mpijob.yaml, of v1"] = {**example("mpijob.yaml"), "apiVersion": "kubeflow.org/v1"}
OTHER: dict[str, Any] = {"string": "zz", "integer": 2, "boolean": True, "number": 1.5}
SAID_OF_THE_JOB: dict[str, dict[str, Any]] = {
    EDL: {
        "spec.frame_work.type": "nccl2",
        "spec.trainer.max-instance": 7,
        "spec.pserver.max-instance": 7,
        "spec.runPolicy.cleanPodPolicy": "Running",
    },
    "volcano-job.yaml": {"spec.tasks.1.minAvailable": 1},
}
"""Values that are valid where any other would not be."""
NO_CHANGE = {
    "spec.master.min-instance",  # 0 or 1, and there is one master
    "spec.master.max-instance",
    "spec.manifestVersion",  # the API server's own
    "spec.mpiImplementation",  # each finds its hostfile
    "spec.mpiDistribution",
    "kubedl-tfjob.yaml spec.successPolicy",  # its chief decides
}


def schema_of(raw: Json) -> Mapping[str, Any]:
    kind = kind_of(raw)
    if kind is None:
        return structural(JobSpec, defaults=False)
    found: Mapping[str, Any] = crd.schema(kind)["properties"]["spec"]
    return found


def places(schema: Mapping[str, Any], value: Any, path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every field of the schema outside of pod templates, below the maps and lists that the manifest has."""
    if path.endswith(".template"):
        return
    for name, part in (schema.get("properties") or {}).items():
        yield from places(part, value.get(name) if isinstance(value, dict) else None, f"{path}.{name}")
    others = schema.get("additionalProperties")
    if isinstance(others, Mapping) and isinstance(value, dict):
        for name, part in value.items():
            yield from places(others, part, f"{path}.{name}")
    if isinstance(value, list) and "items" in schema:
        for i, part in enumerate(value):
            yield from places(schema["items"], part, f"{path}.{i}")
    if schema.get("type") in OTHER and "x-kubernetes-int-or-string" not in schema:
        yield path, schema


def put(raw: Json, path: str, value: Any) -> Json:
    made = copy.deepcopy(raw)
    here: Any = made
    *before, last = path.split(".")
    for step in before:
        here = here[int(step)] if isinstance(here, list) else here.setdefault(step, {})
    here[int(last) if isinstance(here, list) else last] = value
    return made


def others(kind: str, path: str, schema: Mapping[str, Any], now: Any) -> list[Any]:
    """Values that the field has not, of which one at least says something."""
    if path in SAID_OF_THE_JOB.get(kind, {}):
        return [SAID_OF_THE_JOB[kind][path]]
    if "enum" in schema:
        return [v for v in schema["enum"] if v not in (now, "")]
    if schema["type"] == "boolean":
        return [not now, bool(now)]
    if schema["type"] == "integer":
        number = max(int(schema.get("minimum", 1)), 2)
        return [number if number != now else number + 1]
    return [OTHER[schema["type"]]]


def at(raw: Any, path: str) -> Any:
    for step in path.split("."):
        here = {str(i): part for i, part in enumerate(raw)} if isinstance(raw, list) else raw
        raw = here.get(step) if isinstance(here, dict) else None
    return raw


@pytest.mark.parametrize("kind", BASES)
def test_each_field_shows_or_is_reported(kind: str) -> None:
    before = BASES[kind]
    plain = converted(before).manifest["spec"]
    found = [
        place
        for place in places(schema_of(before), before["spec"], "spec")
        if not {place[0], f"{kind} {place[0]}"} & NO_CHANGE
    ]
    lost = [
        path
        for path, schema in found
        if not any(_is_told(before, plain, path, value) for value in others(kind, path, schema, at(before, path)))
    ]
    assert lost == [], "dropped in silence"
    assert len(found) >= 8


def _is_told(before: Json, plain: Json, path: str, value: Any) -> bool:
    raw = put(before, path, value)
    source = convert.find(raw)
    assert source is not None
    made = source.convert(raw)
    if isinstance(made, convert.RefusedManifest):
        return bool(made.errors)
    written = re.sub(r"\.(\d+)(?=\.|$)", r"[\1]", path)
    named = any(one.path == written or written.startswith((f"{one.path}.", f"{one.path}[")) for one in made.left)
    return named or made.manifest["spec"] != plain
