"""The project's app, `celery -A tests.empty_pass ...`, with a pass that does nothing: for tests and benchmarks of work queue,
Celery and Redis without a cluster. App, tasks, store and resync are the real ones.

Each pass adds its key to the file that TJ_TEST_PASSES names: Redis may forget its last second, a file does not.
"""

from __future__ import annotations

import os
from pathlib import Path

from tjworker import tasks
from tjworker.app import app
from tjworker.base import JobKey
from tjworker.settings import load_settings

PASSES = Path(os.environ.get("TJ_TEST_PASSES", os.devnull))

__all__ = ["app"]


class EmptyPass:
    def handle(self, key: str) -> str:
        store = tasks._store()
        hold = store.acquire(JobKey(key), f"pid {os.getpid()}", load_settings().lock_ttl_seconds)
        if hold is None:
            return "nothing to do"
        store.finish(hold)
        with PASSES.open("a") as passes:
            passes.write(f"{key}\n")
        return "done"


tasks._worker = EmptyPass  # type: ignore[assignment]
