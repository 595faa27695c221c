"""The examples of frameworks: the API server takes each, and its pods are told what its framework's launcher reads.
(`make test-frameworks` trains with them.)"""

from __future__ import annotations

import ast
import re
from typing import get_args

import pytest

from tests.support import fast_yaml as yaml
from tests.support.kinds import resource_of
from tests.support.paths import ROOT
from tests.unit.tjworker.reconcile.passes import World
from tjworker.api.kinds import parse
from tjworker.api.model import FrameworkType, TrainingJob
from tjworker.api.reporting import CA_CERT, SERVER_URL, TOKEN
from tjworker.reconcile.frameworks import FRAMEWORKS, find_framework

FOLDER = ROOT / "examples"
MANIFESTS = sorted(
    f"{path.parent.name}/{path.name}" for path in FOLDER.glob("*/*.yaml") if path.parent.name in FRAMEWORKS
)


def example(name: str) -> TrainingJob:
    manifest = yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))
    metadata = manifest["metadata"] | {"namespace": "default", "uid": "u", "resourceVersion": "1"}
    job = parse(resource_of(manifest), manifest | {"metadata": metadata})
    assert isinstance(job, TrainingJob), job.errors
    return job


def test_every_framework_has_one() -> None:
    assert {name.partition("/")[0] for name in MANIFESTS} == set(get_args(FrameworkType)) - {"", "any"}


@pytest.mark.parametrize("name", MANIFESTS)
def test_it_runs_to_its_end(name: str) -> None:
    """Every pod is made, whatever waits for what, and the job succeeds when they do."""
    job = example(name)
    assert job.framework == name.partition("/")[0]
    world = World(job).settle().all("running").settle().all("running").settle()
    assert len(world.pods) == sum(role.replicas for role in job.roles)
    assert world.job.status.phase == "Running"
    done = [n for n in world.pods if job.framework != "mpi" or "launcher" in n]
    for pod in done:
        world.set(pod, "succeeded")
    assert world.settle().job.status.phase in ("Succeed", "Terminating")


@pytest.mark.parametrize("name", MANIFESTS)
def test_its_programs_are_there_and_read_what_they_are_told(name: str) -> None:
    job = example(name)
    for role in job.roles:
        for container in role.template["spec"]["containers"]:
            (program,) = [word for word in container["command"] if word.startswith("examples/")]
            source = (ROOT / program).read_text(encoding="utf-8")
            ast.parse(source)
            told = set(find_framework(job).environment(job, role, 0)) | {"TRAININGJOB_SERVICE"}
            own = {entry["name"] for entry in container.get("env", ())} | {SERVER_URL, CA_CERT, TOKEN}
            reads = set(re.findall(r'os\.environ\["(\w+)"\]', source))
            assert reads <= told | own, f"{program} reads what nobody sets"
    text = (FOLDER / name).read_text(encoding="utf-8")
    assert f"kubectl apply -f examples/{name}" in text
    assert f"aitj/{job.name.name} " in text
