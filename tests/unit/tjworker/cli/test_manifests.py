"""Tables: what `tj validate` finds wrong with a file, and `tj submit` and `tj run` therefore never make."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support import fast_yaml as yaml
from tests.support.builders import make_job, make_training_job
from tests.support.guests import GUESTS, KIND_OF, whole_guest
from tests.support.kinds import AITRAININGJOBS, TRAININGJOBS
from tests.unit.tjworker.cli.conftest import TypedAt
from tjworker.api.kinds import KNOWN_KINDS
from tjworker.cli import informer
from tjworker.cli.errors import UserError
from tjworker.cli.jobs import FoundJob
from tjworker.cli.manifests import Manifest, hints, read, refuse_the_wrong
from tjworker.cli.run import Asked
from tjworker.cli.submit import follow

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
    "no spec": ({k: v for k, v in GOOD.items() if k != "spec"}, "spec.replicaSpecs: "),
    "a misspelt field of the spec": (spec(timelimit=3), "spec.timelimit: unknown field; did you mean 'timeLimit'?"),
    "a value that the schema refuses": (spec(timeLimit=-1), "spec.timeLimit: -1"),
    "a rule over two fields": (
        make_job("digits").workers(2, least=3, most=5).manifest(),
        "spec.replicaSpecs.trainer.replicas: ",
    ),
    "a misspelt field of a container": (
        container(comand=["x"]),
        f"{TEMPLATE}.spec.containers[0].comand: unknown field; did you mean 'command'?",
    ),
    "one of its resources": (
        container(resources={"request": {"cpu": 1}}),
        f"{TEMPLATE}.spec.containers[0].resources.request: unknown field; did you mean 'requests'?",
    ),
    "one of its volumes": (
        make_job("d").role("trainer", template={"spec": _of()["spec"] | {"volumes": [{"emptydir": {}}]}}).manifest(),
        f"{TEMPLATE}.spec.volumes[0].emptydir: unknown field; did you mean 'emptyDir'?",
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
    "a job of pods": GOOD,
    "an EDL job": make_training_job("edl").manifest(),
    "quantities and ports as numbers": container(
        resources={"limits": {"cpu": 2, "memory": 1e9}}, livenessProbe={"httpGet": {"path": "/", "port": 80}}
    ),
    "ports by name": container(livenessProbe={"httpGet": {"path": "/", "port": "aitj-1"}}),
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
    "no group": ("v1", "AITrainingJob", "did you mean AITrainingJob (elasticdeeplearning.ai/v1)?"),
    "a kind in other letters": ("kubeflow.org/v1", "PytorchJob", "did you mean PyTorchJob (kubeflow.org/v1)?"),
    "an old version of a guest": ("kubeflow.org/v1beta2", "TFJob", "did you mean TFJob (kubeflow.org/v1)?"),
    "a kind of two operators without its group": (
        "v1",
        "TFJob",
        "did you mean TFJob (kubeflow.org/v1) or TFJob (training.kubedl.io/v1alpha1)?",
    ),
}
OTHERS: dict[str, tuple[str, str]] = {
    "a job of Kubernetes": ("batch/v1", "Job"),
    "a CronJob": ("batch/v1", "CronJob"),
    "another kind of Kubeflow's": ("kubeflow.org/v1", "Notebook"),
    "a workload": ("apps/v1", "Deployment"),
    "a job of Ray": ("ray.io/v1", "RayJob"),
    "a set of jobs": ("jobset.x-k8s.io/v1alpha2", "JobSet"),
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


def test_every_supported_kind_is_named(tmp_path: Path, typed_at: TypedAt) -> None:
    file = tmp_path / "service.yaml"
    file.write_text("{apiVersion: v1, kind: Service, metadata: {name: a}}")
    said = typed_at.tj("submit", str(file)).stderr
    assert [kind.kind for kind in KNOWN_KINDS.values() if kind.kind not in said] == []
    assert [kind.group for kind in KNOWN_KINDS.values() if kind.group not in said] == []


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


def test_they_go_where_the_jobs_go(tmp_path: Path, typed_at: TypedAt) -> None:
    typed_at.transport.request("POST", "/api/v1/namespaces", body=b'{"metadata": {"name": "team-a"}}')
    done = submitted(typed_at, tmp_path, CONFIG, CLASS, job_named("a"), args=("-n", "team-a"))
    assert done.exit_code == 0, done.stderr
    path = "/api/v1/namespaces/{}/configmaps/conf"
    assert typed_at.transport.request("GET", path.format("team-a")).status == 200
    assert typed_at.transport.request("GET", path.format("default")).status == 404


def test_what_a_program_reads_are_the_jobs(tmp_path: Path, typed_at: TypedAt) -> None:
    done = submitted(typed_at, tmp_path, CONFIG, job_named("a"), args=("-o", "yaml"))
    assert yaml.safe_load(done.stdout)["metadata"]["name"] == "a"
    assert done.stderr.startswith("configmap/conf created")
    named = submitted(typed_at, tmp_path, CONFIG, job_named("b"), args=("-o", "name"))
    assert named.stdout.splitlines() == ["configmap/conf", "aitrainingjob.elasticdeeplearning.ai/b"]


NOT_APPLIED: dict[str, tuple[dict[str, Any], str]] = {
    "a kind that the cluster does not serve": (
        {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}},
        "jobs.yaml, document 2 (line {line}): Widget (example.com/v1) is not served by this cluster",
    ),
    "no name": (
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "a-"}},
        "jobs.yaml, document 2 (line {line}): metadata.name: is missing",
    ),
    "no metadata": ({"apiVersion": "v1", "kind": "ConfigMap"}, "metadata.name: is missing"),
    "two namespaces": (
        CONFIG | {"metadata": {"name": "a", "namespace": "here"}},
        "document 2 (line {line}) has the namespace here, and -n says default",
    ),
    "a misspelt job": (container(comand=["x"]), "document 2 (line {line}): spec.replicaSpecs.trainer.template.spec."),
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


UNREADABLE: dict[str, tuple[bytes, str]] = {
    "a file that is not there": (b"", "cannot read"),
    "what is no YAML": (b"a: [", "is not valid YAML"),
    "what is no text": (b"\xff\xfe\x00", "is not text"),
    "an empty file": (b"---\n", "contains no manifest"),
    "a list of words": (b"- a\n- b\n", "is not a manifest"),
    "half a manifest": (
        b"kind: AITrainingJob\n",
        "AITrainingJob (no apiVersion) is not a supported job kind; did you mean",
    ),
    "deep nesting": (b"a: " + b"[" * 20_000, "is not valid YAML"),
}


@pytest.mark.parametrize(("content", "says"), UNREADABLE.values(), ids=list(UNREADABLE))
def test_a_file_that_is_no_manifest_is_refused_in_words(
    content: bytes, says: str, tmp_path: Path, typed_at: TypedAt
) -> None:
    file = tmp_path / "job.yaml"
    if content:
        file.write_bytes(content)
    done = typed_at.tj("submit", str(file))
    assert done.exit_code == 1
    assert says in done.stderr
    assert "Traceback" not in done.stderr


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


def test_two_namespaces_are_one_too_many(tmp_path: Path, typed_at: TypedAt) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(GOOD | {"metadata": {"name": "digits", "namespace": "here"}}))
    done = typed_at.tj("submit", str(file), "-n", "there")
    assert "has the namespace here, and -n says there" in done.stderr


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
    "an image alone": (("--image", "x", "--name", "a"), 0, "a: created in"),
    "a dry run prints a manifest": (("--image", "x", "--dry-run"), 0, "kind: AITrainingJob"),
    "no image": (("--", "train"), 2, "Missing option '--image'"),
    "a variable without a value": (("--image", "x", "--env", "A"), 2, "'A' is not NAME=VALUE"),
    "bounds that cross": (("--image", "x", "--replicas", "3", "--max-replicas", "2"), 2, "2 is below --replicas 3"),
    "memory that is none": (("--image", "x", "--memory", "lots"), 1, "'lots' is not a quantity"),
    "a name that is none": (("--image", "x", "--name", "My Job"), 1, "metadata.name: 'My Job'"),
}


@pytest.mark.parametrize(("args", "code", "says"), RUNS.values(), ids=list(RUNS))
def test_run(args: tuple[str, ...], code: int, says: str, typed_at: TypedAt) -> None:
    done = typed_at.tj("run", *args)
    assert done.exit_code == code, done.output
    assert says in (done.stderr if code else done.stdout)
    assert len(typed_at.api.list_page(AITRAININGJOBS, "default").items) == ("created in" in done.stdout)


def test_an_option_behind_the_command_is_the_programs_and_said_so(typed_at: TypedAt) -> None:
    done = typed_at.tj("run", "--image", "x", "--dry-run", "--", "train", "--wait")
    assert done.stderr == "--wait is behind `--` and goes to the program; put it in front for tj\n"


def _told(name: str, phase: str, kind: str = "MODIFIED", uid: str = "") -> tuple[str, dict[str, Any]]:
    return kind, {"metadata": {"name": name, "uid": uid or f"uid-of-{name}"}, "status": {"phase": phase}}


WAITS: dict[str, tuple[list[tuple[str, dict[str, Any]]], int, list[str]]] = {
    "until each has ended, and a repeated phase is told once": (
        [
            _told("a", "Running"),
            _told("b", "Running"),
            _told("a", "Running"),
            _told("b", "Succeed"),
            _told("a", "Succeed"),
        ],
        0,
        ["a: Running", "b: Running", "b: Succeed", "a: Succeed"],
    ),
    "a job that fails is a failure of the command": (
        [_told("a", "Failed"), _told("b", "Succeed")],
        1,
        ["a: Failed", "b: Succeed"],
    ),
    "so is one that is deleted meanwhile": (
        [_told("a", "Running", "DELETED"), _told("b", "Succeed")],
        1,
        ["a: deleted", "b: Succeed"],
    ),
    "an ended job that is deleted by its TTL has succeeded": (
        [_told("a", "Succeed"), _told("a", "Succeed", "DELETED"), _told("b", "Succeed")],
        0,
        ["a: Succeed", "b: Succeed"],
    ),
    "a namesake is another job": (
        [_told("a", "Failed", uid="other"), _told("a", "Succeed"), _told("b", "Succeed")],
        0,
        ["a: Succeed", "b: Succeed"],
    ),
}


@pytest.mark.parametrize(("changes", "code", "says"), WAITS.values(), ids=list(WAITS))
def test_what_is_waited_for(
    changes: list[tuple[str, dict[str, Any]]],
    code: int,
    says: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    @contextmanager
    def watched(*_: Any, on_change: Any, **__: Any) -> Iterator[None]:
        for change in changes:
            on_change(*change)
        yield

    monkeypatch.setattr(informer, "Informer", watched)
    jobs = [FoundJob(AITRAININGJOBS, {"metadata": {"name": n, "uid": f"uid-of-{n}", "namespace": "d"}}) for n in "ab"]
    cluster: Any = SimpleNamespace(api=None)
    assert follow(cluster, jobs) == code
    assert capsys.readouterr().out.splitlines() == says


HINTS: dict[str, tuple[Any, str]] = {
    "no port that counts, and a command that reads the addresses": (
        make_job("digits").role("trainer", 2, template=_of(command=["train", "--peers=$(TRAINER_HOSTS)"])),
        "TRAINER_HOSTS will be empty: trainer has no port whose name begins with `aitj-`; add one",
    ),
    "in a variable": (
        make_job("digits").role("trainer", 2, template=_of(env=[{"name": "PEERS", "value": "$(TRAINER_HOSTS)"}])),
        "TRAINER_HOSTS will be empty",
    ),
    "nothing reads the addresses": (make_job("digits").role("trainer", 2, template=_of()), ""),
    "the addresses of another role are read": (
        make_job("digits").role("trainer", 2, template=_of(args=["$(PSERVER_HOSTS)"])),
        "",
    ),
    "a framework has a port of its own": (
        make_job("digits").role("trainer", 2, template=_of(args=["$TRAINER_HOSTS"])).spec(frameworkType="pytorch"),
        "",
    ),
    "a TrainingJob has other ways": (make_training_job(), ""),
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
    "completePolicy Any, and a role without replicas": (
        make_job("digits").role("master").role("trainer", 0).spec(completePolicy="Any"),
        "",
    ),
    "a variable that is set twice": (
        make_job("digits").role("trainer", template=_of(env=[{"name": "A", "value": v} for v in "12"])),
        "container aitj-a of trainer sets A twice: the last one counts",
    ),
}


def test_a_kind_of_another_operator_has_no_hints() -> None:
    for resource in GUESTS:
        manifest = whole_guest(resource)
        for role in manifest["spec"][KIND_OF[resource].roles_field].values():
            role["template"]["spec"]["containers"][0]["args"] = ["$(WORKER_HOSTS) $(LAUNCHER_HOSTS) $(MASTER_HOSTS)"]
        assert list(hints(Manifest("job.yaml", manifest))) == []


def test_every_rule_that_is_broken_is_named_at_once() -> None:
    job = make_job("digits").role("trainer", 2, least=5, most=4).manifest()
    with pytest.raises(UserError) as refused:
        refuse_the_wrong([Manifest("job.yaml", job)])
    assert str(refused.value).splitlines() == [
        "2 errors",
        "    job.yaml: spec.replicaSpecs.trainer.minReplicas: 5: must be at most maxReplicas (4)",
        "    job.yaml: spec.replicaSpecs.trainer.replicas: 2: must be at least minReplicas (5)",
    ]


@pytest.mark.parametrize("sentence", HINTS)
def test_what_is_valid_and_yet_not_what_its_author_expects(sentence: str) -> None:
    job, want = HINTS[sentence]
    said = list(hints(Manifest("job.yaml", job.manifest())))
    assert [text[: len(want)] for text in said] == ([want] if want else [])
