"""What the tests of `tj convert` convert."""

from __future__ import annotations

from typing import Any

from tests.support import fast_yaml as yaml
from tests.support.paths import ROOT
from tjworker import convert
from tjworker.api.kinds import KNOWN_KINDS, parse
from tjworker.api.kinds.base import JobKind
from tjworker.api.model import TrainingJob

Json = dict[str, Any]
FOLDER = ROOT / "examples/kinds"
EXAMPLES = sorted(path.name for path in FOLDER.glob("*.yaml"))


def example(name: str) -> Json:
    loaded: Json = yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))
    return loaded


def kind_of(raw: Json) -> JobKind | None:
    """Of those that are served."""
    kinds = {(version, kind.kind): kind for kind in KNOWN_KINDS.values() for version in kind.api_versions}
    return kinds.get((raw["apiVersion"], raw["kind"]))


SERVED = [name for name in EXAMPLES if kind_of(example(name))]


def standing(raw: Json) -> Json:
    """As the API server has it."""
    return {**raw, "metadata": {**raw["metadata"], "namespace": "default", "uid": "u", "resourceVersion": "1"}}


def converted(raw: Json) -> convert.Converted:
    source = convert.find(raw)
    assert source is not None, f"no row of SOURCES for {raw.get('kind')}"
    made = source.convert(raw)
    assert isinstance(made, convert.Converted), made.errors
    return made


def parsed(raw: Json) -> TrainingJob:
    """An AITrainingJob, or a job of a known kind."""
    kind = kind_of(raw)
    assert kind is not None
    version = raw["apiVersion"].rpartition("/")[2]
    spec = {**kind.version_defaults.get(version, {}), **raw["spec"]}
    job = parse(kind.resource, standing({**raw, "spec": spec}))
    assert isinstance(job, TrainingJob), job.errors
    return job


def rows(left: tuple[convert.Left, ...]) -> dict[str, Any]:
    return {one.path: one.value for one in left}
