"""The Celery tasks: each takes a key or nothing, hands it to a controller, and may run twice without effect.

Their result, a line of text, stands in Flower's list of tasks, green; one with a pass that failed is red (FAILURE), one
with a pass that is tried again yellow (RETRY). Both are words for people alone: the keys are back in the work queue by
then, with the queue's own backoff, and no message is sent. A periodic task shows only when it fails, else it would bury
the jobs' rows.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from celery.signals import worker_init, worker_process_init, worker_process_shutdown, worker_shutdown

from tjworker.app import app
from tjworker.base import Terminal, Transient
from tjworker.child import BoundedTask, Failed, again, register
from tjworker.collector import settle
from tjworker.controllers.pass_end import describe_passes, worst_state
from tjworker.publisher import AUTOSCALE, COLLECT_ORPHANS, RECONCILE, RESYNC
from tjworker.runtime import ProcessRuntime, Runtime, connect
from tjworker.settings import load_settings
from tjworker.telemetry import scrape
from tjworker.telemetry.metrics import PASSES, PERIODIC_RUNS

_runtime = ProcessRuntime(lambda: connect(load_settings()))
register()


# What is expected is logged where it comes up; `throws` keeps Celery from adding a traceback.
_task = partial(app.task, base=BoundedTask, throws=(Terminal, Failed), Request="tjworker.consumer:TaskRequest")
_periodic = partial(_task, send_events=False)


def use(make: Callable[[], Runtime]) -> None:
    """Run the tasks of this process, and of the children that it forks later, on the Runtime that `make` returns."""
    _runtime.use(make)


@worker_init.connect  # type: ignore[untyped-decorator,unused-ignore]
def _before_forks(**_: Any) -> None:
    """In the main process, before it forks."""
    scrape.share_with_children(load_settings())
    settle()


@worker_process_init.connect  # type: ignore[untyped-decorator,unused-ignore]
def _begin(**_: Any) -> None:
    """Prefork sends this in each child, after the fork; solo sends it once; threads never do, and the first task makes
    the Runtime. An error is no reason to end the child, which would be forked again at once: each task tries again."""
    with suppress(Terminal):
        _runtime.get()
    settle()


@worker_process_shutdown.connect  # type: ignore[untyped-decorator,unused-ignore]
@worker_shutdown.connect  # type: ignore[untyped-decorator,unused-ignore]
def _end(**_: Any) -> None:
    """The second is for solo and threads, whose tasks run in the main process."""
    _runtime.close()


@_task(name=RECONCILE)  # type: ignore[untyped-decorator,unused-ignore]
def reconcile(key: str) -> str:
    """Reconcile the jobs whose turn it is."""
    passes = _runtime.get().jobs.run(key)
    for ended in passes:
        PASSES.observe(ended.seconds, result=ended.end.state)
    state, text = worst_state(passes), describe_passes(passes, key)
    if state == "failed":
        raise Failed(text)
    if state == "retried":
        again(text)
    return text


@_periodic(name=RESYNC)  # type: ignore[untyped-decorator,unused-ignore]
def resync() -> str:
    """Publish the keys whose task was lost; from time to time, every unfinished job."""
    return _counted("resync", _runtime.get().resync.run)


@_periodic(name=COLLECT_ORPHANS)  # type: ignore[untyped-decorator,unused-ignore]
def collect_orphans() -> str:
    """Delete what jobs that no longer exist left behind."""
    orphans = _runtime.get().orphans
    return _counted("collect_orphans", orphans.run, lambda: orphans.failed)


@_periodic(name=AUTOSCALE)  # type: ignore[untyped-decorator,unused-ignore]
def autoscale() -> str:
    """Give each elastic job with edlPolicy Auto as many replicas as there is room for."""
    autoscaler = _runtime.get().autoscaler
    return _counted("autoscale", autoscaler.run, lambda: autoscaler.failed)


def _counted(task: str, run: Callable[[], str], failed_objects: Callable[[], int] = lambda: 0) -> str:
    """What the run came to, in words. Counts how it ended; raises Failed when it could not serve some objects, and
    whatever the run raises."""
    try:
        text = run()
    except Transient:
        raise  # Redis or the API server is away, which has alerts of its own
    except Exception:
        # A bug, or the limit of time. Uncounted, no alert would tell of a task that never gets to its end.
        PERIODIC_RUNS.inc(task=task, result="failed")
        raise
    failed = failed_objects()
    PERIODIC_RUNS.inc(task=task, result="failed" if failed else "done")
    if failed:
        raise Failed(text)
    return text
