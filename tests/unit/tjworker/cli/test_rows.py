"""Tables: what a job or a pod looks like in a row."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from tjworker.api.status import Failure
from tjworker.cli import rows

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

DURATIONS: dict[str, tuple[float, str]] = {
    "seconds up to two minutes": (119, "119s"),
    "minutes and seconds up to ten minutes": (190, "3m10s"),
    "minutes up to three hours": (7300, "121m"),
    "hours and minutes up to eight hours": (11_100, "3h5m"),
    "hours up to two days": (100_000, "27h"),
    "two days": (172_800, "2d"),
    "days": (260_000, "3d"),
    "a clock that runs behind shows no negative age": (-5, "0s"),
}


@pytest.mark.parametrize(("seconds", "want"), DURATIONS.values(), ids=list(DURATIONS))
def test_durations(seconds: float, want: str) -> None:
    assert rows.duration(seconds) == want


@dataclass(frozen=True)
class JobCase:
    status: dict[str, Any]
    want_row: tuple[str, ...]
    want_message: str = ""


JOBS: dict[str, JobCase] = {
    "a job that no pass has seen yet": JobCase({}, ("digits", "<none>", "-", "0", "30s")),
    "a job whose runtime is not there": JobCase(
        {"conditions": [{"type": "Waiting", "status": "True"}]}, ("digits", "Waiting", "-", "0", "30s")
    ),
    "a running job": JobCase(
        {"phase": "Running", "active": "5/5", "restarts": 1}, ("digits", "Running", "5/5", "1", "30s")
    ),
    "the status' own message comes first": JobCase(
        {"phase": "Running", "message": "all run", "conditions": [{"status": "True", "message": "accepted"}]},
        ("digits", "Running", "-", "0", "30s"),
        "all run",
    ),
    "without one the message is that of the true condition that changed last": JobCase(
        {
            "phase": "Failed",
            "conditions": [
                {
                    "type": "Failed",
                    "status": "True",
                    "lastTransitionTime": "2026-01-02T03:04:00Z",
                    "message": "trainer 1 failed",
                },
                {
                    "type": "Created",
                    "status": "True",
                    "lastTransitionTime": "2026-01-02T03:03:00Z",
                    "message": "created",
                },
                {
                    "type": "Running",
                    "status": "False",
                    "lastTransitionTime": "2026-01-02T03:04:01Z",
                    "message": "not any more",
                },
            ],
        },
        ("digits", "Failed", "-", "0", "30s"),
        "trainer 1 failed",
    ),
}


@pytest.mark.parametrize("case", JOBS.values(), ids=list(JOBS))
def test_jobs(case: JobCase) -> None:
    metadata = {"name": "digits", "creationTimestamp": "2026-01-02T03:03:35Z"}
    job = {"kind": "AITrainingJob", "metadata": metadata, "status": case.status}
    assert rows.job_row(job, NOW) == case.want_row
    assert rows.job_row(job, NOW, wide=True) == (*case.want_row, "AITrainingJob", case.want_message)


FAILED = {
    "pod": "digits-trainer-0",
    "node": "node-1",
    "exitCode": 3,
    "reason": "Error",
    "time": "2026-01-02T03:03:35Z",
    "logTail": "one\ntwo\n",
}
FAILURES: dict[str, tuple[list[dict[str, Any]], list[str]]] = {
    "a program that failed, with its last words": (
        [FAILED],
        ["digits-trainer-0 on node-1, 30s ago: exit code 3, Error", "    | one", "    | two"],
    ),
    "a pod that was evicted has no exit code": (
        [{"pod": "a", "reason": "Evicted", "message": "low on memory", "time": "2026-01-02T03:03:35Z"}],
        ["a, 30s ago: Evicted, low on memory"],
    ),
    "a long log ends with its end": (
        [{**FAILED, "logTail": "\n".join(map(str, range(50)))}],
        ["digits-trainer-0 on node-1, 30s ago: exit code 3, Error", *(f"    | {i}" for i in range(45, 50))],
    ),
    "what a terminal would obey is not printed": (
        [{**FAILED, "reason": "\x1b[2J", "logTail": "\x1b]0;x\x07"}],
        ["digits-trainer-0 on node-1, 30s ago: exit code 3,  [2J", "    |  ]0;x "],
    ),
}


@pytest.mark.parametrize(("failures", "want"), FAILURES.values(), ids=list(FAILURES))
def test_failures(failures: list[dict[str, Any]], want: list[str]) -> None:
    assert rows.failure_lines([Failure.model_validate(failure) for failure in failures], NOW) == want


@dataclass(frozen=True)
class PodCase:
    want: str
    status: dict[str, Any] = field(default_factory=dict)
    deleted: bool = False


def container(state: dict[str, Any]) -> dict[str, Any]:
    return {"containerStatuses": [{"name": "aitj-a", "state": state}]}


PODS: dict[str, PodCase] = {
    "a pod that waits for a node": PodCase("Pending", {"phase": "Pending"}),
    "a pod that is being created": PodCase(
        "Pending", {"phase": "Pending", **container({"waiting": {"reason": "ContainerCreating"}})}
    ),
    "a container that cannot start shows why": PodCase(
        "CreateContainerError", {"phase": "Pending", **container({"waiting": {"reason": "CreateContainerError"}})}
    ),
    "a failed container shows its exit code": PodCase(
        "Error (137)", {"phase": "Failed", **container({"terminated": {"exitCode": 137, "reason": "Error"}})}
    ),
    "an evicted pod shows the reason": PodCase("Evicted", {"phase": "Failed", "reason": "Evicted"}),
    "a pod that is being deleted is Terminating whatever it does": PodCase(
        "Terminating", {"phase": "Running"}, deleted=True
    ),
}


@pytest.mark.parametrize("case", PODS.values(), ids=list(PODS))
def test_pods(case: PodCase) -> None:
    metadata = {"name": "a", "deletionTimestamp": "2026-01-02T03:04:05Z"} if case.deleted else {"name": "a"}
    assert rows.pod_phase({"metadata": metadata, "status": case.status}) == case.want
