"""The project's Celery app over `benchmarks.slow_api`: `celery -A benchmarks.slow_app worker`. Tasks, store, reconcile,
executor and client are the real ones; only the transport is replaced. For such a worker alone: it changes the tasks of its
process."""

from __future__ import annotations

from functools import cache

from benchmarks.slow_api import SlowTransport
from tjworker import tasks
from tjworker.app import app
from tjworker.kube.client import KubeClient

__all__ = ["app"]


@cache
def _kube() -> KubeClient:
    return KubeClient(SlowTransport())


tasks._kube = _kube
