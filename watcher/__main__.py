"""`python -m watcher`: reads the cluster, writes the projection, queues keys. Decides nothing.

Settings come from the environment (`TJ_*`), the cluster from KUBECONFIG or the pod's service account. The process waits
for an API server, a Redis or a CRD that is away, and runs until SIGTERM or SIGINT: then it gives the lease back, so
that a standby leads at once. A second signal ends it immediately. Any number of watchers may run; one leads.
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
from watcher.app import Watcher, make_elector
from watcher.historian import Historian

log = structlog.get_logger("watcher")

_SIGNALS = {signal.SIGTERM, signal.SIGINT}
LEAVE_SECONDS = 10.0
LOOK_SECONDS = 5.0
HISTORY_SECONDS = 3.0
"""The time for the last write of the history."""


def main() -> int:
    settings = settings_or_exit()
    configure_logging(settings)
    # No handlers: one could interrupt the main thread while it holds a lock that `Watcher.stop` needs. `wait_for_end`
    # waits for the signals.
    signal.pthread_sigmask(signal.SIG_BLOCK, {*_SIGNALS, signal.SIGALRM})
    try:
        clock = ClusterClock()
        historian = _make_historian(settings, clock)
        watcher = _make_watcher(settings, historian, clock)
    except Terminal as error:
        log.error(error.message)
        return 2
    try:
        health = open_health(settings, watcher.report)
    except OSError:
        # `open_health` has logged why.
        return 2
    metrics.begin("watcher")
    scrape.serve(settings, watcher.samples)
    settle()
    if historian is not None:
        historian.start()
    running = threading.Thread(target=watcher.run, name="watcher", daemon=True)
    running.start()
    wait_for_end(running.is_alive)
    # From here on a second signal ends the process at once: it has no handler.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    log.info("leaving")
    watcher.stop()
    running.join(LEAVE_SECONDS)
    # Last: until the term has ended, reflectors pass objects to it.
    if historian is not None:
        historian.stop(HISTORY_SECONDS)
    if health is not None:
        health.stop()
    return 0


def wait_for_end(alive: Callable[[], bool], look_seconds: float = LOOK_SECONDS) -> None:
    """Wait for SIGTERM or SIGINT, or until `alive` is False. The two signals and SIGALRM must be blocked, and SIGALRM
    must stay blocked."""
    # Not sigtimedwait: after a stop (SIGSTOP, Ctrl-Z) for longer than its time-out, CPython's returns a signal that was
    # never sent.
    signal.setitimer(signal.ITIMER_REAL, look_seconds, look_seconds)
    while alive() and signal.sigwait({*_SIGNALS, signal.SIGALRM}) == signal.SIGALRM:
        pass
    signal.setitimer(signal.ITIMER_REAL, 0)


def _make_historian(settings: Settings, clock: ClusterClock) -> Historian | None:
    """The historian; None if the history is off. Raises Terminal if its store cannot be used."""
    store = open_history(settings)
    return None if store is None else Historian(store, settings.history_seconds, now=clock)


def _make_watcher(settings: Settings, historian: Historian | None, clock: ClusterClock) -> Watcher:
    """The watcher with its real ports. `clock` learns the API server's time from its answers. Raises Terminal if no
    watcher can run with these settings."""
    # Raises for an unknown kind, now and not in the first term.
    served(settings.kind_list)
    transport = KubeTransport(pool_size=32, answered=count_request, dated=clock.see_date)
    api = KubeClient(
        transport,
        request_timeout_seconds=settings.request_timeout_seconds,
        watch_read_timeout_seconds=settings.watch_timeout_seconds,
    )
    # With a short time-out: a renewal that hangs for longer than the lease lasts is useless.
    lease_api = KubeClient(transport, request_timeout_seconds=settings.lease_renew_seconds)
    identity, stopped = f"{socket.gethostname()}_{os.getpid()}_{uuid.uuid4().hex[:8]}", threading.Event()
    elector = make_elector(settings, lease_api, identity, settings.lease_namespace, stopped)
    store, publish = open_sealed_store(settings), Publisher(settings).publish
    return Watcher(settings, api, store, publish, elector, stopped=stopped, historian=historian)


if __name__ == "__main__":
    sys.exit(main())
