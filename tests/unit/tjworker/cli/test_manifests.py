"""Tables: what `tj validate` finds wrong with a file, and `tj submit` and `tj run` therefore never make."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support import fast_yaml as yaml
from tests.support.builders import make_job, make_training_job
from tests.support.kinds import AITRAININGJOBS, TRAININGJOBS
from tests.unit.tjworker.cli.conftest import TypedAt
from tjworker.cli.errors import UserError
from tjworker.cli.manifests import Manifest, hints, read, refuse_the_wrong
from tjworker.cli.run import Asked

ROOT = Path(__file__).resolve().parents[4]
GOOD = make_job("digits").workers(2).manifest()
TEMPLATE = "spec.replicaSpecs.trainer.template"


def container(**fields: Any) -> dict[str, Any]:
    return make_job("digits").role("trainer", template=_of(**fields)).manifest()


def _of(**fields: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "aitj-a", "image": "x", **fields}]}}


def spec(**fields: Any) -> dict[str, Any]:
    return make_job("digits").workers(2).spec(**fields).manifest()


WRONG: dict[str, tuple[Any, str]] = {
    "another object": (
        {"kind": "Service", "apiVersion": "v1"},
        "kind: Service (v1) is not a supported job kind; supported are AITrainingJob (elasticdeeplearning.ai/v1) and",
    ),
    "a version that is not served": (
        GOOD | {"apiVersion": "elasticdeeplearning.ai/v9"},
        "kind: AITrainingJob (elasticdeeplearning.ai/v9) is not a supported job kind; did you mean AITrainingJob"
        " (elasticdeeplearning.ai/v1)?",
    ),
    "no name": (GOOD | {"metadata": {}}, "metadata.name: is missing"),
    "a name that Kubernetes does not take": (
        GOOD | {"metadata": {"name": "My_job"}},
        "metadata.name: 'My_job': use lower-case letters",
    ),
    "a misspelt field of the spec": (spec(timelimit=3), "spec.timelimit: unknown field; did you mean 'timeLimit'?"),
    "a rule over two fields": (
        make_job("digits").workers(2, least=3, most=5).manifest(),
        "spec.replicaSpecs.trainer.replicas: ",
    ),
    "a misspelt field of a container": (
        container(comand=["x"]),
        f"{TEMPLATE}.spec.containers[0].comand: unknown field; did you mean 'command'?",
    ),
    "a number where a string stands": (
        container(env=[{"name": "A", "value": 1}]),
        f"{TEMPLATE}.spec.containers[0].env[0].value: 1 is not a string; write it in quotes: '1'",
    ),
    "a string where a list stands": (
        container(args="train"),
        f"{TEMPLATE}.spec.containers[0].args: 'train' is not a list",
    ),
    "a truth value where a number stands": (
        container(livenessProbe={"periodSeconds": True}),
        f"{TEMPLATE}.spec.containers[0].livenessProbe.periodSeconds: True is not a whole number",
    ),
    "what is not a quantity": (
        container(resources={"limits": {"memory": "lots"}}),
        f"{TEMPLATE}.spec.containers[0].resources.limits.memory: 'lots' is not a quantity",
    ),
}


@pytest.mark.parametrize(("manifest", "says"), WRONG.values(), ids=list(WRONG))
def test_what_is_wrong_is_named_by_its_path(manifest: Any, says: str, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(manifest))
    with pytest.raises(UserError) as refused:
        refuse_the_wrong(read((str(file),)))
    assert f"{file}: {says}" in str(refused.value)


FINE: dict[str, dict[str, Any]] = {
    "quantities and ports as numbers": container(
        resources={"limits": {"cpu": 2, "memory": 1e9}}, livenessProbe={"httpGet": {"path": "/", "port": 80}}
    ),
    "fields that are null": container(env=None, resources=None),
}


@pytest.mark.parametrize("manifest", FINE.values(), ids=list(FINE))
def test_what_the_api_server_takes_is_valid(manifest: dict[str, Any], tmp_path: Path, typed_at: TypedAt) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(manifest))
    refuse_the_wrong(read((str(file),)))
    assert typed_at.tj("submit", str(file)).exit_code == 0


def test_the_examples_are_valid_and_what_stands_beside_them_is_left_alone(typed_at: TypedAt) -> None:
    found = sorted(path for path in (ROOT / "examples").rglob("*.yaml") if path.parent.name != "simulation")
    texts = {str(path): path.read_text(encoding="utf-8") for path in found}
    files = [path for path, text in texts.items() if "Job\n" in text and "batch.volcano.sh" not in text]
    done = typed_at.tj("validate", *map(str, found))
    assert done.exit_code == 0, done.stderr
    assert done.stdout.count(" is valid") >= len(files)
    assert "Service (v1) is not a job: not checked" in done.stderr


STRANGERS: dict[str, tuple[str, str, str]] = {
    "a job of Volcano is translated": (
        "batch.volcano.sh/v1alpha1",
        "Job",
        "Job (batch.volcano.sh/v1alpha1) is another operator's job: `tj convert FILE` translates it",
    ),
    "a TrainJob of another version": (
        "trainer.kubeflow.org/v2",
        "TrainJob",
        "did you mean TrainJob (trainer.kubeflow.org/v1alpha1)?",
    ),
    "a misspelt kind": ("v1", "AITrainngJob", "did you mean AITrainingJob (elasticdeeplearning.ai/v1)?"),
    "an old version of a guest": ("kubeflow.org/v1beta2", "TFJob", "did you mean TFJob (kubeflow.org/v1)?"),
    "a kind of two operators without its group": (
        "v1",
        "TFJob",
        "did you mean TFJob (kubeflow.org/v1) or TFJob (training.kubedl.io/v1alpha1)?",
    ),
}
OTHERS: dict[str, tuple[str, str]] = {
    "a job of Kubernetes": ("batch/v1", "Job"),
    "a workload": ("apps/v1", "Deployment"),
    "a job of Ray": ("ray.io/v1", "RayJob"),
}


@pytest.mark.parametrize("command", ["submit", "validate"])
@pytest.mark.parametrize(("version", "kind", "says"), STRANGERS.values(), ids=STRANGERS.keys())
def test_what_looks_like_a_job_and_is_none_says_what_to_do(
    version: str, kind: str, says: str, command: str, tmp_path: Path, typed_at: TypedAt
) -> None:
    """Also beside a job: Volcano, if it is there, would run its own."""
    file = tmp_path / "job.yaml"
    strange = {"apiVersion": version, "kind": kind, "metadata": {"name": "a"}, "spec": {}}
    for manifests in ([strange], [GOOD, strange]):
        file.write_text(yaml.safe_dump_all(manifests))
        done = typed_at.tj(command, str(file))
        assert says in done.stderr
        assert done.exit_code == 1 or command == "validate"
        assert not typed_at.api.list_page(AITRAININGJOBS, "default").items


@pytest.mark.parametrize(("version", "kind"), OTHERS.values(), ids=OTHERS.keys())
def test_other_objects_are_no_misspelt_jobs(version: str, kind: str) -> None:
    assert Manifest("job.yaml", {"apiVersion": version, "kind": kind}).is_other


CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}
CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "conf"}, "data": {"lr": "0.1"}}
CLASS = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 7}


def submitted(typed_at: TypedAt, tmp_path: Path, *manifests: dict[str, Any], args: tuple[str, ...] = ()) -> Any:
    file = tmp_path / "jobs.yaml"
    file.write_text(yaml.safe_dump_all(manifests))
    return typed_at.tj("submit", str(file), *args)


def job_named(name: str) -> dict[str, Any]:
    return make_job(name).workers(1).manifest() | {"metadata": {"name": name}}


def test_other_objects_are_applied_as_they_are_in_their_order(tmp_path: Path, typed_at: TypedAt) -> None:
    done = submitted(typed_at, tmp_path, CLAIM, job_named("a"), CONFIG, CLASS)
    assert done.exit_code == 0, done.stderr
    assert [line.partition(";")[0] for line in done.stdout.splitlines()] == [
        "persistentvolumeclaim/data created",
        "a: created in namespace default",
        "configmap/conf created",
        "priorityclass.scheduling.k8s.io/high created",
    ]
    again = submitted(typed_at, tmp_path, CLAIM, CONFIG | {"data": {"lr": "0.2"}}, job_named("b"))
    assert again.stdout.splitlines()[:2] == ["persistentvolumeclaim/data unchanged", "configmap/conf configured"]
    path = "/api/v1/namespaces/default/configmaps/conf"
    made = yaml.safe_load(typed_at.transport.request("GET", path).body)
    assert made["data"] == {"lr": "0.2"}
    assert [one["manager"] for one in made["metadata"]["managedFields"]] == ["tj"]


NOT_APPLIED: dict[str, tuple[dict[str, Any], str]] = {
    "a kind that the cluster does not serve": (
        {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}},
        "jobs.yaml, document 2 (line {line}): Widget (example.com/v1) is not served by this cluster",
    ),
    "no name": (
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "a-"}},
        "jobs.yaml, document 2 (line {line}): metadata.name: is missing",
    ),
    "two namespaces": (
        CONFIG | {"metadata": {"name": "a", "namespace": "here"}},
        "document 2 (line {line}) has the namespace here, and -n says default",
    ),
}


@pytest.mark.parametrize(("other", "says"), NOT_APPLIED.values(), ids=NOT_APPLIED.keys())
def test_what_is_wrong_with_one_document_keeps_all_from_being_made(
    other: dict[str, Any], says: str, tmp_path: Path, typed_at: TypedAt
) -> None:
    done = submitted(typed_at, tmp_path, job_named("a"), other, CONFIG, args=("-n", "default"))
    assert done.exit_code == 1
    line = (tmp_path / "jobs.yaml").read_text().splitlines().index("---") + 2
    assert says.format(line=line) in done.stderr
    assert not typed_at.api.list_page(AITRAININGJOBS, "default").items
    assert typed_at.transport.request("GET", "/api/v1/namespaces/default/configmaps/conf").status == 404


def test_a_field_that_somebody_else_manages_is_left_to_them(tmp_path: Path, typed_at: TypedAt) -> None:
    path = "/api/v1/namespaces/default/configmaps/conf"
    body = yaml.safe_dump(CONFIG | {"data": {"lr": "9"}}).encode()
    query = {"fieldManager": "argo"}
    typed_at.transport.request("PATCH", path, query=query, body=body, content_type="application/apply-patch+yaml")
    done = submitted(typed_at, tmp_path, CONFIG, job_named("a"))
    assert done.exit_code == 1
    assert 'conflict with "argo"' in done.stderr
    assert "change it with what made it (such as `kubectl apply`), or take it out of the file" in done.stderr


def test_submit_makes_all_jobs_of_a_file_or_none(tmp_path: Path, typed_at: TypedAt) -> None:
    file = tmp_path / "jobs.yaml"
    file.write_text(yaml.safe_dump_all([GOOD, make_training_job("edl").manifest(), container(comand=["x"])]))
    assert typed_at.tj("submit", str(file)).exit_code == 1
    assert not typed_at.api.list_page(AITRAININGJOBS, "default").items
    file.write_text(yaml.safe_dump_all([GOOD, make_training_job("edl").manifest()]))
    done = typed_at.tj("submit", str(file))
    assert done.exit_code == 0, done.stderr
    assert "digits: created in namespace default" in done.stdout
    assert typed_at.api.get(TRAININGJOBS, "default", "edl")


def test_a_name_that_is_taken_is_said_with_what_to_do(tmp_path: Path, typed_at: TypedAt) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(GOOD))
    assert typed_at.tj("submit", str(file)).exit_code == 0
    done = typed_at.tj("submit", str(file))
    assert done.exit_code == 1
    assert "namespace default has a job digits already; `tj delete digits` first" in done.stderr


def test_run_makes_a_job_that_does_what_was_asked() -> None:
    job = Asked(
        image="registry.example.com:5000/ml/Train_er:1",
        command=("python", "train.py"),
        replicas=2,
        max_replicas=4,
        gpus=1,
        cpu="500m",
        env=("A=b=c",),
        port=29500,
    ).manifest()
    role = job["spec"]["replicaSpecs"]["trainer"]
    assert job["metadata"]["name"].startswith("train-er-")
    assert (role["replicas"], role["minReplicas"], role["maxReplicas"], role["edlPolicy"]) == (2, 2, 4, "Auto")
    assert role["template"]["spec"]["containers"] == [
        {
            "name": "aitj-trainer",
            "image": "registry.example.com:5000/ml/Train_er:1",
            "command": ["python", "train.py"],
            "env": [{"name": "A", "value": "b=c"}],
            "ports": [{"name": "aitj-29500", "containerPort": 29500}],
            "resources": {"requests": {"cpu": "500m"}, "limits": {"nvidia.com/gpu": 1}},
        }
    ]


RUNS: dict[str, tuple[tuple[str, ...], int, str]] = {
    "a command after --": (("--image", "x", "--name", "a", "--", "train", "--epochs", "3"), 0, "a: created in"),
    "a dry run prints a manifest": (("--image", "x", "--dry-run"), 0, "kind: AITrainingJob"),
    "no image": (("--", "train"), 2, "Missing option '--image'"),
    "a variable without a value": (("--image", "x", "--env", "A"), 2, "'A' is not NAME=VALUE"),
    "memory that is none": (("--image", "x", "--memory", "lots"), 1, "'lots' is not a quantity"),
}


@pytest.mark.parametrize(("args", "code", "says"), RUNS.values(), ids=list(RUNS))
def test_run(args: tuple[str, ...], code: int, says: str, typed_at: TypedAt) -> None:
    done = typed_at.tj("run", *args)
    assert done.exit_code == code, done.output
    assert says in (done.stderr if code else done.stdout)
    assert len(typed_at.api.list_page(AITRAININGJOBS, "default").items) == ("created in" in done.stdout)


HINTS: dict[str, tuple[Any, str]] = {
    "no port that counts, and a command that reads the addresses": (
        make_job("digits").role("trainer", 2, template=_of(command=["train", "--peers=$(TRAINER_HOSTS)"])),
        "TRAINER_HOSTS will be empty: trainer has no port whose name begins with `aitj-`; add one",
    ),
    "nothing reads the addresses": (make_job("digits").role("trainer", 2, template=_of()), ""),
    "the addresses of another role are read": (
        make_job("digits").role("trainer", 2, template=_of(args=["$(PSERVER_HOSTS)"])),
        "",
    ),
    "a restartPolicy of the template": (
        make_job("digits").role("trainer", template={"spec": {**_of()["spec"], "restartPolicy": "OnFailure"}}),
        "restartPolicy of trainer's template has no effect: the role's counts (",
    ),
    "completePolicy Any, and two roles that complete": (
        make_job("digits").role("master").role("trainer", 2).spec(completePolicy="Any"),
        "spec.completePolicy Any: the first of the roles master, trainer to complete ends the job, whatever the"
        " others do; set completePolicy None for each role that must not end it",
    ),
    "completePolicy Any, and one role that completes": (
        make_job("digits").role("master").role("ps", 2, completePolicy="None").spec(completePolicy="Any"),
        "",
    ),
    "a variable that is set twice": (
        make_job("digits").role("trainer", template=_of(env=[{"name": "A", "value": v} for v in "12"])),
        "container aitj-a of trainer sets A twice: the last one counts",
    ),
}


@pytest.mark.parametrize("sentence", HINTS)
def test_what_is_valid_and_yet_not_what_its_author_expects(sentence: str) -> None:
    job, want = HINTS[sentence]
    said = list(hints(Manifest("job.yaml", job.manifest())))
    assert [text[: len(want)] for text in said] == ([want] if want else [])
