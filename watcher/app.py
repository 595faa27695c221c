"""The watcher's process: wait to lead, lead for a term, and repeat until stopped. Never exits by itself.

All dependencies are arguments, so that tests run it with any API server and any store.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence

import structlog

from tjworker.base import JobKey
from tjworker.kube.client import KubeClient
from tjworker.settings import Settings
from tjworker.store.port import Store
from tjworker.telemetry.metrics import Sample
from watcher.books import EachJob, JobCounts
from watcher.gauges import Gauges
from watcher.health import WatcherReport
from watcher.historian import Historian
from watcher.leader import Election, Elector
from watcher.term import Term

log = structlog.get_logger(__name__)

BETWEEN_TERMS_SECONDS = 1.0
LEAPS = 4
"""After this many terms in a row that held the Lease and were fenced before their first write, the watcher ignores the
token in Redis: no watcher wrote it."""


def make_elector(
    settings: Settings, api: KubeClient, identity: str, namespace: str, stopped: threading.Event
) -> Elector | None:
    """The election for the Lease in this namespace; None if the settings want none. `identity`: the candidate's."""
    if not settings.leader_elect:
        return None
    lease, lasts_seconds = f"{settings.key_prefix}-watcher", settings.lease_duration_seconds
    election = Election(identity, namespace, lease, lease_duration_seconds=lasts_seconds, scope=settings.scope)
    return Elector(api, election, stopped=stopped, now=time.monotonic, renew_seconds=settings.lease_renew_seconds)


class Watcher:
    def __init__(
        self,
        settings: Settings,
        api: KubeClient,
        store: Store,
        publish: Callable[[Sequence[JobKey]], object],
        elector: Elector | None,
        *,
        stopped: threading.Event,
        historian: Historian | None = None,
    ) -> None:
        """`elector`: None if this watcher leads without an election. `stopped`: the event that ends the elector's
        waits; `stop` sets it."""
        self._settings = settings
        self._historian = historian
        self._api = api
        self._store = store
        self._publish = publish
        self._gauges = Gauges(store, self.report, self._jobs, self._each_job, settings.metrics_jobs)
        self.stopped = stopped
        self.term: Term | None = None
        self._elector = elector
        self._refused = 0
        """Terms in a row that were fenced before they wrote anything."""

    def run(self) -> None:
        """Returns after `stop`."""
        while not self.stopped.is_set():
            # Without an election the time serves as fencing token: it grows with each term.
            token = self._elector.acquire() if self._elector else int(time.time() * 1000)
            if token is None:
                return
            self._lead(token)
            self.stopped.wait(BETWEEN_TERMS_SECONDS)

    def _lead(self, token: int) -> None:
        # The Lease decides which watcher leads, and this watcher has just won it. A higher token would not help: other
        # software that writes tokens into Redis can always write a higher one.
        outright = self._elector is not None and self._refused >= LEAPS
        if outright:
            log.warning("ignoring the fencing token in Redis: no watcher wrote it", token=token)
        term = Term(
            self._api,
            self._store,
            self._publish,
            token=token,
            now=time.monotonic,
            settings=self._settings,
            historian=self._historian,
        )
        self.term = term
        # `stop` may have run before `self.term` was set, and so have missed this term.
        if self.stopped.is_set():
            term.over.set()
        term.start(outright=outright)
        try:
            if self._elector:
                why = self._elector.keep(token, term.over)
            else:
                term.over.wait()
                why = "over"
        finally:
            self.term = None
            term.stop()
        self._refused = self._refused + 1 if term.fenced and not term.led else 0
        if self._elector and term.fenced:
            self._elector.leap_ahead(token)
        if self._elector and why in ("over", "stopped"):
            # A standby can then lead at once. After a failed renewal there is no Lease to release.
            self._elector.release(token)
        if not self.stopped.is_set():
            log.warning("leadership ended, trying to lead again", reason=term.why or why)

    def stop(self) -> None:
        """Ask `run` to end the term, release the Lease and return. Returns at once. Do not call it in a signal handler:
        that may interrupt a thread that holds the lock of an event that `stop` sets."""
        self.stopped.set()
        term = self.term
        if term is not None:
            term.over.set()

    def report(self) -> WatcherReport:
        term = self.term
        return term.report() if term is not None else WatcherReport(leading=False, synced=False)

    def samples(self) -> Iterable[Sample]:
        """The values for one scrape."""
        return self._gauges.samples()

    def _jobs(self) -> JobCounts:
        term = self.term
        return {} if term is None else term.writer.jobs.counts()

    def _each_job(self) -> EachJob:
        term = self.term
        return {} if term is None else term.writer.jobs.each()
