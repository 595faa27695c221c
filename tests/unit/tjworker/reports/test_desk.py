"""The desk's times and bounds, and what a patch of it says: each at its edge."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from threading import Thread
from types import SimpleNamespace
from typing import Any, get_args

import pytest

from tests.support.builders import make_job
from tests.support.kinds import AITRAININGJOBS
from tests.support.waiting import PATIENCE_SECONDS
from tjworker.api import labels
from tjworker.api.reporting import audience, status_path
from tjworker.api.resources import PODS
from tjworker.base import Conflict, GroupResource, JobName, Transient
from tjworker.kube.errors import NOT_FOUND
from tjworker.reports import desk as module
from tjworker.reports.desk import (
    FORGET_SECONDS,
    REPORT_SECONDS,
    TRIES,
    WRITE_SECONDS,
    Desk,
    Verdict,
    WriteResult,
    _merge_patch,
)
from tjworker.telemetry.metrics import REGISTRY

Json = dict[str, Any]
NAME = JobName(AITRAININGJOBS, "default", "digits")
JOB = make_job("digits").role("trainer", 2).status(phase="Running")
ACCEPTED, EARLY = 200, 429


class Cluster:
    """One job, one pod, and what the desk has patched."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.job: Json | None = JOB.object()
        owner = {"apiVersion": "elasticdeeplearning.ai/v1", "kind": "AITrainingJob", "name": "digits"}
        marks = {labels.REPLICA_NAME: "trainer", labels.REPLICA_INDEX: "0", labels.RESTART_ATTEMPT: "0"}
        self.pod: Json = {
            "metadata": {
                "name": "digits-trainer-0",
                "namespace": "default",
                "uid": "p0",
                "resourceVersion": "1",
                "labels": marks,
                "ownerReferences": [{**owner, "uid": JOB.build().uid, "controller": True}],
            },
            "spec": {"containers": [{"name": "aitj-main"}]},
            "status": {"phase": "Running"},
        }
        self.patches: list[tuple[float, Json]] = []
        self.refuses: list[Exception] = []
        """What the next patches meet."""
        self.meanwhile: list[Callable[[], None]] = []
        """What happens during the next patches."""
        self.desk = Desk(self, now=lambda: self.now + 1e9, monotonic=lambda: self.now)  # type: ignore[arg-type]

    # -- what the desk asks of the API server -----------------------------------------------------
    def create(self, resource: GroupResource, namespace: str, body: Mapping[str, Any]) -> Json:
        names = {"authentication.kubernetes.io/pod-name": ["digits-trainer-0"]}
        extra = names | {"authentication.kubernetes.io/pod-uid": ["p0"]}
        user = {"username": "system:serviceaccount:default:default", "extra": extra}
        assert body["spec"] == {"token": "t", "audiences": [audience(NAME)]}
        return {"status": {"authenticated": True, "audiences": [audience(NAME)], "user": user}}

    def get(self, resource: GroupResource, namespace: str, name: str) -> Json | None:
        assert namespace == "default"
        return self.pod if resource == PODS else self.job

    def list_page(self, resource: GroupResource, namespace: str, *, label_selector: str) -> Any:
        assert (resource, namespace, label_selector) == (PODS, "default", f"{labels.JOB_UID}={JOB.build().uid}")
        return SimpleNamespace(items=[self.pod])

    def merge_patch(self, resource: GroupResource, namespace: str, name: str, body: Json, *, subresource: str) -> Json:
        assert (resource, namespace, name, subresource) == (AITRAININGJOBS, "default", "digits", "status")
        if self.refuses:
            raise self.refuses.pop(0)
        if self.meanwhile:
            self.meanwhile.pop(0)()
        self.patches.append((self.now, body))
        assert self.job is not None
        self.job["status"] = {**self.job["status"], **body["status"]}
        return self.job

    # -- what a test does -------------------------------------------------------------------------
    def report(self, at: float, **told: Any) -> int:
        return self.answer(at, **told).code

    def answer(self, at: float, **told: Any) -> Verdict:
        self.now = at
        return self.desk.take(status_path(NAME), "Bearer t", json.dumps({"trainerStatus": told}).encode())

    def looks(self, at: float) -> list[float]:
        """When the desk had written, after it has looked for what is due."""
        self.now = at
        self.desk.write_due()
        return [at for at, _ in self.patches]

    @property
    def told(self) -> Json:
        assert self.job is not None
        return dict(self.job["status"].get("trainerStatus") or {})


def test_a_job_is_written_ten_seconds_after_its_last_write_and_not_a_moment_earlier() -> None:
    cluster = Cluster()
    assert cluster.report(0, progressPercentage=1) == ACCEPTED
    assert cluster.report(REPORT_SECONDS, progressPercentage=2) == ACCEPTED
    assert cluster.looks(WRITE_SECONDS - 0.1) == [0]
    assert cluster.looks(WRITE_SECONDS) == [0, WRITE_SECONDS]
    assert cluster.looks(3 * WRITE_SECONDS) == [0, WRITE_SECONDS], "nothing is new"
    assert cluster.report(3 * WRITE_SECONDS, progressPercentage=3) == ACCEPTED
    assert cluster.told["progressPercentage"] == 3, "at once"


REPORTS: dict[str, tuple[list[tuple[float, int]], list[int]]] = {
    "a second apart": ([(0, 1), (REPORT_SECONDS, 2), (2 * REPORT_SECONDS, 3)], [200, 200, 200]),
    "one a moment too early": ([(0, 1), (REPORT_SECONDS - 0.1, 2), (REPORT_SECONDS, 3)], [200, 429, 200]),
    "the first of 100 %, however early": ([(0, 1), (0.1, 100), (0.2, 100)], [200, 200, 429]),
}


@pytest.mark.parametrize("sentence", REPORTS)
def test_two_reports(sentence: str) -> None:
    sent, want = REPORTS[sentence]
    cluster = Cluster()
    assert [cluster.report(at, progressPercentage=percentage) for at, percentage in sent] == want


def test_a_report_that_came_early_is_said_on_the_job_until_reports_count_again() -> None:
    cluster = Cluster()
    cluster.report(0, progressPercentage=1)
    cluster.report(0.5, progressPercentage=2)
    cluster.looks(WRITE_SECONDS)
    [condition] = [c for c in cluster.patches[-1][1]["status"]["conditions"] if c["type"] == "ReportRefused"]
    assert (condition["status"], condition["reason"]) == ("True", "TooManyRequests")
    cluster.report(20, progressPercentage=3)
    [condition] = [c for c in cluster.patches[-1][1]["status"]["conditions"] if c["type"] == "ReportRefused"]
    assert (condition["status"], condition["reason"]) == ("False", "Accepted")


def test_a_patch_names_the_job_and_the_version_that_it_was_counted_from() -> None:
    cluster = Cluster()
    cluster.report(0, progressPercentage=1)
    job = JOB.build()
    [(_, body)] = cluster.patches
    assert body["metadata"] == {"uid": job.uid, "resourceVersion": str(job.resource_version)}
    assert set(body) == {"metadata", "status"}
    assert set(body["status"]) == {"trainerStatus"}


@pytest.mark.parametrize("conflicts", [1, TRIES - 1])
def test_a_write_that_meets_another_is_tried_again_at_once(conflicts: int) -> None:
    cluster = Cluster()
    cluster.refuses = [Conflict("changed") for _ in range(conflicts)]
    cluster.report(0, progressPercentage=1)
    assert cluster.told["progressPercentage"] == 1


@pytest.mark.parametrize("error", [Transient("away"), Conflict("changed")], ids=["away", "changed"])
def test_a_write_that_fails_is_tried_with_the_next_one_that_is_due(error: Exception) -> None:
    cluster = Cluster()
    cluster.refuses = [error] * (1 if isinstance(error, Transient) else TRIES)
    assert cluster.report(0, progressPercentage=1) == ACCEPTED
    assert cluster.looks(WRITE_SECONDS - 0.1) == []
    assert cluster.looks(WRITE_SECONDS) == [WRITE_SECONDS]
    assert cluster.told["progressPercentage"] == 1


@pytest.mark.parametrize("look", ["write_due", "write_all"])
def test_a_report_that_comes_during_a_write_is_in_that_write_or_in_the_next(
    look: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOCK_SECONDS", PATIENCE_SECONDS)
    cluster, codes = Cluster(), list[int]()
    cluster.report(0, progressPercentage=1)
    cluster.report(REPORT_SECONDS, progressPercentage=2)
    [book] = cluster.desk._books.values()
    cluster.now = WRITE_SECONDS
    reports = Thread(target=lambda: codes.append(cluster.report(WRITE_SECONDS, progressPercentage=3)))

    def begin() -> None:
        must_wait = book.lock.locked()
        reports.start()
        if not must_wait:
            reports.join(PATIENCE_SECONDS)

    cluster.meanwhile.append(begin)
    getattr(cluster.desk, look)()
    reports.join(PATIENCE_SECONDS)
    cluster.desk.write_all()
    assert (codes, cluster.told["progressPercentage"]) == ([ACCEPTED], 3)


def test_what_waits_of_a_deleted_job_is_dropped() -> None:
    cluster = Cluster()
    cluster.refuses = [Conflict("gone", reason=NOT_FOUND)]
    cluster.report(0, progressPercentage=1)
    assert cluster.looks(3 * WRITE_SECONDS) == []
    assert not cluster.refuses


def _end_without_reports(cluster: Cluster) -> None:
    assert cluster.job is not None
    cluster.job["status"] |= {"phase": "Succeed", "endTime": "2026-01-01T00:00:00Z"}
    cluster.desk._books[NAME].waiting.clear()


COUNTS: dict[str, tuple[Callable[[Cluster], object], str]] = {
    "It is written.": (lambda cluster: None, "written"),
    "The API server is away.": (lambda cluster: cluster.refuses.append(Transient("away")), "failed"),
    "Others write the status at each try.": (
        lambda cluster: cluster.refuses.extend([Conflict("changed")] * TRIES),
        "failed",
    ),
    "The job is deleted before the write.": (lambda cluster: setattr(cluster, "job", None), "dropped"),
    "The job is deleted during the write.": (
        lambda cluster: cluster.refuses.append(Conflict("gone", reason=NOT_FOUND)),
        "dropped",
    ),
    "Only a refusal waits, and the job has ended.": (_end_without_reports, "unchanged"),
}


@pytest.mark.parametrize("sentence", COUNTS)
def test_a_write_counts_as_what_became_of_it(sentence: str) -> None:
    happen, want = COUNTS[sentence]
    cluster = Cluster()
    cluster.report(0, progressPercentage=1)
    cluster.report(REPORT_SECONDS, progressPercentage=2)
    cluster.report(REPORT_SECONDS + 0.1, progressPercentage=3)
    happen(cluster)
    before = _counted_writes()
    cluster.looks(WRITE_SECONDS)
    assert {k: n - before[k] for k, n in _counted_writes().items() if n > before[k]} == {want: 1}


def _counted_writes() -> dict[str, float]:
    results = get_args(WriteResult)
    return {each: REGISTRY.get_sample_value("tj_progress_writes_total", {"result": each}) or 0.0 for each in results}


@pytest.mark.parametrize("first", ["the write", "a report of the new attempt"])
def test_a_percentage_that_waits_while_the_job_restarts_is_dropped(first: str) -> None:
    cluster = Cluster()
    cluster.report(0, progressPercentage=70)
    cluster.report(REPORT_SECONDS, progressPercentage=80, metrics=[{"name": "loss", "value": "0.1"}])
    assert cluster.job is not None
    cluster.job["status"] |= {"attempts": {"roles": {"trainer": {"all": 1}}}, "trainerStatus": {}}
    cluster.pod["metadata"]["labels"][labels.RESTART_ATTEMPT] = "1"
    if first == "the write":
        assert cluster.looks(WRITE_SECONDS) == [0, WRITE_SECONDS]
        assert "progressPercentage" not in cluster.told
        assert cluster.told["metrics"] == [{"name": "loss", "value": "0.1"}]
    assert cluster.report(2 * WRITE_SECONDS, progressPercentage=60) == ACCEPTED
    assert cluster.told["progressPercentage"] == 60


def test_a_job_that_reports_no_more_is_forgotten_after_a_while() -> None:
    cluster = Cluster()
    cluster.report(0, progressPercentage=1)
    cluster.looks(FORGET_SECONDS)
    assert cluster.desk._books
    cluster.looks(FORGET_SECONDS + 1)
    assert not cluster.desk._books
    assert cluster.report(FORGET_SECONDS + 2, progressPercentage=0) == 422, "the status remembers"


PATCHES: dict[str, tuple[Json, Json, Json]] = {
    "nothing differs": ({"a": 1, "b": {"c": 2}}, {"a": 1, "b": {"c": 2}}, {}),
    "a field is new": ({}, {"a": 1}, {"a": 1}),
    "a field has changed": ({"a": 1, "b": 2}, {"a": 3, "b": 2}, {"a": 3}),
    "a field is gone": ({"a": 1, "b": 2}, {"b": 2}, {"a": None}),
    "within an object": ({"a": {"b": 1, "c": 2, "d": 3}}, {"a": {"b": 1, "c": 4}}, {"a": {"d": None, "c": 4}}),
    "an object in the place of a number": ({"a": 1}, {"a": {"b": 1}}, {"a": {"b": 1}}),
    "a list is whole": ({"a": [1, 2]}, {"a": [1]}, {"a": [1]}),
}


@pytest.mark.parametrize("sentence", PATCHES)
def test_the_patch_between_two_objects(sentence: str) -> None:
    before, after, want = PATCHES[sentence]
    assert _merge_patch(before, after) == want
