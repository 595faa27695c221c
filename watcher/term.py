"""One term of leadership. Puts the parts together: reflectors put batches into the event queue, and the projection
writer takes them out. Each reflector has a thread, and so has the writer.

The writer leads first. Then everything is listed. If the last term's projection is complete, resumed watches run
concurrently with the lists, so that new events do not wait for these. When the projection is lost, or the cluster has
a new history, the parts are created again and everything is listed. Two concurrent terms do no harm (a leader may not
know yet that it leads no more): the store refuses the older token.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import structlog

from tjworker.api.kinds import served
from tjworker.base import Fenced, GroupResource, JobKey
from tjworker.kube.client import KubeClient
from tjworker.kube.reflector import Reflector, RequestSettings
from tjworker.scope import Selection
from tjworker.settings import OFF, Settings
from tjworker.store.port import Store
from tjworker.store.projection import Lost
from watcher.cluster_id import ClusterId
from watcher.event_queue import EventQueue
from watcher.feed import Feed, Watchlist
from watcher.health import WatcherReport
from watcher.historian import Historian
from watcher.outage import Outage
from watcher.progress import BeganAnew
from watcher.projection_writer import ProjectionWriter
from watcher.projector import Projector
from watcher.redis_retry import RedisRetry, Stopped
from watcher.repairs import Repairs
from watcher.resume import FROM_NOTHING, Start

log = structlog.get_logger(__name__)
JOIN_SECONDS = 5.0
LISTS_AFTER_SECONDS = 1.0
LISTS_WAIT_SECONDS = 10.0
"""The lists begin LISTS_AFTER_SECONDS after all resumed watches are open, and at most LISTS_WAIT_SECONDS after the
term."""


class Term:
    queue_capacity = 50_000

    def __init__(
        self,
        api: KubeClient,
        store: Store,
        publish: Callable[[Sequence[JobKey]], object],
        *,
        token: int,
        now: Callable[[], float],
        settings: Settings,
        stopped: threading.Event | None = None,
        historian: Historian | None = None,
    ) -> None:
        self.over = threading.Event()
        """Set when the term has ended by itself: it was fenced, or a thread failed."""
        self.why = ""
        self.fenced = False
        self.led = False
        """True once the writer has become the writer in Redis."""
        self._api = api
        self._store = store
        self._publish = publish
        self._token = token
        self._now = now
        self._settings = settings
        self._historian = historian
        self._stopped = stopped or threading.Event()
        self._threads: list[threading.Thread] = []
        # Without an event or bookmark, a watch shows a sign of life only when it is opened again.
        self._sign_limit_seconds = settings.watch_timeout_seconds + 2 * settings.request_timeout_seconds
        self._repairs = Repairs(store.maintenance, settings, now)
        self._redis = RedisRetry(
            self._stopped, now, self.make_rng(), on_refused=self._repairs.repair_all, make_room=self._make_room
        )
        self._cluster_id = ClusterId(api, now)
        self._outage = Outage(now)
        self._make_parts({})

    def _make_parts(self, since: Mapping[str, int]) -> None:
        """Make feed and writer, at first and whenever everything must be listed again. `since`: source -> version that
        was projected before Redis was emptied."""
        settings, queue = self._settings, EventQueue(self.queue_capacity)
        self.feed = Feed(
            queue,
            Watchlist(
                settings.scope,
                served(settings.kind_list),
                settings.gang_scheduler,
                counts_outside=settings.autoscale_policy != OFF,
            ),
            self._make_reflector,
            partial(
                Projector,
                queue=queue,
                cluster_id=self._cluster_id.read,
                outage=self._outage,
                serves=settings.scope.serves,
                historian=self._historian,
            ),
            start=self._start_thread,
            since=since,
        )
        self.writer = ProjectionWriter(
            self._store,
            self._publish,
            queue,
            redis=self._redis,
            token=self._token,
            sources=[one.source for one in self.feed.reflectors],
            now=self._now,
            scope=settings.scope,
        )

    def _make_reflector(
        self, resource: GroupResource, handler: Projector, selection: Selection, **options: Any
    ) -> Reflector:
        settings = self._settings
        requests = RequestSettings(settings.list_page_size, settings.watch_timeout_seconds)
        return Reflector(
            self._api, resource, handler, selection, now=self._now, requests=requests, rng=self.make_rng(), **options
        )

    def _make_room(self) -> None:
        # The writer of this moment: `_make_parts` may have made another.
        self.writer.make_room()

    def make_rng(self) -> random.Random:
        """Randomness for one reflector, or for the writer. A simulation overrides it."""
        return random.Random()

    # -- threads -----------------------------------------------------------------------------------

    def start(self, *, outright: bool = False) -> None:
        """`outright`: ignore the fencing token in Redis, because no watcher wrote it."""
        self._start_thread("writer", partial(self._run_writer, outright))

    def _run_writer(self, outright: bool) -> None:
        """Run the writer's thread. Lists and watches begin after the writer has led."""
        try:
            start = self.writer.take_over(outright=outright)
            self.led = True
            self._start_feed(start)
            while not self._stopped.is_set():
                try:
                    self.writer.step()
                    self._repair()
                except (Lost, BeganAnew) as error:
                    self._begin_again(error)
        except Stopped:
            return

    def _repair(self) -> None:
        """From time to time, repair what only a stranger can have written, and write again what only a stranger can
        have deleted. Raises Lost like `writer.confirm`."""
        looked = self._redis(self._repairs.step)
        if looked is not None:
            self.writer.confirm(whole=looked)

    def _begin_again(self, error: Lost | BeganAnew) -> None:
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        has_new_history = isinstance(error, BeganAnew)
        problem = "the cluster has a new history" if has_new_history else "the projection in Redis is incomplete"
        log.warning(f"{problem}, everything is listed again", reason=str(error))
        self.feed.stop()
        if has_new_history and self._historian is not None:
            self._historian.begin_new_history()
        # New reflectors and a new queue: nothing that was read before the loss may be written after it (ADR 13).
        self._make_parts({} if has_new_history else self.writer.written)
        self.writer.take_over(reset=has_new_history)
        self._start_feed(FROM_NOTHING)

    def _start_feed(self, start: Start) -> None:
        self.feed.resume(start)
        # `stop` may have run before these watches existed, and then has not stopped them.
        if self._stopped.is_set():
            self.feed.stop()
        for source, resumed in self.feed.resumed.items():
            self._start_thread(f"resumed watch {source}", resumed.run)
        self._start_thread("lists", partial(self._start_lists, self.feed))

    def _start_lists(self, feed: Feed) -> None:
        """Start the reflectors, which list. They wait for the resumed watches: lists are a load on the API server and
        on this process, and no event waits for them once the watches are open."""
        latest = self._now() + LISTS_WAIT_SECONDS
        for resumed in feed.resumed.values():
            resumed.settled.wait(max(0.0, latest - self._now()))
        if feed.resumed:
            self._stopped.wait(LISTS_AFTER_SECONDS)
        for reflector in feed.reflectors:
            self._start_thread(f"reflector {reflector.source}", reflector.run)

    def _start_thread(self, name: str, target: Callable[[], None]) -> None:
        thread = threading.Thread(target=self._run_guarded, args=(target,), name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def stop(self) -> None:
        """End every thread. A request that is under way may last until its timeout, but has no effect any more."""
        self._stopped.set()
        self.feed.stop()
        deadline = time.monotonic() + JOIN_SECONDS
        for thread in list(self._threads):
            if thread.is_alive():
                thread.join(max(0.0, deadline - time.monotonic()))
        if self._historian is not None:
            self._historian.end_term()

    def _run_guarded(self, target: Callable[[], None]) -> None:
        """Run a thread's target. An error ends the term, and the next term starts from nothing: the watcher is never
        half alive, and the process goes on."""
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

    # -- health ------------------------------------------------------------------------------------

    def report(self) -> WatcherReport:
        now = self._now()
        return WatcherReport(
            leading=True,
            synced=self.writer.synced,
            resumed=self.feed.follows,
            store_away=self._redis.away,
            store_full=self._redis.full,
            writer_age_seconds=now - self.writer.moved_at,
            reflectors=self.feed.pulses(now),
            unserved=self.writer.unserved,
            sign_limit_seconds=self._sign_limit_seconds,
        )
