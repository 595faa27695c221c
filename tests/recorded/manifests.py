"""Manifests of every kind, drawn: an example of the kind, and up to four fields of its schema changed. What they
become: the internal job, the first pass over it, and the converted manifest with its comments.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import yaml

from tests.recorded.lives import said
from tests.support.kinds import AITRAININGJOBS, ODD, TEST_KINDS, TRAININGJOBS
from tests.support.paths import ROOT
from tjworker import convert
from tjworker.api.kinds import KNOWN_KINDS, OWNERS, parse
from tjworker.api.observed import Observed
from tjworker.api.schema import structural
from tjworker.controllers.jobs import reconcile_rules
from tjworker.convert import comments
from tjworker.convert.known import _schema as _schema_of
from tjworker.convert.volcano.spec import JobSpec
from tjworker.reconcile import reconcile
from tjworker.settings import Settings

Json = dict[str, Any]
NOW = 1_767_225_600.0
RULES = reconcile_rules(Settings())
MOST_FIELDS = 4
WRONG = 0.04
"""Of the values, so many are none that the schema allows; the operator reads what an older API server let pass."""
WRITTEN = 0.15
"""Of the converted manifests, so many are written as YAML, which takes longest."""
_PORT = [{"name": "MPI_AGENT_PORT", "value": "2300"}, {"name": "ZK_ADDR", "value": "zfs://z:2181/"}]
CONTAINER: Mapping[str, tuple[Any, ...]] = {
    "args": (["--epochs", "3"],),
    "command": (["python", "train.py"],),
    "env": ([{"name": "MASTER_ADDR", "value": "mine"}], [{"name": "PET_NPROC_PER_NODE", "value": "9"}], _PORT),
    "name": ("main", "mpi", "tensorflow"),
    "ports": (
        [{"name": "x", "containerPort": 9999}],
        [{"name": "aitj-1", "containerPort": 1}],
        [{"name": "mpi-port", "containerPort": 2200}, {"name": "pytorchjob-port", "containerPort": 2300}],
    ),
    "resources": (
        {"limits": {"nvidia.com/gpu": 2, "memory": "1Gi"}},
        {"requests": {"cpu": "500m", "memory": "1000000077"}},
        {"requests": {"memory": "77M"}, "limits": {"memory": "99M"}},
    ),
}
POD: Mapping[str, tuple[Any, ...]] = {
    "hostNetwork": (True,),
    "hostname": ("mine",),
    "restartPolicy": ("Always", "Never"),
    "schedulerName": ("volcano",),
    "subdomain": ("mine",),
    "volumes": ([{"name": "data", "emptyDir": {}}],),
}
METADATA: Mapping[str, tuple[Any, ...]] = {
    "annotations": (
        {"elasticdeeplearning.ai/edl-policy": "Auto"},
        {"kubedl.io/network-mode": "host", "note": "a"},
        {"kubedl.io/tensorboard-config": '{"logDir": "/logs", "ttlSecondsAfterJobFinished": 60}'},
        {"kubedl.io/git-sync-config": '{"source": "https://example.com/a.git"}', "kubedl.io/pod-batch-size": "2"},
    ),
    "labels": ({"kueue.x-k8s.io/queue-name": "research"}, {"team": "vision"}),
    "finalizers": (["example.com/mine"],),
}
NAMES = ("x", "y-1")
PLUGINS = {"pytorch": ["--master=master", "--worker=x"], "svc": [], "ssh": [], "env": [], "tensorflow": ["--ps=x"]}
SAMPLES: Mapping[str, list[Any]] = {
    "plugins": [{}, PLUGINS, {"svc": ["--publish-not-ready-addresses=true"]}, {"mpi": ["--master=x", "--port=23"]}]
}
"""By the name of a field: values that mean something."""


@cache
def bases() -> Mapping[str, Json]:
    """An example of each kind, by the name of its file."""
    folder = ROOT / "examples/kinds"
    found = {path.name: yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.yaml"))}
    found["of EDL"] = TEST_KINDS[TRAININGJOBS].whole()
    found["AITrainingJob"] = TEST_KINDS[AITRAININGJOBS].whole()
    for elastic in ("pytorchjob.yaml", "paddlejob.yaml", "kubedl-pytorchjob.yaml"):
        made = found[f"{elastic}, elastic"] = copy.deepcopy(found[elastic])
        made["spec"] |= {"elasticPolicy": {"minReplicas": 1, "maxReplicas": 4}}
    made["spec"]["enableElastic"] = True
    found["mpijob.yaml of v1"] = {**found["mpijob.yaml"], "apiVersion": "kubeflow.org/v1"}
    return found


def draw_manifest(name: str, number: int) -> Json:
    draw = random.Random(f"{name} {number}")
    raw = copy.deepcopy(bases()[name])
    raw["metadata"]["name"] = draw.choice((*NAMES, "n" * 40, "n" * 56, "A_b")) if draw.random() < 0.1 else "digits"
    fields = _fields(name)
    for path, values in draw.sample(fields, min(len(fields), draw.randint(0, MOST_FIELDS))):
        _put(raw, path, draw.choice(values) if draw.random() > WRONG else draw.choice(ODD))
    for template in _templates(raw["spec"]):
        for container in template["spec"]["containers"]:
            _some(draw, container, CONTAINER, 0.16)
        if draw.random() < 0.25:
            beside = {"name": draw.choice(("side", "mpi")), "image": "side:1", "ports": [{"containerPort": 2200}]}
            template["spec"]["containers"].insert(draw.choice((0, 1)), beside)
        _some(draw, template["spec"], POD, 0.1)
    _some(draw, raw["metadata"], METADATA, 0.15)
    if draw.random() < 0.1:
        raw["status"] = _status_of_another(draw)
    return raw


def _status_of_another(draw: random.Random) -> Json:
    """As the kind's own operator left it, or nobody."""
    types = draw.sample(("Created", "Running", "Restarting", "Suspended", "Succeeded", "Failed"), draw.randint(0, 3))
    told: list[Any] = [{"type": name, "status": draw.choice(("True", "False"))} for name in types]
    return {"conditions": draw.choice((told, told, told, "x", [None, *told])), "phase": draw.choice(("Running", 1))}


def answer(raw: Json, seed: str) -> Json:
    """Of a kind that is served: the job, and the first pass over it. Of one that can be converted: what comes of it."""
    return {"read": _read(raw), "converted": _converted(raw, random.Random(seed))}


def _read(raw: Json) -> Any:
    resource = OWNERS.get((raw["apiVersion"].partition("/")[0], raw["kind"]))
    if resource is None:
        return None
    version = raw["apiVersion"].rpartition("/")[2]
    spec = {**KNOWN_KINDS[resource].version_defaults.get(version, {}), **raw["spec"]}
    meta = {**raw["metadata"], "namespace": "default", "uid": "u", "resourceVersion": "7", "generation": 2}
    job = parse(resource, {**raw, "spec": spec, "metadata": meta})
    return job, said(reconcile(job, Observed(), NOW, RULES))


def _converted(raw: Json, draw: random.Random) -> Any:
    source = convert.find(raw)
    if source is None:
        return None
    made = source.convert(raw)
    if isinstance(made, convert.Refused):
        return [str(error) for error in made.errors]
    told = [str(left) for left in made.left], made.notes
    if draw.random() > WRITTEN:
        return made.manifest, sorted(made.origins.items(), key=repr), told
    text, lost = comments.write(made.manifest, comments.read(_commented(raw, draw))[0], made.origins)
    return text, lost, told


class _Dumper(yaml.SafeDumper):
    """Texts of several lines as blocks, all others on one line."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Dumper.add_representer(str, _text)


def _commented(raw: Json, draw: random.Random) -> str:
    """As a person writes it."""
    lines: list[str] = []
    block = -1
    text = yaml.dump(raw, Dumper=_Dumper, width=1 << 30, default_flow_style=draw.choice((False, None)))
    for number, line in enumerate(text.splitlines()):
        indent = len(line) - len(line.lstrip())
        if 0 <= block < indent or (block >= 0 and not line):
            lines.append(line)
            continue
        block = indent if line.endswith(("|", "|-", "|+")) else -1
        if draw.random() < 0.2:
            lines.append(f"{' ' * indent}# above {number}")
        lines.append(f"{line}  # beside {number}" if draw.random() < 0.2 else line)
    return "\n".join(lines) + "\n# the end\n"


# -- fields ----------------------------------------------------------------------------------------
@cache
def _fields(name: str) -> list[tuple[tuple[str | int, ...], list[Any]]]:
    raw = bases()[name]
    return sorted(_places(_schema(raw), raw["spec"], ("spec",)), key=lambda one: repr(one[0]))


def _schema(raw: Json) -> Json:
    resource = OWNERS.get((raw["apiVersion"].partition("/")[0], raw["kind"]))
    if resource is None:
        return dict(structural(JobSpec, defaults=False))
    return dict(_schema_of(resource))  # the one that `tj convert` has made already: it takes long


def _places(schema: Json, value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], list[Any]]]:
    """Every field outside of pod templates, below the maps and lists that the manifest has, with values for it."""
    if path[-1] == "template":
        return
    if values := SAMPLES.get(str(path[-1]), _values(schema)):
        yield path, values
    for name, part in (schema.get("properties") or {}).items():
        yield from _places(part, value.get(name) if isinstance(value, dict) else None, (*path, name))
    others = schema.get("additionalProperties")
    if isinstance(others, dict) and isinstance(value, dict):
        for name, part in value.items():
            yield from _places(others, part, (*path, name))
    if isinstance(value, list) and "items" in schema:
        for i, part in enumerate(value):
            yield from _places(schema["items"], part, (*path, i))


def _values(schema: Json) -> list[Any]:
    if "enum" in schema:
        return list(schema["enum"])
    if schema.get("x-kubernetes-int-or-string"):
        return [1, "250m", "2Gi"]
    if schema.get("pattern", "").startswith("^(/"):
        return ["/keys", "/root/.ssh", ""]
    low, high = int(schema.get("minimum", 0)), schema.get("maximum")
    by_type: Mapping[str, list[Any]] = {
        "boolean": [True, True, False],
        "integer": [low, low + 1, low + 2, 5, *([high] if high and high <= 100 else [])],
        "string": [*NAMES, ""],
        "array": [],
    }
    return by_type.get(schema.get("type", ""), [])


def _put(raw: Json, path: tuple[str | int, ...], value: Any) -> None:
    here: Any = raw
    for step in path[:-1]:
        here = here[step] if isinstance(step, int) else here.setdefault(step, {})
    here[path[-1]] = value


def _templates(value: Any) -> Iterator[Json]:
    for name, part in value.items() if isinstance(value, dict) else ():
        if name == "template" and "spec" in part and "containers" in part["spec"]:
            yield part
        else:
            yield from _templates(part)
    for part in value if isinstance(value, list) else ():
        yield from _templates(part)


def _some(draw: random.Random, of: Json, values: Mapping[str, tuple[Any, ...]], likely: float) -> None:
    for name, choices in values.items():
        if draw.random() < likely:
            of[name] = copy.deepcopy(draw.choice(choices))
