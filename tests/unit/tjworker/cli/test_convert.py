"""Table: `tj convert` as a user types it: exit codes, what goes where, and what it says of anything else."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest
from click.testing import CliRunner

from tests.support import fast_yaml as yaml
from tests.support.paths import ROOT
from tjworker.cli.convert import convert
from tjworker.cli.errors import EXIT_LEFT_OUT, UserError

FOLDER = ROOT / "examples/kinds"
JAXJOB = (FOLDER / "jaxjob.yaml").read_text(encoding="utf-8")
MANAGED = JAXJOB.replace("metadata:\n", "metadata:\n  finalizers: [example.com/hold]\n", 1)
SIDECAR_FIRST = JAXJOB.replace("containers:\n", "containers:\n          - {name: proxy, image: proxy}\n")
CLAIM = "# disk\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data}\n"
PYTORCHJOB = (
    (FOLDER / "pytorchjob.yaml").read_text(encoding="utf-8").replace("backoffLimit: 3", "suspend: true  # later")
)
TORCHRUN = re.sub(r"command: .*", "command: [torchrun, train.py]", PYTORCHJOB)
OWN = "apiVersion: elasticdeeplearning.ai/v1\nkind: AITrainingJob\nmetadata: {name: a}\nspec: {}\n"


@dataclass(frozen=True)
class Case:
    stdin: str
    args: tuple[str, ...] = ()
    want_code: int = 0
    want_kinds: tuple[str, ...] = ("AITrainingJob",)
    want_says: tuple[str, ...] = ()


CASES: dict[str, Case] = {
    "all of it carries over": Case(JAXJOB, want_says=("note: its pods and services no longer have labels training",)),
    "a field does not: the job is printed, and the exit code says so": Case(
        MANAGED,
        want_code=EXIT_LEFT_OUT,
        want_says=(
            '-: metadata.finalizers: ["example.com/hold"]: the programs that set them know only the old object',
            "1 field does not carry",
        ),
    ),
    "a sidecar stands before the container whose exit code counts": Case(
        SIDECAR_FIRST,
        want_code=EXIT_LEFT_OUT,
        want_says=("the exit code of jax counted; in an AITrainingJob that of proxy does; put jax first",),
    ),
    "with --strict nothing is printed then": Case(MANAGED, ("--strict",), EXIT_LEFT_OUT, (), ("1 field does not",)),
    "objects beside a job are printed as they are": Case(
        f"{CLAIM}---\n{JAXJOB}",
        want_kinds=("PersistentVolumeClaim", "AITrainingJob"),
        want_says=("-, document 1 (line 2): PersistentVolumeClaim (v1) is not a job: printed as it is",),
    ),
    "a list is what it lists": Case(
        yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": [yaml.safe_load(JAXJOB)] * 2}),
        want_kinds=("AITrainingJob", "AITrainingJob"),
    ),
    "a PyTorchJob as a TrainJob": Case(
        TORCHRUN,
        ("--to", "TrainJob"),
        want_kinds=("TrainJob",),
        want_says=("note: it names the runtime torch-distributed, which must exist",),
    ),
    "of a job whose program is not torchrun's": Case(
        PYTORCHJOB,
        ("--to", "trainjob"),
        EXIT_LEFT_OUT,
        ("TrainJob",),
        ("read PET_MASTER_ADDR, PET_MASTER_PORT, PET_NODE_RANK and PET_NNODES", "and the command has no torchrun"),
    ),
}


def run(text: str, *args: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(convert, [*args, "-"], input=text, standalone_mode=False, catch_exceptions=False)
    return done.return_value or 0, done.stdout, done.stderr


@pytest.mark.parametrize("sentence", CASES)
def test_convert(sentence: str) -> None:
    case = CASES[sentence]
    code, out, err = run(case.stdin, *case.args)
    assert code == case.want_code, err
    assert tuple(document["kind"] for document in yaml.safe_load_all(out) if document) == case.want_kinds
    for words in case.want_says:
        assert words in err


NO_TRAINJOB = {
    "JAXJob": "its program reads COORDINATOR_ADDRESS, NUM_PROCESSES and PROCESS_ID; the runtime jax-distributed sets",
    "XGBoostJob": "its program reads MASTER_ADDR, RANK and WORLD_SIZE; the runtime xgboost-distributed sets",
    "MPIJob": "a runtime for MPI starts sshd with its own user and paths",
    "TFJob": "Kubeflow Trainer has no runtime for TensorFlow",
    "PaddleJob": "Kubeflow Trainer has no runtime for Paddle",
}


@pytest.mark.parametrize(("kind", "why"), NO_TRAINJOB.items())
def test_other_kinds_make_no_trainjob(kind: str, why: str) -> None:
    with pytest.raises(UserError) as refused:
        run(f"apiVersion: kubeflow.org/v1\nkind: {kind}\nmetadata: {{name: a}}\n", "--to", "TrainJob")
    assert f"{kind} (kubeflow.org/v1) cannot be converted to a TrainJob: {why}" in str(refused.value)
    assert str(refused.value).endswith("; write the TrainJob by hand, or convert to an AITrainingJob")


TRAINJOB = (ROOT / "examples/trainer/trainjob.yaml").read_text(encoding="utf-8")
REFUSED: dict[str, tuple[str, str]] = {
    "a TrainJob with its runtime": (
        TRAINJOB,
        "TrainJob (trainer.kubeflow.org/v1alpha1) cannot be converted: its runtime, which its manifest only"
        " names, holds its pods; the operator serves it as it is (docs/trainer.md); write the AITrainingJob by hand",
    ),
    "a misspelt version beside other objects": (
        f"{CLAIM}---\n{OWN.replace('ai/v1', 'ai/v2')}",
        "AITrainingJob (elasticdeeplearning.ai/v2) cannot be converted; expected one of PyTorchJob",
    ),
    "a batch Job of Kubernetes": ("kind: Job\napiVersion: batch/v1\n", "Job (batch/v1) cannot be converted"),
    "nothing": ("", "contains no manifest"),
    "a job that its own operator would refuse": (
        JAXJOB.replace("replicas: 2", "replicas: two"),
        "not a valid JAXJob; nothing is converted:\n    spec.jaxReplicaSpecs.Worker.replicas: 'two'",
    ),
    "a misspelt field of a template, by the name that the user gave its place": (
        JAXJOB.replace("image:", "imaeg:"),
        "spec.jaxReplicaSpecs.Worker.template.spec.containers[0].imaeg: unknown field; did you mean 'image'?",
    ),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_anything_else_is_refused_and_told_what_was_expected(sentence: str) -> None:
    text, want = REFUSED[sentence]
    with pytest.raises(UserError) as refused:
        run(text)
    assert want in str(refused.value)
