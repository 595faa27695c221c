"""The project's app, `celery -A benchmarks.support.empty_pass ...`, with a pass that does nothing: for tests of work
queue, Celery and Redis without a cluster. App, tasks, store and resync are the real ones.

Each pass adds its key to the file that TJ_TEST_PASSES names: Redis may forget its last second, a file does not.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import cast

from benchmarks.support.in_turn import assemble_in_turn
from tjworker.app import app
from tjworker.base import JobKey
from tjworker.clock import ClusterClock
from tjworker.controllers.jobs import JobReconciler
from tjworker.controllers.pass_end import Done, EndedPass
from tjworker.kube.client import KubeClient
from tjworker.publisher import Publisher
from tjworker.settings import load_settings
from tjworker.store.connect import open_store
from tjworker.store.port import Store
from tjworker.store.work_queue import PassEnding
from tjworker.worker import tasks
from tjworker.worker.runtime import Runtime

PASSES = Path(os.environ.get("TJ_TEST_PASSES", os.devnull))

__all__ = ["app"]


class EmptyPass:
    def __init__(self, store: Store) -> None:
        self._store = store

    def run(self, key: str) -> list[EndedPass]:
        settings = load_settings()
        taken = self._store.queue.acquire_views(
            JobKey(key), f"pid {os.getpid()}", settings.lock_ttl_seconds, settings.keys_per_task
        )
        keys = [claim.key for claim, _ in taken.views]
        if keys:
            self._store.queue.finish_all([PassEnding(claim) for claim, _ in taken.views])
        with PASSES.open("a") as passes:
            passes.writelines(f"{each}\n" for each in keys)
        return [EndedPass(each, Done("done"), 0) for each in keys]


def without_a_cluster() -> Runtime:
    settings = load_settings()
    store = open_store(settings.redis_url, settings.key_prefix)
    runtime = assemble_in_turn(
        settings, store, cast(KubeClient, None), Publisher(settings), owner=f"pid {os.getpid()}", clock=ClusterClock()
    )
    return replace(runtime, jobs=cast(JobReconciler, EmptyPass(store)))


tasks.use(without_a_cluster)
