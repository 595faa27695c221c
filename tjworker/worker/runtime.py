"""Builds what the tasks of one process work with: settings, ports and controllers.

`assemble` wires given ports. Production, scenarios, simulation and benchmarks all use it. `connect` opens the real
ports. Neither connects to anything: the first request does.

Connections, threads and locks do not survive a fork, so a Runtime belongs to the process that made it.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from tjworker.base import Terminal
from tjworker.clock import ClusterClock
from tjworker.controllers.autoscaler import Autoscaler
from tjworker.controllers.jobs import JobPasses, JobReconciler
from tjworker.controllers.orphans import OrphanCollector
from tjworker.controllers.resync import Resync
from tjworker.execution.executor import Executor
from tjworker.kube.client import KubeClient
from tjworker.kube.configuration import remove_temporary_files
from tjworker.kube.transport import KubeTransport
from tjworker.publisher import KeyPublisher, Publisher
from tjworker.settings import Settings
from tjworker.store.connect import open_sealed_store
from tjworker.store.port import Store
from tjworker.telemetry.events import EventRecorder
from tjworker.telemetry.metrics import WRONG_CLOCKS, count_request

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Runtime:
    settings: Settings
    store: Store
    kube: KubeClient
    events: EventRecorder
    publisher: KeyPublisher
    jobs: JobReconciler
    autoscaler: Autoscaler
    orphans: OrphanCollector
    resync: Resync
    clock: ClusterClock


def assemble(
    settings: Settings,
    store: Store,
    kube: KubeClient,
    publisher: KeyPublisher,
    events: EventRecorder,
    passes: JobPasses,
    *,
    owner: str,
    clock: ClusterClock,
) -> Runtime:
    """`owner` names this process in its leases."""
    executor = Executor(kube, events, settings)
    return Runtime(
        settings,
        store,
        kube,
        events,
        publisher,
        JobReconciler(store, kube, executor, publisher, passes, settings, owner=owner, clock=clock),
        Autoscaler(store, kube, settings, clock=clock),
        OrphanCollector(store, kube, settings, clock=clock),
        Resync(store, publisher, settings),
        clock,
    )


def connect(settings: Settings) -> Runtime:
    """The real Runtime of this process. Raises Terminal, logged in one line, if the Kubernetes configuration cannot be
    used or the record key is missing."""
    try:
        # One connection per pass, one per further concurrent write, one for the events.
        connections = settings.keys_per_task + settings.write_concurrency + 1

        def ask_date() -> None:
            # Every answer of the API server carries a Date.
            kube.alive()

        clock = ClusterClock(wrong=lambda name: WRONG_CLOCKS.inc(clock=name), ask_date=ask_date)
        transport = KubeTransport(
            pool_size=connections, metadata_only=True, answered=count_request, dated=clock.see_date
        )
        store = open_sealed_store(settings)
    except Terminal as error:
        log.error(error.message)
        raise
    kube = KubeClient(transport, request_timeout_seconds=settings.request_timeout_seconds)
    owner = f"{socket.gethostname()}/{os.getpid()}"
    events, passes = EventRecorder(kube, clock=clock), JobPasses(settings.keys_per_task)
    return assemble(settings, store, kube, Publisher(settings), events, passes, owner=owner, clock=clock)


class ProcessRuntime:
    """The one Runtime of a process, made on first use. Thread-safe.

    A failure to make it is not remembered: the next call tries again, as the kubeconfig may have been corrected.
    """

    def __init__(self, make: Callable[[], Runtime]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._runtime: Runtime | None = None

    def get(self) -> Runtime:
        with self._lock:
            if self._runtime is None:
                self._runtime = self._make()
            return self._runtime

    def use(self, make: Callable[[], Runtime]) -> None:
        """Make the Runtime with `make` from now on. A worker's children inherit it."""
        with self._lock:
            self._make, self._runtime = make, None

    def close(self) -> None:
        """Send the waiting events, and remove the files in which the kubernetes package keeps credentials."""
        with self._lock:
            runtime, self._runtime = self._runtime, None
        if runtime is not None:
            runtime.events.flush()
        remove_temporary_files()
