"""Commands as they are typed, on an API server in this process: what the user reads, and what is then true of the
cluster."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from click.shell_completion import ShellComplete

from tests.support import fast_yaml as yaml
from tests.support.builders import JobBuilder, make_job, make_training_job
from tests.support.kinds import AITRAININGJOBS, TRAININGJOBS
from tests.unit.tjworker.cli.conftest import TypedAt
from tjworker.api.resources import EVENTS
from tjworker.api.status import Failure
from tjworker.cli import jobs, logstream
from tjworker.cli.main import tj

DIGITS = make_job("digits").workers(2)
FAILED = DIGITS.status(phase="Failed")


@dataclass(frozen=True)
class Case:
    """One command, typed at a cluster with these jobs."""

    args: tuple[str, ...]
    jobs: tuple[JobBuilder, ...] = (DIGITS,)
    says: str = ""
    """Of stdout, or of stderr when it fails."""
    code: int = 0
    annotations: dict[str, str] = field(default_factory=dict)
    """Of digits afterwards."""
    left: tuple[str, ...] = ("digits",)
    """Jobs that are there afterwards."""


ENDS: dict[str, Case] = {
    "preempt writes the annotation that the operator acts on": Case(
        ("preempt", "digits", "-m", "room for others"),
        says="digits: ends as Preempted; `tj get digits` shows how far it is",
        annotations={"Preempted": "room for others"},
    ),
    "fail writes its own, and says who wrote it when nobody says why": Case(
        ("fail", "digits"), says="digits: ends as Failed", annotations={"Failed": "failed by hand (tj fail)"}
    ),
    "an end needs a reason": Case(("fail", "digits", "-m", " "), says="a message must say something", code=2),
    "a job that has ended is not ended again": Case(
        ("preempt", "digits"), (FAILED,), "digits has ended (Failed): an end is final", code=1
    ),
    "nor one that is not there": Case(("fail", "other"), says="no job other in namespace default", code=1),
}
DELETES: dict[str, Case] = {
    "a job is deleted": Case(("delete", "digits"), says="digits: deleted", left=()),
    "several jobs, of either kind": Case(
        ("delete", "digits", "edl"), (DIGITS, make_training_job("edl")), "digits: deleted\nedl: deleted", left=()
    ),
    "one that is not there keeps none of the others": Case(
        ("delete", "other", "digits"), says="no job other in namespace default; there are: digits", code=1, left=()
    ),
    "a name is asked for": Case(("delete",), says="Missing argument 'JOB...'", code=2),
}


@pytest.mark.parametrize("case", (ENDS | DELETES).values(), ids=list(ENDS | DELETES))
def test_what_a_user_types(case: Case, typed_at: TypedAt) -> None:
    typed_at.add(*case.jobs)
    done = typed_at.tj(*case.args)
    assert done.exit_code == case.code, done.output
    assert case.says in (done.stderr if case.code else done.stdout)
    there = [f for kind in (AITRAININGJOBS, TRAININGJOBS) for f in typed_at.api.list_page(kind, "default").items]
    assert tuple(sorted(job["metadata"]["name"] for job in there)) == case.left
    for job in there:
        assert (job["metadata"].get("annotations") or {}) == case.annotations


def test_a_job_that_does_not_go_is_told_of_after_the_time_that_was_given(typed_at: TypedAt) -> None:
    kept = DIGITS.manifest()
    kept["metadata"]["finalizers"] = ["example.com/keep"]
    typed_at.make(AITRAININGJOBS, kept)
    done = typed_at.tj("delete", "digits", "--timeout", "0.01")
    assert done.exit_code == 1
    assert "digits is not gone yet; its finalizers: example.com/keep" in done.stderr


def event(about: dict[str, Any], number: int, **fields: Any) -> dict[str, Any]:
    """`number`: also its time, in seconds after the job was made."""
    at = f"2001-09-09T01:46:{40 + number}Z"  # the API server of these tests lives at 1e9
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"event-{number}", "namespace": "default"},
        "involvedObject": {"namespace": "default", **about},
        "reason": f"Reason{number}",
        "message": f"message {number}",
        "type": "Normal",
        "lastTimestamp": at,
        **fields,
    }


def test_events_are_those_of_the_job_and_of_its_pods_in_the_order_of_time(typed_at: TypedAt) -> None:
    typed_at.add(DIGITS, make_job("digits-two").workers(1))
    uid = typed_at.api.get(AITRAININGJOBS, "default", "digits")["metadata"]["uid"]  # type: ignore[index]
    for body in (
        event({"kind": "Pod", "name": "digits-trainer-1"}, 3, type="Warning", count=4, firstTimestamp=None),
        event({"kind": "AITrainingJob", "name": "digits", "uid": uid}, 1),
        event({"kind": "AITrainingJob", "name": "digits", "uid": "of an earlier job"}, 2),
        event({"kind": "Pod", "name": "digits-two-trainer-0"}, 4),
        event({"kind": "Pod", "name": "digits"}, 5),
    ):
        typed_at.make(EVENTS, body)
    shown = typed_at.tj("events", "digits").stdout.splitlines()
    assert [line.split()[-1] for line in shown[1:]] == ["1", "3"], shown
    assert shown[0].split() == ["LAST", "SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    assert "(x4 over" in shown[2]
    assert "pod/digits-trainer-1" in shown[2]
    assert len(typed_at.tj("events", "digits", "--warnings").stdout.splitlines()) == 2


COMPLETES: dict[str, tuple[list[str], str, list[str]]] = {
    "a command": ([], "des", ["describe"]),
    "an option": (["logs", "--ti"], "--ti", ["--timestamps"]),
    "a job, of either kind": (["describe"], "", ["digits", "edl"]),
    "a role": (["logs", "digits", "--role"], "tr", ["trainer"]),
    "a job that begins like that": (["logs"], "di", ["digits"]),
}


@pytest.mark.parametrize(("typed", "incomplete", "want"), COMPLETES.values(), ids=list(COMPLETES))
def test_a_shell_completes(typed: list[str], incomplete: str, want: list[str], typed_at: TypedAt) -> None:
    typed_at.add(DIGITS, make_training_job("edl"))
    found = ShellComplete(tj, {}, "tj", "_TJ_COMPLETE").get_completions(typed, incomplete)
    assert [item.value for item in found] == want


def test_a_cluster_that_is_away_completes_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    assert ShellComplete(tj, {}, "tj", "_TJ_COMPLETE").get_completions(["describe"], "") == []


def test_names_are_as_kubectl_takes_them(typed_at: TypedAt) -> None:
    typed_at.add(DIGITS, make_training_job("edl"))
    assert typed_at.tj("get", "-o", "name").stdout.splitlines() == [
        "aitrainingjob.elasticdeeplearning.ai/digits",
        "trainingjob.paddlepaddle.org/edl",
    ]
    for named in ("edl", "trainingjob.paddlepaddle.org/edl", "trainingjobs.paddlepaddle.org"):
        assert typed_at.tj("get", named, "-o", "name").stdout == "trainingjob.paddlepaddle.org/edl\n"


MANIFEST = """
apiVersion: elasticdeeplearning.ai/v1
kind: AITrainingJob
metadata: {name: new}
spec: {replicaSpecs: {trainer: {template: {spec: {containers: [{name: aitj-a, image: x}]}}}}}
"""
OBJECTS: dict[str, tuple[str, ...]] = {
    "submit": ("submit", "FILE"),
    "run": ("run", "--image", "x", "--name", "new"),
    "scale": ("scale", "digits", "--replicas", "3"),
    "suspend": ("suspend", "digits"),
    "a second suspend": ("suspend", "waits"),
    "resume": ("resume", "waits"),
    "preempt": ("preempt", "digits"),
    "fail": ("fail", "digits"),
    "get": ("get", "digits"),
}


@pytest.mark.parametrize("args", OBJECTS.values(), ids=list(OBJECTS))
@pytest.mark.parametrize("output", ["name", "json", "yaml"])
def test_a_program_gets_the_job_as_it_is_now(
    args: tuple[str, ...], output: str, typed_at: TypedAt, tmp_path: Path
) -> None:
    typed_at.add(make_job("digits").workers(2, least=1, most=5).status(phase="Running"))
    typed_at.add(make_job("waits").workers(1).suspended())
    file = tmp_path / "job.yaml"
    file.write_text(MANIFEST)
    done = typed_at.tj(*(str(file) if arg == "FILE" else arg for arg in args), "-o", output)
    assert done.exit_code == 0, done.output
    name = {"submit": "new", "run": "new"}.get(args[0], args[1])
    if output == "name":
        assert done.stdout == f"aitrainingjob.elasticdeeplearning.ai/{name}\n"
        return
    shown = yaml.safe_load(done.stdout)  # JSON is YAML
    there = typed_at.api.get(AITRAININGJOBS, "default", name)
    assert shown["metadata"]["resourceVersion"] == there["metadata"]["resourceVersion"]  # type: ignore[index]


def failed(pod: str, tail: str) -> Failure:
    return Failure(pod=pod, exit_code=1, time="2001-09-09T01:46:50Z", log_tail=tail)


ENDED = DIGITS.status(
    phase="Failed",
    completion_time="2001-09-09T01:46:50Z",
    failures=(failed("digits-trainer-1", "epoch 2\nValueError: nan"), failed("digits-trainer-0", "killed")),
)


@dataclass(frozen=True)
class Left:
    job: JobBuilder
    args: tuple[str, ...]
    want: str = ""
    says: str = ""
    code: int = 0


LEFT: dict[str, Left] = {
    "of pods that failed the status has the last lines": Left(
        ENDED,
        (),
        "trainer-0 | killed\ntrainer-1 | epoch 2\ntrainer-1 | ValueError: nan\n",
        "the pods of digits are gone; its status has the last lines of those that failed:",
    ),
    "of one replica": Left(ENDED, ("--role", "trainer", "--index", "0"), "trainer-0 | killed\n"),
    "of those that succeeded nothing is left": Left(
        DIGITS.status(phase="Succeed", completion_time="2001-09-09T01:46:50Z"),
        (),
        says="its pods were deleted with their logs, as spec.cleanPodPolicy says (default: All). `Running` keeps those",
        code=1,
    ),
    "a job that waits has none yet": Left(
        DIGITS.status(phase="Pending"), (), says="digits (Pending) has no such pods now; `tj describe digits`", code=1
    ),
}


@pytest.mark.parametrize("left", LEFT.values(), ids=list(LEFT))
def test_what_is_left_of_logs_when_the_pods_are_gone(left: Left, typed_at: TypedAt) -> None:
    typed_at.add(left.job)
    done = typed_at.tj("logs", "digits", *left.args)
    assert (done.exit_code, done.stdout) == (left.code, left.want), done.output
    assert left.says in done.stderr


NO_LINES = {
    "nothing was written": ((), "no lines; `tj describe digits` says how its pods do"),
    "no container ran before in its pod": (("--previous",), "a replica that fails gets a new pod, and `tj describe"),
}


@pytest.mark.parametrize(("args", "says"), NO_LINES.values(), ids=list(NO_LINES))
def test_logs_without_a_line_say_so(
    args: tuple[str, ...], says: str, typed_at: TypedAt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logstream, "read_log", lambda *_: ())
    monkeypatch.setattr(logstream, "targets", lambda *_: [logstream.Target("trainer-0", "p", "uid", "c", True, 0)])
    monkeypatch.setattr(jobs, "job_pods", lambda *_: [{}])
    typed_at.add(DIGITS)
    done = typed_at.tj("logs", "digits", *args)
    assert (done.exit_code, done.stdout) == (0, "")
    assert says in done.stderr


def test_describe_speaks_of_the_job_its_roles_and_its_warnings(typed_at: TypedAt) -> None:
    typed_at.add(DIGITS.status(phase="Pending", message="pod digits-trainer-0 has no node"))
    typed_at.make(EVENTS, event({"kind": "Pod", "name": "digits-trainer-0"}, 1, type="Warning"))
    done = typed_at.tj("describe", "digits")
    assert done.exit_code == 0, done.output
    for part in (
        "AITrainingJob digits in namespace default is Pending, made",
        "pod digits-trainer-0 has no node.",
        "  trainer: 0 of 2 run",
        "Newest warnings",
        "pod/digits-trainer-0, Reason1: message 1",
    ):
        assert part in done.stdout


def test_describe_looks_at_the_whole_cluster_for_a_job_that_could_have_more(typed_at: TypedAt) -> None:
    typed_at.add(make_job("el").workers(2, least=1, most=5, edl="Auto").status(phase="Running"))
    done = typed_at.tj("describe", "el")
    assert "trainer: has 2 and could have 5: no node is ready and schedulable" in done.stdout, done.output


def test_a_job_that_cannot_be_used_is_described_with_its_errors(typed_at: TypedAt) -> None:
    big = {"spec": {"containers": [{"name": "aitj-a", "image": "x", "args": ["x" * 200_000]}]}}
    typed_at.make(AITRAININGJOBS, make_job("digits").role("trainer", 9_000, template=big).manifest())
    done = typed_at.tj("describe", "digits")
    assert done.exit_code == 0, done.output
    assert "! Its spec cannot be used: spec.replicaSpecs.trainer.replicas: 9000 pods" in done.stdout


BOUNDS = {1: 1, 2: 0, 5: 0, 6: 1}


@pytest.mark.parametrize(("replicas", "code"), BOUNDS.items())
def test_scale_keeps_to_both_bounds(replicas: int, code: int, typed_at: TypedAt) -> None:
    typed_at.add(make_job("digits").workers(3, least=2, most=5).status(phase="Running"))
    done = typed_at.tj("scale", "digits", "--replicas", str(replicas))
    assert done.exit_code == code, done.output
    assert ("has 2 to 5 replicas, so it cannot be scaled to" in done.stderr) == bool(code)
