"""What holds for every command of `tj`, taken from the list of commands: its exit codes (`tjworker/cli/errors.py` says
what they mean), and that a page of a list is never the whole. What each does: test_commands.py, test_main.py; with
mistakes of a user: test_bad_input.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

from tests.support.builders import JobBuilder, make_job
from tests.support.kinds import AITRAININGJOBS
from tests.unit.tjworker.cli.conftest import TypedAt
from tjworker.api import labels
from tjworker.api.resources import PODS
from tjworker.cli import jobs
from tjworker.cli.main import COMMANDS, tj
from tjworker.cli.options import DURATION
from tjworker.kube.port import HttpResponse

DIGITS = make_job("digits").workers(2, least=1, most=5).status(phase="Running")
MORE: dict[str, tuple[str, ...]] = {"scale": ("--replicas", "3")}
"""What a command needs besides the job."""


def command(name: str) -> click.Command:
    found = tj.get_command(click.Context(tj), name)
    assert found is not None
    return found


OF_A_JOB = [
    name
    for name in COMMANDS
    if any(p.name in ("job", "jobs") and p.param_type_name == "argument" for p in command(name).params)
]


@pytest.mark.parametrize("name", OF_A_JOB)
def test_a_job_may_be_named_with_its_kind(name: str, a_cluster: Callable[[], TypedAt]) -> None:
    def typed(called: str) -> tuple[int, str, object]:
        at = a_cluster()
        at.add(DIGITS)
        done = at.tj(name, called, *MORE.get(name, ()))
        said = (done.stdout + done.stderr).replace(called, "digits")
        left = [(job.raw["spec"], job.raw["metadata"]) for job in jobs.list_jobs(at.api, "default")]
        return done.exit_code, said, left

    assert typed("aitrainingjob.elasticdeeplearning.ai/digits") == typed("aitj/digits") == typed("digits")


def refuse(typed_at: TypedAt, monkeypatch: pytest.MonkeyPatch, code: int, says: str) -> None:
    body = b'{"kind": "Status", "code": %d, "reason": "Forbidden", "message": "%s"}' % (code, says.encode())
    monkeypatch.setattr(typed_at.transport, "request", lambda *_, **__: HttpResponse(code, body))


@pytest.mark.parametrize("code", [401, 403, 500])
@pytest.mark.parametrize("name", OF_A_JOB)
def test_an_api_server_that_refuses_is_1_in_its_own_words(
    name: str, code: int, typed_at: TypedAt, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refusal is not an empty cluster."""
    refuse(typed_at, monkeypatch, code, "not for you")
    done = typed_at.tj(name, "digits", *MORE.get(name, ()))
    assert done.exit_code == 1, done.output
    assert "not for you" in done.stderr
    assert "no job" not in done.output


# -- durations -------------------------------------------------------------------------------------
DURATIONS = {"30s": 30, "5m": 300, "2h": 7200, "1h30m": 5400, "1h0m5s": 3605, "1m1s": 61, "90m": 5400}
NONE = ("", "5", "5d", "m", "1s1m", "-5s", "5 m", "1.5h", "0h0m", "٣s")


@pytest.mark.parametrize(("text", "want"), DURATIONS.items())
def test_a_duration_is_read_as_kubectl_reads_it(text: str, want: int) -> None:
    assert DURATION.convert(text, None, None) == want


@pytest.mark.parametrize("text", NONE)
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        DURATION.convert(text, None, None)


# -- pods ------------------------------------------------------------------------------------------
def pod_of(typed_at: TypedAt, job: JobBuilder, name: str, role: str = "trainer", index: str = "0", **more: Any) -> None:
    uid = typed_at.api.get(AITRAININGJOBS, "default", job.raw["metadata"]["name"])["metadata"]["uid"]  # type: ignore[index]
    marks = {
        labels.JOB_NAME: job.raw["metadata"]["name"],
        labels.JOB_UID: uid,
        labels.REPLICA_NAME: role,
        labels.REPLICA_INDEX: index,
    }
    spec = {"containers": [{"name": "aitj-a", "image": "x"}]}
    metadata = {"name": name, "labels": {**marks, **more}}
    typed_at.make(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


def test_pods_stand_by_role_and_by_index_as_a_number(typed_at: TypedAt) -> None:
    typed_at.add(DIGITS)
    for role, index in (("trainer", "10"), ("trainer", "2"), ("ps", "1"), ("ps", "0")):
        pod_of(typed_at, DIGITS, f"digits-{role}-{index}", role, index)
    pod_of(typed_at, DIGITS, "digits-trainer-0", **{labels.JOB_UID: "of-an-earlier-job"})
    shown = [line.split()[0] for line in typed_at.tj("get", "digits").stdout.splitlines() if "Pending" in line]
    assert shown == ["digits-ps-0", "digits-ps-1", "digits-trainer-2", "digits-trainer-10"]


def test_a_deletion_waits_for_the_pods_too(typed_at: TypedAt) -> None:
    typed_at.add(DIGITS)
    pod_of(typed_at, DIGITS, "digits-trainer-0")
    done = typed_at.tj("delete", "digits", "--timeout", "0.01")
    assert done.exit_code == 1
    assert "digits is not gone yet; its pods still exist: digits-trainer-0" in done.stderr
    assert typed_at.tj("get", "-o", "name").stdout == ""


def test_a_page_may_be_shorter_than_asked_for_and_not_the_last(
    typed_at: TypedAt, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An API server that filters what it reads gives such pages, empty ones too."""
    from tjworker.kube.port import ListPage

    pages = {"": ListPage([], 7, "1"), "1": ListPage([{"a": 1}], 7, "2"), "2": ListPage([{"a": 2}], 7, "")}
    listed: Callable[..., ListPage] = lambda *_, token, **__: pages[token]  # noqa: E731
    monkeypatch.setattr(typed_at.api, "list_page", listed)
    assert list(typed_at.api.list_all(PODS)) == [{"a": 1}, {"a": 2}]


# -- where a job is made ---------------------------------------------------------------------------
WHERE: dict[str, tuple[str, tuple[str, ...], str]] = {
    "neither says": ("", (), "default"),
    "the manifest says": ("team-a", (), "team-a"),
    "the option says": ("", ("-n", "team-a"), "team-a"),
    "both say the same": ("team-a", ("-n", "team-a"), "team-a"),
}


@pytest.mark.parametrize(("written", "args", "want"), WHERE.values(), ids=WHERE.keys())
def test_the_namespace_of_a_manifest_goes_before_the_contexts(
    written: str, args: tuple[str, ...], want: str, typed_at: TypedAt, tmp_path: Path
) -> None:
    typed_at.transport.request("POST", "/api/v1/namespaces", body=b'{"metadata": {"name": "team-a"}}')
    namespace = f", namespace: {written}" if written else ""
    file = tmp_path / "job.yaml"
    file.write_text(
        f"apiVersion: elasticdeeplearning.ai/v1\nkind: AITrainingJob\nmetadata: {{name: new{namespace}}}\n"
        "spec: {replicaSpecs: {trainer: {template: {spec: {containers: [{name: aitj-a, image: x}]}}}}}\n"
    )
    done = typed_at.tj("submit", str(file), *args)
    assert done.exit_code == 0, done.output
    assert f"new: created in namespace {want};" in done.stdout
    assert typed_at.api.get(AITRAININGJOBS, want, "new") is not None
