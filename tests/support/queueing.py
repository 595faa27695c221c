"""One key through the work queue: the product's calls, which serve several keys, with a single one."""

from __future__ import annotations

from tjworker.base import JobKey
from tjworker.store.work_queue import (
    NOTHING_WRITTEN,
    ON_NEWS,
    Claim,
    FinishResult,
    NextPass,
    PassEnding,
    WorkQueue,
    Written,
)


def acquire_one(queue: WorkQueue, key: JobKey, owner: str, ttl_seconds: float) -> Claim | None:
    """The lease on the key whose turn it is; None if no key waits."""
    taken = queue.acquire_views(key, owner, ttl_seconds, 1)
    return taken.views[0][0] if taken.views else None


def finish_one(
    queue: WorkQueue, claim: Claim, written: Written = NOTHING_WRITTEN, next_pass: NextPass = ON_NEWS
) -> FinishResult:
    """Release the key. Raises the error of its release."""
    (result,) = queue.finish_all([PassEnding(claim, written, next_pass)])
    return result
