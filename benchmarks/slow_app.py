"""The project's Celery app over `benchmarks.slow_api`: `celery -A benchmarks.slow_app worker`. Tasks, store, reconcile,
executor and client are the real ones; only the transport is replaced."""

from __future__ import annotations

import os

from benchmarks.slow_api import SlowTransport
from tjworker.app import app
from tjworker.clock import ClusterClock
from tjworker.controllers.jobs import JobPasses
from tjworker.kube.client import KubeClient
from tjworker.publisher import Publisher
from tjworker.settings import load_settings
from tjworker.store.connect import open_sealed_store
from tjworker.telemetry.events import EventRecorder
from tjworker.worker import tasks
from tjworker.worker.runtime import Runtime, assemble

__all__ = ["app"]


def _runtime() -> Runtime:
    settings, clock = load_settings(), ClusterClock()
    kube = KubeClient(SlowTransport())
    return assemble(
        settings,
        open_sealed_store(settings),
        kube,
        Publisher(settings),
        EventRecorder(kube, clock=clock),
        JobPasses(settings.keys_per_task),
        owner=f"pid {os.getpid()}",
        clock=clock,
    )


tasks.use(_runtime)
