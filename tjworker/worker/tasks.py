"""The Celery tasks. Each takes a key or nothing, hands it to a controller, and may run twice without harm.

Flower shows the result of a task, a line of text, in green; in red (FAILURE) if a pass failed, in yellow (RETRY) if a
pass is tried again. These states are for people only: the keys are back in the work queue by then, with its own
backoff, and Celery sends no message. Flower shows a periodic task only if it fails; otherwise it would bury the rows of
jobs.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from celery.signals import worker_init, worker_process_init, worker_process_shutdown, worker_shutdown

from tjworker.app import app
from tjworker.base import Terminal, Transient
from tjworker.collector import settle
from tjworker.controllers.pass_end import describe_passes, worst_state
from tjworker.publisher import AUTOSCALE, COLLECT_ORPHANS, RECONCILE, RESYNC
from tjworker.settings import load_settings
from tjworker.telemetry import scrape
from tjworker.telemetry.metrics import PASSES, PERIODIC_RUNS
from tjworker.worker.child import BoundedTask, Failed, end_as_retried, register_limits
from tjworker.worker.runtime import ProcessRuntime, Runtime, connect

_runtime = ProcessRuntime(lambda: connect(load_settings()))
register_limits()


# Expected errors are logged where they occur; `throws` keeps Celery from adding a traceback. `Request` is text, so that
# only a worker loads the class.
_task = partial(app.task, base=BoundedTask, throws=(Terminal, Failed), Request="tjworker.worker.consumer:TaskRequest")
_periodic = partial(_task, send_events=False)


def use(make: Callable[[], Runtime]) -> None:
    """Use the Runtime that `make` returns for the tasks of this process and of the children that it forks later."""
    _runtime.use(make)


@worker_init.connect  # type: ignore[untyped-decorator,unused-ignore]
def _before_forks(**_: Any) -> None:
    """Runs in the main process, before it forks."""
    scrape.share_with_children(load_settings())
    settle()


@worker_process_init.connect  # type: ignore[untyped-decorator,unused-ignore]
def _begin_process(**_: Any) -> None:
    """Prefork sends this signal in each child, after the fork; solo sends it once. The pool `threads` does not send it:
    there the first task creates the Runtime."""
    # An error must not end the child, which would be forked again at once. Each task tries again.
    with suppress(Terminal):
        _runtime.get()
    settle()


@worker_process_shutdown.connect  # type: ignore[untyped-decorator,unused-ignore]
@worker_shutdown.connect  # type: ignore[untyped-decorator,unused-ignore]
def _end_process(**_: Any) -> None:
    """The second signal is for solo and threads, whose tasks run in the main process."""
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
        end_as_retried(text)
    return text


@_periodic(name=RESYNC)  # type: ignore[untyped-decorator,unused-ignore]
def resync() -> str:
    """Publish the keys whose task was lost; from time to time, every unfinished job."""
    return _count_run("resync", _runtime.get().resync.run)


@_periodic(name=COLLECT_ORPHANS)  # type: ignore[untyped-decorator,unused-ignore]
def collect_orphans() -> str:
    """Delete what jobs that no longer exist left behind."""
    orphans = _runtime.get().orphans
    return _count_run("collect_orphans", orphans.run, lambda: orphans.failed)


@_periodic(name=AUTOSCALE)  # type: ignore[untyped-decorator,unused-ignore]
def autoscale() -> str:
    """Give each elastic job with edlPolicy Auto as many replicas as there is room for."""
    autoscaler = _runtime.get().autoscaler
    return _count_run("autoscale", autoscaler.run, lambda: autoscaler.failed)


def _count_run(task: str, run: Callable[[], str], failed_objects: Callable[[], int] = lambda: 0) -> str:
    """Run a periodic task, count how it ended, and return its text. Raises Failed if it could not serve some objects,
    and whatever the run raises."""
    try:
        text = run()
    except Transient:
        # Redis or the API server is away, which has alerts of its own.
        raise
    except Exception:
        # A bug, or the time limit. Count it, or no alert would report a task that never ends.
        PERIODIC_RUNS.inc(task=task, result="failed")
        raise
    failed = failed_objects()
    PERIODIC_RUNS.inc(task=task, result="failed" if failed else "done")
    if failed:
        raise Failed(text)
    return text
