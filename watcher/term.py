"""One term of leadership: an informer for each resource (and namespace), one inbox, one writer, each on its own thread.

Begins with nothing but a fencing token and lists everything; ends without a trace. Two terms at once (a leader that does
not know yet that it is none) do no harm: the store refuses the older token.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

import structlog

from tjworker.base import Fenced, JobKey
from tjworker.kube.port import KubeApi
from tjworker.kube.resources import WATCHED
from tjworker.settings import Settings
from tjworker.store.port import Store
from watcher.health import Pulse, Report
from watcher.history import ClusterId
from watcher.inbox import Inbox
from watcher.informer import Informer
from watcher.outage import Outage
from watcher.writer import Writer

log = structlog.get_logger(__name__)
JOIN_SECONDS = 5.0


class Term:
    def __init__(self, api: KubeApi, store: Store, publish: Callable[[Sequence[JobKey]], object], *, token: int,
                 now: Callable[[], float], settings: Settings) -> None:
        self.over = threading.Event()
        """Set when the term has ended by itself: fenced, or a thread that broke."""
        self.why = ""
        self.fenced = False
        self._now = now
        self._stopped = threading.Event()
        self._inbox = Inbox()
        outage = Outage(now)
        cluster = ClusterId(api, now)
        self.informers = [
            Informer(row.plural, api, self._inbox, now=now, namespace=namespace, page_size=settings.list_page_size,
                     watch_timeout_seconds=settings.watch_timeout_seconds)
            for row in WATCHED
            for namespace in ((settings.namespace_list or ("",)) if row.namespaced else ("",))
        ]
        for informer in self.informers:
            informer.outage, informer.cluster = outage, cluster
        self.writer = Writer(store, publish, self._inbox, token=token, sources=[i.source for i in self.informers],
                             relist=self._relist, now=now, stopped=self._stopped)
        self._threads = [threading.Thread(target=self._guard, args=(self.writer.run,), name="writer", daemon=True)]
        self._threads += [threading.Thread(target=self._guard, args=(i.run,), name=f"informer {i.source}", daemon=True)
                          for i in self.informers]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End every thread. A request under way may outlive this for its time-out; it can do nothing any more."""
        self._stopped.set()
        for informer in self.informers:
            informer.stop()
        self._inbox.close()
        deadline = time.monotonic() + JOIN_SECONDS
        for thread in self._threads:
            if thread.is_alive():
                thread.join(max(0.0, deadline - time.monotonic()))

    def report(self) -> Report:
        now = self._now()
        pulses = {
            informer.source: Pulse(informer.vitals.state, informer.vitals.synced, now - informer.vitals.last_sign_at,
                                   now - informer.vitals.last_step_at, informer.vitals.problem)
            for informer in self.informers
        }
        return Report(leading=True, synced=self.writer.synced, store_away=self.writer.store_away,
                      writer_age_seconds=now - self.writer.last_step_at, informers=pulses)

    def _relist(self, epoch: int) -> None:
        for informer in self.informers:
            informer.relist(epoch)

    def _guard(self, target: Callable[[], None]) -> None:
        """The edge of a thread. Whatever breaks in it ends the term, and the next one starts with nothing: no half-alive
        watcher, and no exit."""
        try:
            target()
        except Fenced as error:
            self.why, self.fenced = error.message, True
            self.over.set()
        except Exception:
            log.exception("a thread of the watcher broke; everything starts again", thread=threading.current_thread().name)
            self.why = "a thread broke"
            self.over.set()
