"""Jobs to records: running, finished, and edited since."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import orjson
import pytest

from tests.support.kinds import AITRAININGJOBS
from tests.unit.watcher.projection.objects import JOB
from tjworker.api.kinds import parse
from tjworker.api.kinds.base import LEFT_OUT
from tjworker.api.model import InvalidJob
from watcher.projection import project
from watcher.projection.jobs import TOO_DEEP


@pytest.mark.parametrize("phase", ["Succeed", "Failed", "Timeout", "Preempted", "NodeFail"])
def test_an_ended_job_keeps_what_its_ttl_needs_and_no_more(phase: str) -> None:
    job = deepcopy(JOB)
    job["status"] = {
        "phase": phase,
        "completionTime": "2026-01-02T00:00:00Z",
        "observedGeneration": 3,
        "failures": ["x" * 4000],
    }
    projected = project(AITRAININGJOBS, job)
    assert projected is not None
    assert projected.change.finished
    assert projected.change.record is not None
    assert orjson.loads(projected.change.record) == {
        "finished": True,
        "apiVersion": "elasticdeeplearning.ai/v1",
        "kind": "AITrainingJob",
        "metadata": {
            "name": "digits",
            "namespace": "default",
            "uid": "job-uid",
            "resourceVersion": "7",
            "generation": 3,
        },
        "spec": {"runPolicy": {"ttlSecondsAfterFinished": 60}},
        "status": {"phase": phase, "completionTime": "2026-01-02T00:00:00Z", "observedGeneration": 3},
    }
    assert len(projected.change.record) < 1024


def test_an_ended_job_whose_spec_was_edited_since_is_not_finished_until_its_status_says_so() -> None:
    job = deepcopy(JOB)
    job["metadata"]["generation"] = 4
    for seen, finished in ((3, False), (4, True), (None, True), (0, True)):
        job["status"] = {"phase": "Succeed"} if seen is None else {"phase": "Succeed", "observedGeneration": seen}
        projected = project(AITRAININGJOBS, job)
        assert projected is not None
        assert projected.change.finished is finished


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"a": value}
    return value


@pytest.mark.parametrize("depth", [300, 500])
def test_a_job_that_is_nested_too_deep_to_be_kept_is_kept_as_unreadable(depth: int) -> None:
    projected = project(AITRAININGJOBS, {**JOB, "spec": {**JOB["spec"], "deep": nested(depth)}})
    assert projected is not None
    assert projected.change.record is not None
    raw = orjson.loads(projected.change.record)
    assert "deep" not in str(raw["spec"].pop("deep", None))
    assert raw["spec"] == {**JOB["spec"], **raw["spec"]}, "a job that has begun is operated by what can be read"
    assert raw["status"] == JOB["status"], "a job that runs must not look new"
    job = parse(AITRAININGJOBS, raw)
    assert isinstance(job, InvalidJob)
    assert [str(error) for error in job.errors] == [f"spec: {TOO_DEEP}"]
    assert (job.uid, job.resource_version) == (JOB["metadata"]["uid"], 7)


def _with_text(size: int, **more: Any) -> dict[str, Any]:
    job = deepcopy(JOB)
    job["metadata"]["annotations"] = {"notes": "x" * size}
    return {**job, **more}


LEFT_OUT_OF: dict[str, tuple[dict[str, Any], bool]] = {
    "a job of the usual size": (_with_text(10_000), False),
    "a job with more than 64 KiB of annotations": (_with_text(66_000), True),
    "a suspended job": (_with_text(10, status={"phase": "Suspended", "observedGeneration": 3}), True),
    "a suspended job whose edit no pass has seen": (
        _with_text(10, status={"phase": "Suspended", "observedGeneration": 2}),
        False,
    ),
    "a refused job": (_with_text(10, status={"phase": "Failed", "refused": True, "observedGeneration": 3}), True),
}


@pytest.mark.parametrize("sentence", LEFT_OUT_OF)
def test_what_is_kept_without_its_spec(sentence: str) -> None:
    job, want = LEFT_OUT_OF[sentence]
    job["metadata"]["generation"] = 3
    projected = project(AITRAININGJOBS, job)
    assert projected is not None
    assert projected.change.record is not None
    assert not projected.change.finished
    raw = orjson.loads(projected.change.record)
    assert (LEFT_OUT in raw) == want
    assert (raw["spec"] == {}) == want
    assert not want or len(projected.change.record) < 1024
