"""A job that is gone, as `tj history`, `tj describe` and `tj timeline` show it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.support import fast_yaml as yaml
from tests.support.builders import make_job
from tests.support.kinds import AITRAININGJOBS
from tests.support.memory_history import MemoryHistory
from tests.unit.tjworker.cli.conftest import TypedAt
from tjworker.api import labels
from tjworker.api.status import Failure, ReplicaStatus, ScaleRecord
from tjworker.cli import past, rows
from tjworker.cli.chart import chart
from tjworker.history.records import Entry, Moment, kept_job, kept_pod, summary_of
from tjworker.history.store import Bounds

CREATED, FAILED, DELETED = "2026-11-24T10:00:00Z", "2026-11-24T10:01:00Z", "2026-11-24T10:05:00Z"
JOB = make_job("digits").workers(2)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> MemoryHistory:
    made = MemoryHistory(Bounds(100, 100))

    @contextmanager
    def opened() -> Iterator[MemoryHistory]:
        yield made

    monkeypatch.setattr(past, "open_store", opened)
    return made


def keep(
    store: MemoryHistory, *pods: Any, deleted_at: str = DELETED, told_to_go: str = "", uid: str = "u1", **status: Any
) -> None:
    raw = JOB.status(**status).object()
    raw["metadata"] |= {"creationTimestamp": CREATED, "namespace": "default", "uid": uid}
    raw["metadata"] |= {"deletionTimestamp": told_to_go} if told_to_go else {}
    summary = summary_of(AITRAININGJOBS, raw, deleted_at=deleted_at)
    kept = {pod["metadata"]["uid"]: kept_pod(pod, gone_at=deleted_at) for pod in pods}
    moments = [Moment(CREATED, "Running"), Moment(FAILED, "Restarting")]
    store.put([Entry("default", uid, summary, 1e12, job=kept_job(raw), pods=kept, moments=moments)], 0)


def a_pod(*, killed: bool = False) -> dict[str, Any]:
    running = {"running": {"startedAt": CREATED}}
    ended = {"terminated": {"startedAt": CREATED, "finishedAt": "2026-11-24T10:05:02Z", "exitCode": 143}}
    marks = {labels.REPLICA_NAME: "trainer", labels.REPLICA_INDEX: "0"}
    return {
        "metadata": {"name": "digits-trainer-0", "uid": "p0", "creationTimestamp": CREATED, "labels": marks},
        "spec": {"nodeName": "node-a"},
        "status": {
            "phase": "Failed" if killed else "Running",
            "containerStatuses": [{"name": "aitj-t", "state": ended if killed else running}],
        },
    }


def test_describe_tells_of_a_job_that_is_gone_what_it_told_of_it_then(store: MemoryHistory, typed_at: TypedAt) -> None:
    failure = Failure(time=FAILED, role="trainer", pod="digits-trainer-1", exit_code=1, log_tail="out of memory")
    scale = ScaleRecord.model_validate({"time": FAILED, "role": "trainer", "from": 1, "to": 2, "reason": "room for 1"})
    keep(store, phase="Running", message="all 2 replicas are running", failures=(failure,), scale_records=(scale,))
    done = typed_at.tj("describe", "digits")
    assert done.exit_code == 0
    for words in (
        "AITrainingJob digits in namespace default: deleted at 2026-11-24T10:05:00Z. As of then:",
        "all 2 replicas are running",
        "digits-trainer-1, 4m ago: exit code 1",
        "| out of memory",
        "trainer 1 -> 2: room for 1",
    ):
        assert words in done.stdout


WITH_THEIR_JOB = {
    "killed when the job was told to go, and gone before it": (
        143,
        {"told_to_go": DELETED, "deleted_at": "2026-11-24T10:05:40Z"},
        "1 of 2 run",
    ),
    "failed a moment before somebody deleted the job": (1, {"deleted_at": "2026-11-24T10:05:04Z"}, "0 of 2 run"),
    "killed long before": (143, {"deleted_at": "2026-11-24T10:06:04Z"}, "0 of 2 run"),
}


@pytest.mark.parametrize("row", WITH_THEIR_JOB)
def test_which_pods_went_with_their_job(row: str, store: MemoryHistory, typed_at: TypedAt) -> None:
    exit_code, when, said = WITH_THEIR_JOB[row]
    pod = a_pod(killed=True)
    pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] = exit_code
    keep(store, pod, phase="Running", **when)
    assert said in typed_at.tj("describe", "digits").stdout


MARKS: dict[str, tuple[int, str, str]] = {
    "it was killed because it was deleted at the job's end": (143, "2026-11-24T10:04:31Z", "gone"),
    "it heard of it and exited in its own way": (1, "2026-11-24T10:04:40Z", "gone"),
    "it had failed before": (143, "2026-11-24T10:04:29Z", "failed"),
}


@pytest.mark.parametrize(("code", "finished", "sign"), MARKS.values(), ids=MARKS.keys())
def test_a_pod_that_was_deleted_has_the_same_mark_while_it_is_there_and_in_the_history(
    code: int, finished: str, sign: str, store: MemoryHistory, typed_at: TypedAt
) -> None:
    pod = a_pod(killed=True)
    pod["metadata"] |= {"deletionTimestamp": "2026-11-24T10:05:00Z", "deletionGracePeriodSeconds": 30}
    pod["status"]["containerStatuses"][0]["state"]["terminated"] |= {"exitCode": code, "finishedAt": finished}
    job = JOB.status(phase="Succeed", completion_time="2026-11-24T10:04:50Z")
    now = datetime(2026, 11, 24, 10, 5, tzinfo=UTC)
    ((there,),) = [lane.marks for lane in chart(job.build(), [pod], [], now).pods]
    keep(store, pod, deleted_at="2026-11-24T10:20:00Z", phase="Succeed", completion_time="2026-11-24T10:04:50Z")
    drawn = yaml.safe_load(typed_at.tj("timeline", "digits", "-o", "yaml").stdout)
    ((kept,),) = [lane["marks"] for lane in drawn["pods"]]
    assert (there.sign, kept["sign"]) == (sign, sign)
    assert "0 of 2 run" in typed_at.tj("describe", "digits").stdout


def test_a_pod_that_was_scaled_away_shortly_before_the_deletion_is_not_counted(
    store: MemoryHistory, typed_at: TypedAt
) -> None:
    asked = {"trainer-0": "2026-11-24T10:05:02Z", "trainer-1": "2026-11-24T10:04:50Z"}
    pods = [a_pod(killed=True) for _ in asked]
    for pod, (name, at) in zip(pods, asked.items(), strict=True):
        pod["metadata"] |= {"name": f"digits-{name}", "uid": name, "deletionTimestamp": at}
    keep(store, *pods, deleted_at="2026-11-24T10:05:08Z", phase="Running")
    assert "trainer: 1 of 2 run" in typed_at.tj("describe", "digits").stdout


RAN = {"trainer": ReplicaStatus(active=1)}


@pytest.mark.parametrize(
    "deleted_at",
    [pytest.param("", id="the history has the job as it lived"), pytest.param(DELETED, id="it has the job, no pods")],
)
def test_describe_waits_for_what_the_history_lacks_of_a_job_that_was_deleted_just_now(
    store: MemoryHistory, typed_at: TypedAt, monkeypatch: pytest.MonkeyPatch, deleted_at: str
) -> None:
    """A job is written up to a second after its deletion, and its pods after it: they are deleted later."""
    keep(store, deleted_at=deleted_at, phase="Running", replica_statuses=RAN)
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        keep(store, a_pod(), phase="Running", replica_statuses=RAN)

    monkeypatch.setattr(rows, "utc_now", lambda: datetime(2026, 11, 24, 10, 5, 1, tzinfo=UTC))
    monkeypatch.setattr("time.sleep", wait)
    said = typed_at.tj("describe", "digits").stdout
    assert "deleted at 2026-11-24T10:05:00Z. As of then:" in said
    assert "trainer: 1 of 2 run" in said
    assert "!" not in said
    assert len(waits) == 1


def test_pods_that_were_asked_to_go_a_moment_before_the_watcher_heard_of_the_deletion_went_with_their_job(
    store: MemoryHistory, typed_at: TypedAt
) -> None:
    pod = a_pod(killed=True)
    pod["metadata"] |= {"deletionTimestamp": "2026-11-24T10:05:30Z", "deletionGracePeriodSeconds": 30}
    keep(store, pod, deleted_at="2026-11-24T10:05:04Z", phase="Running")
    assert "trainer: 1 of 2 run" in typed_at.tj("describe", "digits").stdout
    keep(
        store, pod, deleted_at="2026-11-24T10:05:05Z", phase="Succeed", completion_time="2026-11-24T10:04:59Z", uid="u2"
    )
    assert "trainer: 0 of 2 run" in typed_at.tj("describe", "digits").stdout, "they went at its end"
    keep(store, pod, deleted_at="2026-11-24T10:05:40Z", phase="Running", uid="u3")
    assert "trainer: 0 of 2 run" in typed_at.tj("describe", "digits").stdout, "they went long before"


def test_a_job_that_is_there_goes_before_one_of_its_name_that_is_gone(store: MemoryHistory, typed_at: TypedAt) -> None:
    keep(store, phase="Failed")
    typed_at.add(JOB.status(phase="Running"))
    assert "deleted at" not in typed_at.tj("describe", "digits").stdout


def test_a_name_that_nobody_knows_is_said_in_one_line(store: MemoryHistory, typed_at: TypedAt) -> None:
    done = typed_at.tj("describe", "nope")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "no job nope in namespace default" in done.stderr
    assert "the history of deleted jobs has none of that name either" in done.stderr
    store.away = True
    assert "cannot be read: the history store does not answer" in typed_at.tj("describe", "nope").stderr


def test_history_lists_what_has_ended_or_was_deleted(store: MemoryHistory, typed_at: TypedAt) -> None:
    assert "no job has ended or was deleted yet" in typed_at.tj("history").stderr
    keep(store, phase="Running", uid="alive", deleted_at="")
    keep(store, phase="Failed", uid="u1")
    assert typed_at.tj("history").stdout.count("digits") == 1
    assert '"deleted_at": "2026-11-24T10:05:00Z"' in typed_at.tj("history", "-o", "json").stdout


FILTERS = {
    "its namespace": (("-n", "default"), True),
    "its kind": (("--kind", "aitj"), True),
    "a time before": (("--since", "1s"), False),
    "a time since": (("--since", "999999h"), True),
}


@pytest.mark.parametrize(("args", "shown"), FILTERS.values(), ids=FILTERS.keys())
def test_history_is_filtered(store: MemoryHistory, typed_at: TypedAt, args: tuple[str, ...], shown: bool) -> None:
    keep(store, phase="Failed")
    assert ("digits" in typed_at.tj("history", *args).stdout) is shown
