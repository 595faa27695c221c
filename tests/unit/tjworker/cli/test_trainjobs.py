"""TrainJobs and their runtimes at the commands: a job is more than its manifest, and may come before its runtime."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.support import fast_yaml as yaml
from tests.support.trainer import RESOURCE, RUNTIMES, Json, train_job
from tests.unit.tjworker.cli.conftest import CRDS, TypedAt
from tjworker.api import crd
from tjworker.api.kinds import COMPANIONS
from tjworker.api.resources import NODES
from tjworker.base import GroupResource
from tjworker.cli.manifests import Manifest, errors
from tjworker.kube.resources import RESOURCES

OF_CLUSTER = GroupResource("clustertrainingruntimes.trainer.kubeflow.org")
OF_NAMESPACE = GroupResource("trainingruntimes.trainer.kubeflow.org")
PLAIN = RUNTIMES["plain"]
OWN: Json = {**PLAIN, "kind": "TrainingRuntime"}
JOB = train_job("plain", trainer={"image": "trainer:1"})
JOB_OF_OWN = train_job("plain", runtimeRef={"name": "plain", "kind": "TrainingRuntime"})
MISSING = "spec.runtimeRef.name: ClusterTrainingRuntime plain does not exist; create it, and the job starts"
WAITS: Json = {
    "conditions": [
        {
            "type": "Waiting",
            "status": "True",
            "reason": "ClusterTrainingRuntimeNotFound",
            "message": MISSING,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
    ],
    "message": MISSING,
}
CONTAINER = ("spec", "template", "spec", "replicatedJobs", 0, "template", "spec", "template", "spec", "containers", 0)


crd_of = cache(crd.build_companion)


@pytest.fixture
def at(a_cluster: Callable[..., TypedAt]) -> TypedAt:
    made = a_cluster(str(RESOURCE))
    for companion in COMPANIONS.values():
        made._post(CRDS, crd_of(companion))
    return made


def add(at: TypedAt, made: Json) -> None:
    resource = OF_CLUSTER if made["kind"].startswith("Cluster") else OF_NAMESPACE
    at._post(RESOURCES[resource].path("default" if resource == OF_NAMESPACE else ""), made)


def waiting(at: TypedAt) -> None:
    made = at.make(RESOURCE, JOB)
    at.api.update_status(RESOURCE, "default", "digits", made | {"status": {"operator": WAITS}})


def file(folder: Path, *made: Json) -> str:
    path = folder / "made.yaml"
    path.write_text("---\n".join(yaml.safe_dump(one) for one in made), encoding="utf-8")
    return str(path)


@dataclass(frozen=True)
class Submitted:
    there: tuple[Json, ...]
    given: tuple[Json, ...]
    want: str = ""
    """Of stderr; '': nothing but that the job was made."""


SUBMITTED = {
    "its runtime is there": Submitted((PLAIN,), (JOB,)),
    "its runtime is the namespace's own": Submitted((OWN,), (JOB_OF_OWN,)),
    "its runtime stands after it in the file": Submitted((), (JOB, PLAIN)),
    "its runtime is not there: it waits": Submitted((), (JOB,), f"digits: it waits: {MISSING}"),
    "its runtime does not suit it": Submitted(
        (PLAIN,),
        (train_job("plain", initializer={"dataset": {"storageUri": "hf://a"}}),),
        "digits: its spec cannot be used: spec.initializer.dataset: ClusterTrainingRuntime plain must have",
    ),
}


@pytest.mark.parametrize("case", SUBMITTED.values(), ids=SUBMITTED.keys())
def test_a_job_that_is_made_is_no_failure(case: Submitted, at: TypedAt, tmp_path: Path) -> None:
    for one in case.there:
        add(at, one)
    done = at.tj("submit", file(tmp_path, *case.given))
    assert done.exit_code == 0, done.output
    assert "digits: created in namespace default" in done.stdout
    assert done.stderr.startswith(case.want) if case.want else done.stderr == ""


def test_what_its_runtime_asks_for_is_held_against_the_nodes(at: TypedAt, tmp_path: Path) -> None:
    large = copy.deepcopy(PLAIN)
    reach(large, CONTAINER)["resources"] = {"requests": {"cpu": "64"}}
    add(at, large)
    ready = {"allocatable": {"cpu": "2", "memory": "8Gi", "pods": "9"}, "conditions": []}
    at._post(RESOURCES[NODES].path(""), {"metadata": {"name": "n"}, "status": ready})
    done = at.tj("submit", file(tmp_path, JOB))
    assert "fits no node of the cluster, however empty: cpu 64 (a node has at most 2)" in done.stderr, done.output


def reach(made: Any, path: tuple[str | int, ...]) -> Any:
    for step in path:
        made = made[step]
    return made


SHOWN: dict[str, tuple[tuple[str, ...], str]] = {
    "get has kubectl's word": (("get",), "digits   Waiting"),
    "get of the one says why": (("get", "digits"), MISSING),
    "describe is the whole page": (("describe", "digits"), "TrainJob digits in namespace default is Waiting for"),
    "and says what is missing": (("describe", "digits"), MISSING),
    "timeline says that it waits": (("timeline", "digits"), "TrainJob default/digits: Waiting now"),
    "suspend keeps it from starting": (("suspend", "digits"), "digits"),
}


@pytest.mark.parametrize(("args", "says"), SHOWN.values(), ids=SHOWN.keys())
def test_a_job_that_waits_for_its_runtime_waits(args: tuple[str, ...], says: str, at: TypedAt) -> None:
    waiting(at)
    done = at.tj(*args)
    assert done.exit_code == 0, done.output
    assert says in " ".join(done.stdout.split(" ")), done.output
    assert "cannot be used" not in done.output
    assert "has not taken it up" not in done.output


REFUSED: dict[str, tuple[tuple[str, ...], str]] = {
    "there are no logs yet": (("logs", "digits"), "digits (Waiting) has no such pods now; `tj describe digits` says"),
    "it has no size yet": (("scale", "digits", "--replicas", "2"), f"digits waits: {MISSING}"),
}


@pytest.mark.parametrize(("args", "says"), REFUSED.values(), ids=REFUSED.keys())
def test_what_a_waiting_job_cannot_do_is_said_so(args: tuple[str, ...], says: str, at: TypedAt) -> None:
    waiting(at)
    done = at.tj(*args)
    assert done.exit_code == 1
    assert says in done.stderr


def test_a_job_that_the_operator_has_not_taken_up_is_described_with_its_runtime(at: TypedAt) -> None:
    add(at, PLAIN)
    at.make(RESOURCE, JOB)
    assert "node-0: 0 of 1 run" in at.tj("describe", "digits").stdout


WRONG: dict[str, tuple[tuple[str | int, ...], Any, str]] = {
    "no replicated job trains": (
        (*CONTAINER[:6], "metadata"),
        {},
        "spec: has no replicated job with the label trainer.kubeflow.org/trainjob-ancestor-step: trainer",
    ),
    "the container of a step has another name": (
        (*CONTAINER, "name"),
        "main",
        "spec.template.spec.replicatedJobs[node].template: must have a container named node",
    ),
    "a field of a pod is misspelt": (
        (*CONTAINER, "imag"),
        "x",
        "spec.template.spec.replicatedJobs[0].template.spec.template.spec.containers[0].imag: unknown field; did you"
        " mean 'image'?",
    ),
    "a field of the runtime is misspelt": (
        ("spec", "mlPolicy", "numNode"),
        2,
        "spec.mlPolicy.numNode: unknown field; did you mean 'numNodes'?",
    ),
    "a value is of another type": (("spec", "mlPolicy", "numNodes"), "2", "spec.mlPolicy.numNodes: '2' is text"),
}


def spoilt(path: tuple[str | int, ...], value: Any) -> Json:
    made = copy.deepcopy(PLAIN)
    reach(made, path[:-1])[path[-1]] = value
    return made


@pytest.mark.parametrize(("path", "value", "says"), WRONG.values(), ids=WRONG.keys())
def test_a_runtime_is_checked_like_a_job(path: tuple[str | int, ...], value: Any, says: str) -> None:
    (error,) = errors(Manifest("f", spoilt(path, value)))
    assert str(error).startswith(says)


@pytest.mark.parametrize("name", RUNTIMES)
def test_the_runtimes_of_trainer_are_valid(name: str) -> None:
    assert errors(Manifest("f", RUNTIMES[name])) == []


SPOILT = spoilt(("spec", "mlPolicy", "numNodes"), "2")
COMMANDS: dict[str, tuple[str, tuple[Json, ...], int, str]] = {
    "validate names a runtime that is valid": ("validate", (PLAIN,), 0, "ClusterTrainingRuntime plain is valid"),
    "submit makes nothing of a wrong one": ("submit", (SPOILT, JOB), 1, "spec.mlPolicy.numNodes: '2' is text"),
    "a runtime alone is nothing to submit": ("submit", (PLAIN,), 1, "has no job; `kubectl apply -f` applies"),
}


@pytest.mark.parametrize(("command", "given", "code", "says"), COMMANDS.values(), ids=COMMANDS.keys())
def test_runtimes_in_files(
    command: str, given: tuple[Json, ...], code: int, says: str, typed_at: TypedAt, tmp_path: Path
) -> None:
    done = typed_at.tj(command, file(tmp_path, *given))
    assert (done.exit_code, says in done.output) == (code, True), done.output
