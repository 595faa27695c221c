"""The project's app, `celery -A tests.support.ending_passes ...`, with passes and periodic runs that end as a test
asks: a job's name says how (`ENDS`). Everything else is the real thing, a cluster apart."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any, cast

from benchmarks.support.in_turn import assemble_in_turn
from tjworker.app import app
from tjworker.base import JobKey, Transient
from tjworker.clock import ClusterClock
from tjworker.controllers.pass_end import AwaitWatch, Done, EndedPass, after_error, give_up
from tjworker.kube.client import KubeClient
from tjworker.publisher import Publisher
from tjworker.settings import load_settings
from tjworker.store.connect import open_store
from tjworker.worker import tasks
from tjworker.worker.runtime import Runtime

__all__ = ["ENDS", "RESYNC_IS_AWAY", "app"]

RESYNC_IS_AWAY = "RESYNC_IS_AWAY"
"""In the environment: Redis does not answer a resync."""

ENDS = {
    "done": Done("Running, created 2"),
    "refused": after_error(Transient("pods is forbidden: exceeded quota", status=403)),
    "stale": AwaitWatch("waits until the watch shows the last write of this job"),
    "bug": give_up("bug: KeyError: 'spec'"),
}


class Ending:
    """A controller in the shape of both: one that reconciles, and one that runs now and then."""

    failed = 2

    def run(self, key: str = "") -> Any:
        if not key:
            return "3 deleted, 2 failed"
        return [EndedPass(JobKey(key), ENDS[key.rpartition("/")[2]], 0)]


class Raising:
    """A periodic controller whose runs have no end."""

    failed = 0

    def __init__(self, error: Exception) -> None:
        self._error = error

    def run(self) -> str:
        raise self._error


def _runtime() -> Runtime:
    settings = load_settings()
    store = open_store(settings.redis_url, settings.key_prefix)
    kube = cast(KubeClient, None)
    runtime = assemble_in_turn(settings, store, kube, Publisher(settings), owner="test", clock=ClusterClock())
    away = {"resync": cast(Any, Raising(Transient("Redis does not answer")))} if RESYNC_IS_AWAY in os.environ else {}
    return replace(
        runtime,
        jobs=cast(Any, Ending()),
        orphans=cast(Any, Ending()),
        autoscaler=cast(Any, Raising(KeyError("cpu"))),
        **away,
    )


tasks.use(_runtime)
