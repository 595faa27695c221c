"""The Celery tasks. Each is at most 15 lines, takes a key or nothing, and may run twice without effect."""

from __future__ import annotations

import os
import socket
from functools import cache
from typing import Any

import structlog
from celery.signals import worker_process_shutdown

from tjworker.app import app
from tjworker.autoscaler import Autoscaler
from tjworker.base import Terminal
from tjworker.collector import Collector
from tjworker.executor import Executor
from tjworker.kube.client import KubeClient
from tjworker.kube.transport import KubeTransport, remove_temporary_files
from tjworker.publisher import AUTOSCALE, COLLECT_ORPHANS, RECONCILE, RESYNC, Publisher
from tjworker.settings import load_settings, turn_seconds
from tjworker.store.connect import open_store
from tjworker.store.port import Store
from tjworker.telemetry.events import EventRecorder
from tjworker.worker import Worker

log = structlog.get_logger("tasks")

# Everything below is made by the first task, so after the fork: a connection or a thread that is made before is shared by
# the children, and broken in each of them.


@cache
def _store() -> Store:
    settings = load_settings()
    return open_store(
        settings.redis_url,
        settings.key_prefix,
        retry_base_seconds=settings.retry_base_seconds,
        retry_max_seconds=settings.retry_max_seconds,
    )


@cache
def _kube() -> KubeClient:
    settings = load_settings()
    # One connection a concurrent write, one for the events.
    try:
        transport = KubeTransport(pool_size=settings.write_concurrency + 1)
    except Terminal as error:
        # Said here, in one line; the task fails without a traceback, and the resync tries again, with a file that was mended.
        log.error(error.message)
        raise
    return KubeClient(transport, request_timeout_seconds=settings.request_timeout_seconds)


@cache
def _events() -> EventRecorder:
    return EventRecorder(_kube())


@cache
def _publisher() -> Publisher:
    return Publisher(app)


@cache
def _worker() -> Worker:
    settings = load_settings()
    executor = Executor(_kube(), _events(), settings)
    owner = f"{socket.gethostname()}/{os.getpid()}"
    return Worker(_store(), _kube(), executor, _publisher(), settings, owner=owner)


@cache
def _autoscaler() -> Autoscaler:
    return Autoscaler(_store(), _kube(), load_settings())


@worker_process_shutdown.connect  # type: ignore[untyped-decorator,unused-ignore]
def _say_what_is_left(**_: Any) -> None:
    if _events.cache_info().currsize:
        _events().flush()
    remove_temporary_files()


@app.task(name=RECONCILE, throws=(Terminal,))  # type: ignore[untyped-decorator,unused-ignore]
def reconcile(key: str) -> str:
    """One pass over one job. Its result, the second column in Flower, says what the pass came to."""
    return _worker().handle(key)


@app.task(name=RESYNC)  # type: ignore[untyped-decorator,unused-ignore]
def resync() -> str:
    """Publish again what was lost; every now and then, every unfinished job."""
    settings = load_settings()
    if not _store().once("resync", turn_seconds(settings.resync_seconds)):
        return "another beat was first"
    everything = _store().once("full-resync", settings.full_resync_seconds)
    keys = _store().resync(lost_after_seconds=settings.resync_seconds, everything=everything)
    return f"{_publisher().publish(keys)} published{', everything' if everything else ''}"


@app.task(name=COLLECT_ORPHANS, throws=(Terminal,))  # type: ignore[untyped-decorator,unused-ignore]
def collect_orphans() -> str:
    """Delete what jobs that no longer exist have left behind."""
    settings = load_settings()
    if not _store().once("collect-orphans", turn_seconds(settings.collect_orphans_seconds)):
        return "another beat was first"
    return f"{Collector(_kube(), settings).collect()} deleted"


@app.task(name=AUTOSCALE, throws=(Terminal,))  # type: ignore[untyped-decorator,unused-ignore]
def autoscale() -> str:
    """Give each elastic job with edlPolicy Auto as many replicas as there is room for. Its result says what was done."""
    return _autoscaler().run()
