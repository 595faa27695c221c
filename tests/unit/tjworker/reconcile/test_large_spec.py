"""What the owner of a job with a very large spec is told, and when."""

from __future__ import annotations

from dataclasses import replace

from tests.support.builders import make_job
from tjworker.api.observed import Observed
from tjworker.api.status import JobStatus
from tjworker.reconcile.large_spec import report_large_spec
from tjworker.reconcile.plan import Plan

JOB = replace(make_job("digits").role("trainer", 1).build(), status=JobStatus(observed_generation=3))


def test_it_is_told_once_for_each_spec() -> None:
    for before, now, size, told in ((3, 4, 1 << 20, True), (4, 4, 1 << 20, False), (3, 4, 0, False)):
        job = replace(JOB, status=JobStatus(observed_generation=before))
        plan = report_large_spec(job, Observed(left_out_bytes=size), Plan(JobStatus(observed_generation=now)))
        assert [event.reason for event in plan.events] == (["LargeSpec"] if told else [])
    (event,) = report_large_spec(JOB, Observed(left_out_bytes=70_000), Plan(JobStatus(observed_generation=4))).events
    assert event.message.startswith(
        "spec, labels and annotations have 69 KiB together. The operator keeps at most 64 KiB of a job in Redis"
    )
