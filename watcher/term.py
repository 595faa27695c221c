"""One term of leadership: an informer for each resource (and namespace), one inbox, one writer, each on its own thread.

Begins with a fencing token and what Redis says, and ends without a trace. The writer leads first; then everything is listed,
and where the last term's projection is whole a forerunner of each informer goes on from there meanwhile. Two terms at once (a
leader that does not know yet that it is none) do no harm: the store refuses the older token.
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
from watcher.forerunner import Forerunner, forerunners
from watcher.health import Pulse, Report
from watcher.history import ClusterId
from watcher.inbox import Inbox
from watcher.informer import Informer
from watcher.outage import Outage
from watcher.resume import Start
from watcher.writer import Writer

log = structlog.get_logger(__name__)
JOIN_SECONDS = 5.0
LISTS_AFTER_SECONDS = 1.0
LISTS_WAIT_SECONDS = 10.0
"""So long after the watches of all forerunners have been opened the lists begin; so long after their start at the latest."""


class Term:
    def __init__(
        self,
        api: KubeApi,
        store: Store,
        publish: Callable[[Sequence[JobKey]], object],
        *,
        token: int,
        now: Callable[[], float],
        settings: Settings,
    ) -> None:
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
            Informer(
                row.plural,
                api,
                self._inbox,
                now=now,
                namespace=namespace,
                page_size=settings.list_page_size,
                watch_timeout_seconds=settings.watch_timeout_seconds,
            )
            for row in WATCHED
            for namespace in ((settings.namespace_list or ("",)) if row.namespaced else ("",))
        ]
        for informer in self.informers:
            informer.outage, informer.cluster = outage, cluster
        self.writer = Writer(
            store,
            publish,
            self._inbox,
            token=token,
            sources=[i.source for i in self.informers],
            relist=self._relist,
            now=now,
            stopped=self._stopped,
            begin=self._begin,
        )
        self.forerunners: list[Forerunner] = []
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        self._run("writer", self.writer.run)

    def _begin(self, start: Start) -> None:
        """On the writer's thread, once it leads: no list and no watch is older than that."""
        self.forerunners = forerunners(self.informers, start)
        if self._stopped.is_set():
            for forerunner in self.forerunners:
                forerunner.stop()
        if self.forerunners:
            log.info("going on where the last watcher stopped; the lists follow", watches=len(self.forerunners))
        for forerunner in self.forerunners:
            self._run(f"forerunner {forerunner.source}", forerunner.run)
        self._run("lists", self._list)

    def _list(self) -> None:
        """The lists are a load on the API server and on ourselves, and nobody waits for them once the watches go on."""
        latest = self._now() + LISTS_WAIT_SECONDS
        for forerunner in self.forerunners:
            forerunner.settled.wait(max(0.0, latest - self._now()))
        if self.forerunners:
            self._stopped.wait(LISTS_AFTER_SECONDS)
        for informer in self.informers:
            self._run(f"informer {informer.source}", informer.run)

    def _run(self, name: str, target: Callable[[], None]) -> None:
        thread = threading.Thread(target=self._guard, args=(target,), name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def stop(self) -> None:
        """End every thread. A request under way may outlive this for its time-out; it can do nothing any more."""
        self._stopped.set()
        for informer in (*self.forerunners, *self.informers):
            informer.stop()
        self._inbox.close()
        deadline = time.monotonic() + JOIN_SECONDS
        for thread in list(self._threads):
            if thread.is_alive():
                thread.join(max(0.0, deadline - time.monotonic()))

    def report(self) -> Report:
        now = self._now()
        pulses = {
            informer.source: Pulse(
                informer.vitals.state,
                informer.vitals.synced,
                now - informer.vitals.last_sign_at,
                now - informer.vitals.last_step_at,
                informer.vitals.problem,
            )
            for informer in self.informers
        }
        return Report(
            leading=True,
            synced=self.writer.synced,
            resumed=self._goes_on(),
            store_away=self.writer.store_away,
            writer_age_seconds=now - self.writer.last_step_at,
            informers=pulses,
        )

    def _goes_on(self) -> bool:
        """What the last term has projected is kept up to date: each of its watches goes on, or has been listed since."""

        def goes_on(informer: Informer) -> bool:
            ahead = informer.forerunner
            if ahead is None:  # nodes, and kinds that were not installed; or a namespace of which nothing is known yet
                return informer.vitals.synced or informer.resource not in followed
            return informer.vitals.synced or (ahead.settled.is_set() and not ahead.stopped)

        followed = {one.resource for one in self.forerunners}
        return bool(followed) and all(goes_on(informer) for informer in self.informers)

    def _relist(self, epoch: int) -> None:
        for forerunner in self.forerunners:
            forerunner.stop()
        self.forerunners = []  # what they followed is lost
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
            log.exception(
                "a thread of the watcher broke; everything starts again", thread=threading.current_thread().name
            )
            self.why = "a thread broke"
            self.over.set()
