"""The Celery tasks: each takes a key or nothing, hands it to a controller, and may run twice without effect.

Their result, a line of text, stands in Flower's list of tasks.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from celery.signals import worker_process_init, worker_process_shutdown, worker_shutdown

from tjworker.app import app
from tjworker.base import Terminal
from tjworker.publisher import AUTOSCALE, COLLECT_ORPHANS, RECONCILE, RESYNC
from tjworker.runtime import ProcessRuntime, Runtime, connect
from tjworker.settings import load_settings

_runtime = ProcessRuntime(lambda: connect(app, load_settings()))

# A Terminal is logged where it is raised; `throws` keeps Celery from adding a traceback.
_task = partial(app.task, throws=(Terminal,), Request="tjworker.consumer:TaskRequest")


def use(make: Callable[[], Runtime]) -> None:
    """Run the tasks of this process, and of the children that it forks later, on the Runtime that `make` returns."""
    _runtime.use(make)


@worker_process_init.connect  # type: ignore[untyped-decorator,unused-ignore]
def _begin(**_: Any) -> None:
    """Prefork sends this in each child, after the fork; solo sends it once; threads never do, and the first task makes
    the Runtime. An error is no reason to end the child, which would be forked again at once: each task tries again."""
    with suppress(Terminal):
        _runtime.get()


@worker_process_shutdown.connect  # type: ignore[untyped-decorator,unused-ignore]
@worker_shutdown.connect  # type: ignore[untyped-decorator,unused-ignore]
def _end(**_: Any) -> None:
    """The second is for solo and threads, whose tasks run in the main process."""
    _runtime.close()


@_task(name=RECONCILE)  # type: ignore[untyped-decorator,unused-ignore]
def reconcile(key: str) -> str:
    """Reconcile one job."""
    return _runtime.get().jobs.reconcile(key)


@_task(name=RESYNC)  # type: ignore[untyped-decorator,unused-ignore]
def resync() -> str:
    """Publish the keys whose task was lost; from time to time, every unfinished job."""
    return _runtime.get().resync.run()


@_task(name=COLLECT_ORPHANS)  # type: ignore[untyped-decorator,unused-ignore]
def collect_orphans() -> str:
    """Delete what jobs that no longer exist left behind."""
    return _runtime.get().orphans.run()


@_task(name=AUTOSCALE)  # type: ignore[untyped-decorator,unused-ignore]
def autoscale() -> str:
    """Give each elastic job with edlPolicy Auto as many replicas as there is room for."""
    return _runtime.get().autoscaler.run()
