"""What a user gets wrong, with every command: a message that says what to do, an exit code, no traceback, nothing on
stdout.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest
from click.testing import CliRunner, Result

from tests.support import fast_yaml as yaml
from tests.support.builders import make_job
from tests.support.crds import crd_of
from tests.support.kinds import AITRAININGJOBS
from tests.support.local_api import local_api
from tests.unit.tjworker.cli.conftest import TypedAt, _Run
from tests.unit.tjworker.cli.test_every_command import MORE
from tests.unit.tjworker.cli.test_every_command import OF_A_JOB as NAMES_OF_A_JOB
from tests.unit.tjworker.cli.test_main import KUBECONFIG
from tjworker.cli.cluster import open_cluster
from tjworker.cli.main import COMMANDS

OF_A_JOB: dict[str, tuple[str, ...]] = {
    **{name: (name, "JOB", *MORE.get(name, ())) for name in NAMES_OF_A_JOB},
    "logs -f": ("logs", "JOB", "-f"),
}
OTHERS: dict[str, tuple[str, ...]] = {
    "get all": ("get",),
    "run": ("run", "--image", "x", "--name", "a"),
    "submit": ("submit", "FILE"),
    "top": ("top",),
}
WITHOUT_A_CLUSTER = {"up", "demo", "validate", "convert", "completion", "simulate", "history"}
"""`tj doctor`'s results are what is wrong; `test_main` holds them."""


def test_no_command_is_left_out() -> None:
    tried = {args[0] for args in (OF_A_JOB | OTHERS).values()}
    assert tried | WITHOUT_A_CLUSTER | {"doctor"} == set(COMMANDS)


def typed(*args: str) -> Result:
    return CliRunner().invoke(_Run("tj"), list(args))


def refused(done: Result, *says: str, code: int = 1) -> None:
    assert done.exit_code == code, done.output
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    for part in says:
        assert part in done.stderr


@pytest.mark.parametrize("args", OF_A_JOB.values(), ids=list(OF_A_JOB))
class TestAJobThatIsNotThere:
    def test_the_others_are_named(self, args: tuple[str, ...], typed_at: TypedAt) -> None:
        typed_at.add(make_job("digits").workers(1), make_job("words").workers(1))
        done = typed_at.tj(*("digit" if a == "JOB" else a for a in args))
        refused(done, "no job digit in namespace default; there are: digits, words")
        assert len(done.stderr.splitlines()) == 1

    def test_in_another_namespace_it_is_said_how_to_look_elsewhere(
        self, args: tuple[str, ...], typed_at: TypedAt
    ) -> None:
        typed_at.add(make_job("digits").workers(1))
        done = typed_at.tj(*("digits" if a == "JOB" else a for a in args), "-n", "other")
        refused(
            done, "no job digits in namespace other; it has none; -n names another namespace, `tj get -A` shows all"
        )
        assert len(done.stderr.splitlines()) == 1


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(make_job("digits").workers(1).manifest()))
    return file


@pytest.mark.parametrize("args", (OF_A_JOB | OTHERS).values(), ids=list(OF_A_JOB | OTHERS))
def test_a_cluster_that_is_away(
    args: tuple[str, ...], manifest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config").write_text(KUBECONFIG)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    done = typed(*({"JOB": "digits", "FILE": str(manifest)}.get(a, a) for a in args))
    refused(
        done, "the cluster at http://127.0.0.1:1 does not answer", "`tj up` starts a local one; KUBECONFIG says which"
    )
    assert len(done.stderr.splitlines()) == 2


@dataclass(frozen=True)
class Half:
    text: str | bytes
    says: str


HALVES: dict[str, Half] = {
    "a file that ends in the middle": Half("apiVersion: v1\nspec: {replicaSpecs: {", "is not valid YAML"),
    "an empty one": Half("", "contains no manifest"),
    "a sentence": Half("just words", "is not a manifest: it must have apiVersion, kind, metadata and spec"),
    "no text at all": Half(b"\xff\xfe\x00", "is not text: a manifest is YAML or JSON in UTF-8"),
    "no kind": Half("metadata: {name: a}", "kind: no kind (no apiVersion) is not a supported job kind; supported are"),
    "no name and no spec": Half(
        "apiVersion: elasticdeeplearning.ai/v1\nkind: AITrainingJob", "metadata.name: is missing"
    ),
    "a tab for an indent": Half("spec:\n\treplicas: 1", "is not valid YAML"),
    "deep nesting": Half("a: " + "[" * 20_000, "is not valid YAML"),
}


@pytest.mark.parametrize("half", HALVES.values(), ids=list(HALVES))
@pytest.mark.parametrize("command", ["submit", "validate"])
def test_a_half_written_manifest(command: str, half: Half, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_bytes(half.text if isinstance(half.text, bytes) else half.text.encode())
    refused(typed(command, str(file)), "job.yaml", half.says)


@pytest.mark.parametrize("command", ["submit", "validate", "convert"])
def test_a_manifest_that_is_not_there(command: str, tmp_path: Path) -> None:
    refused(typed(command, str(tmp_path / "none.yaml")), "cannot read", "none.yaml", "No such file")
    refused(typed(command, str(tmp_path)), "cannot read", "Is a directory")


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Over HTTP, as commands reach one."""
    with local_api(tmp_path) as kubeconfig:
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        yield kubeconfig


def test_what_a_person_writes_is_no_field_of_the_operators(cluster: Path, manifest: Path) -> None:
    with open_cluster(cluster) as opened:
        body = crd_of(AITRAININGJOBS)
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        assert opened.transport.request("POST", path, body=orjson.dumps(body)).status == 201
        assert typed("submit", str(manifest)).exit_code == 0
        job = opened.api.get(AITRAININGJOBS, "default", "digits")
    assert job is not None
    assert {entry["manager"] for entry in job["metadata"]["managedFields"]} == {"tj"}
