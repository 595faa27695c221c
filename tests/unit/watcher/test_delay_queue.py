"""A finished job is queued when its TTL has passed."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from tests.support.kinds import AITRAININGJOBS
from tests.support.memory_store import MemoryStore
from tests.unit.watcher.projection.objects import JOB, KEY
from tests.unit.watcher.writing import Bench
from tjworker.api.timefmt import to_rfc3339
from watcher.projection import project

FINISHED: dict[str, tuple[dict[str, Any], float | None]] = {
    "a TTL that has yet to pass": ({"ttlSecondsAfterFinished": 90}, 60.0),
    "a TTL that has passed": ({"ttlSecondsAfterFinished": 10}, 0.0),
    "a TTL of 0: it goes at once": ({"ttlSecondsAfterFinished": 0}, 0.0),
    "no TTL: it stays": ({}, None),
}


@pytest.mark.parametrize(("policy", "want"), FINISHED.values(), ids=FINISHED.keys())
def test_a_finished_job_that_a_new_watcher_sees_is_queued_when_its_ttl_has_passed(
    policy: dict[str, Any], want: float | None
) -> None:
    """It ended 30 s ago, and Redis, which knew when to look at it again, was lost with the delayed keys."""
    now = 1_767_225_600.0
    finished = deepcopy(JOB)
    finished["spec"]["runPolicy"] = policy
    finished["status"] = {"phase": "Succeed", "observedGeneration": 3, "completionTime": to_rfc3339(now - 30)}
    bench = Bench(MemoryStore(clock=lambda: now))
    projected = project(AITRAININGJOBS, finished)
    assert projected is not None
    assert projected.change.finished
    # Looked at before the writer drains what is due.
    bench.writer.due_at = 1.0
    bench.put(AITRAININGJOBS, projected)
    due = bench.store.next_due()
    assert (None if due is None else due - now) == want
    bench.writer.due_at = 0.0
    bench.put(AITRAININGJOBS)
    assert bench.published == ([KEY] if want == 0 else [])
