"""`python -m watcher`: reads the cluster, writes the projection, queues keys; takes no decision.

Settings from the environment (`TJ_*`), the cluster from KUBECONFIG or the pod's service account. SIGTERM and SIGINT
leave in order and give the lease back, so that a standby leads at once; a second signal leaves at once. Runs until
then: an API server, a Redis or a CRD that is away is waited for. Any number of it may run; one leads.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import uuid
from collections.abc import Callable

import structlog

from tjworker.api.kinds import served
from tjworker.base import Terminal
from tjworker.clock import ClusterClock
from tjworker.collector import settle
from tjworker.history.open import open_history
from tjworker.kube.client import KubeClient
from tjworker.kube.transport import KubeTransport
from tjworker.publisher import Publisher
from tjworker.settings import Settings, settings_or_exit
from tjworker.store.connect import open_sealed_store
from tjworker.telemetry import metrics, scrape
from tjworker.telemetry.health import open_health
from tjworker.telemetry.logging import configure_logging
from tjworker.telemetry.metrics import count_request
from watcher.app import Watcher
from watcher.historian import Historian

log = structlog.get_logger("watcher")

_SIGNALS = {signal.SIGTERM, signal.SIGINT}
LEAVE_SECONDS = 10.0
LOOK_SECONDS = 5.0
HISTORY_SECONDS = 3.0
"""For the last write of the history."""


def main() -> int:
    settings = settings_or_exit()
    configure_logging(settings)
    # Signals are waited for below, not handled: a handler could interrupt the main thread while it holds a lock that
    # `Watcher.stop` needs.
    signal.pthread_sigmask(signal.SIG_BLOCK, {*_SIGNALS, signal.SIGALRM})
    try:
        clock = ClusterClock()
        historian = _historian(settings, clock)
        watcher = _watcher(settings, historian, clock)
    except Terminal as error:
        log.error(error.message)
        return 2
    try:
        health = open_health(settings, watcher.report)
    except OSError:
        return 2
    metrics.begin("watcher")
    scrape.serve(settings, watcher.samples)
    settle()
    if historian is not None:
        historian.start()
    running = threading.Thread(target=watcher.run, name="watcher", daemon=True)
    running.start()
    until_told(running.is_alive)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    log.info("leaving")
    watcher.stop()
    running.join(LEAVE_SECONDS)
    if historian is not None:
        historian.stop(HISTORY_SECONDS)
    if health is not None:
        health.stop()
    return 0


def until_told(alive: Callable[[], bool], look_seconds: float = LOOK_SECONDS) -> None:
    """Returns at SIGTERM or SIGINT, or when it finds that it is no longer `alive`. These two and SIGALRM must be
    blocked, and SIGALRM must stay so."""
    # Not sigtimedwait: in a process that was stopped (SIGSTOP, Ctrl-Z) for longer than its time-out, CPython's returns
    # a signal that was never sent.
    signal.setitimer(signal.ITIMER_REAL, look_seconds, look_seconds)
    while alive() and signal.sigwait({*_SIGNALS, signal.SIGALRM}) == signal.SIGALRM:
        pass
    signal.setitimer(signal.ITIMER_REAL, 0)


def _historian(settings: Settings, clock: ClusterClock) -> Historian | None:
    """None where the history is off. Raises Terminal for a store that cannot be used."""
    store = open_history(settings)
    return None if store is None else Historian(store, settings.history_seconds, now=clock)


def _watcher(settings: Settings, historian: Historian | None = None, clock: ClusterClock | None = None) -> Watcher:
    """`clock` learns the API server's time from its answers. Raises Terminal for settings that no watcher can run
    with."""
    served(settings.kind_list)
    transport = KubeTransport(pool_size=32, answered=count_request, dated=(clock or ClusterClock()).see_date)
    api = KubeClient(
        transport,
        request_timeout_seconds=settings.request_timeout_seconds,
        watch_read_timeout_seconds=settings.watch_timeout_seconds,
    )
    # A renewal that hangs for longer than the lease lasts is worth nothing.
    lease_api = KubeClient(transport, request_timeout_seconds=settings.lease_renew_seconds)
    store = open_sealed_store(settings)
    publish = Publisher(settings).publish
    name, namespace = f"{socket.gethostname()}_{os.getpid()}_{uuid.uuid4().hex[:8]}", settings.lease_namespace
    return Watcher(settings, api, lease_api, store, publish, name=name, lease_namespace=namespace, historian=historian)


if __name__ == "__main__":
    sys.exit(main())
