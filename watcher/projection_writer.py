"""The only writer of the projection: takes batches from the event queue, writes them to the store, and publishes the
keys that they queue.

One per term of leadership, on one thread, so that the changes of an object stay in order. Decides nothing about jobs.
While Redis is away it waits and writes the same batch again; the store drops what it has already. While Redis is full
it writes the deletions of later batches first: nothing else frees memory. Raises Fenced when a newer watcher leads,
Lost when the projection has vanished from Redis, BeganAnew when the cluster has a new history. After the last two
everything must be listed again, for another writer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial

import structlog

from tjworker.api.kinds.base import Named
from tjworker.api.resources import NODES, PODS
from tjworker.base import JobKey
from tjworker.kube.resources import RESOURCES
from tjworker.scope import Scope
from tjworker.store.port import Store
from tjworker.store.projection import Change, Lost
from watcher.books import FinishedJobs, Jobs, Overlap
from watcher.delay_queue import DelayQueue
from watcher.event_queue import Batch, EventQueue, ListEnd, WatchEvents, is_of_resumed_watch
from watcher.gathering import Gathering
from watcher.node_requests import ClusterRequests
from watcher.node_wakeups import NodeWakeups
from watcher.progress import BeganAnew, ClusterHistory, ProjectionProgress, resource_of
from watcher.projection import Projected
from watcher.redis_retry import RedisRetry
from watcher.resume import Start, start_from, this_form
from watcher.sweep import Sweep

log = structlog.get_logger(__name__)

DUE_SECONDS = 0.25
PROGRESS_SECONDS = 2.0
"""How often progress without changes is written (bookmarks, pods of no job). The write is made even without progress:
so an emptied Redis is noticed while the cluster is quiet."""
REQUESTS_SECONDS = 1.0
"""How often requests of nodes are written. Every pod of a big job changes them, and the autoscaler reads them every few
seconds."""
AHEAD_CHANGES = 50_000
"""How many changes the writer holds in memory while Redis is full, some 50 MB. Then the queue fills and watches
wait."""


class ProjectionWriter:
    """`publish` sends tasks for keys, up to KEYS_PER_TASK with each. The publisher keeps the keys that it could not
    send; this writer keeps keys for the length of one step."""

    def __init__(
        self,
        store: Store,
        publish: Callable[[Sequence[JobKey]], object],
        queue: EventQueue,
        *,
        redis: RedisRetry,
        token: int,
        sources: Iterable[str],
        now: Callable[[], float],
        scope: Scope = Scope(),  # noqa: B008  frozen
    ) -> None:
        self._scope = scope
        self._form = this_form(scope)
        self._projection, self._work_queue = store.projection, store.queue
        self._publish = publish
        self._queue = queue
        self._redis = redis
        self._token = token
        self._sources = tuple(sources)
        self._now = now
        self._history = ClusterHistory()
        self._progress = ProjectionProgress(self._sources)
        self._overlap = Overlap()
        self._finished = FinishedJobs()
        self.jobs = Jobs()
        self._nodes = NodeWakeups(store.projection, redis, self._finished)
        self._requests = ClusterRequests()
        self._delays = DelayQueue(store, redis)
        self._sweeps: deque[Sweep] = deque()
        self._ahead: list[Batch] = []
        """Batches that were taken from the queue while Redis was full. The next step writes them."""
        self._refused: Sequence[Change] = ()
        """Changes that are being written. While Redis is full it refuses them each time."""
        self._news: set[Named] = set()
        """Objects that jobs name and that have changed; the jobs that wait for one are to be woken."""
        self._queued: list[JobKey] = []
        """Keys to publish at the end of this step."""
        self.synced = self._has_children = False
        self.written: dict[str, int] = {}
        """Source -> version up to which every change has been in the store."""
        self._requests_at = self._progress_at = self.due_at = 0.0
        self._gathering = Gathering(now)
        self._stepped_at = now()

    @property
    def moved_at(self) -> float:
        """When the writer last did something, for the health check."""
        return max(self._stepped_at, self._redis.tried_at)

    @property
    def unserved(self) -> frozenset[str]:
        return self._progress.unserved

    # -- leading -----------------------------------------------------------------------------------

    def take_over(self, *, reset: bool = False, outright: bool = False) -> Start:
        """`lead`, and publish the keys that the last watcher queued but did not publish. Their events are in the
        projection already, so neither watch nor list would queue them again."""
        start = self.lead(reset=reset, outright=outright)
        self._queued += self._redis(lambda: self._work_queue.resync(lost_after_seconds=0, everything=False))
        return start

    def lead(self, *, reset: bool = False, outright: bool = False) -> Start:
        """Become the writer. Returns from where watches may be resumed; no earlier writer can change that any more.
        `reset`: drop the projection first, because it belongs to a history that is over. `outright`: ignore the fencing
        token in Redis, because no watcher wrote it."""
        self._redis(lambda: self._projection.lead(self._token, self._form or "unknown", outright=outright))
        if reset:
            # Lost: the projection is gone already.
            with suppress(Lost):
                self._redis(lambda: self._projection.reset(self._token))
            return Start()
        checkpoint = self._redis(self._projection.checkpoint)
        self._history = ClusterHistory(checkpoint.cluster, checkpoint.progress)
        return start_from(checkpoint, self._sources, self._form)

    # -- one step ----------------------------------------------------------------------------------

    def step(self, timeout_seconds: float = DUE_SECONDS) -> None:
        """Wait up to `timeout_seconds` for batches and write them, then queue the keys whose delay is over."""
        self._stepped_at = self._now()
        gather_seconds = self._gathering.seconds()
        # A sweep is work enough: it must not wait for events.
        if self._sweeps or not timeout_seconds:
            timeout_seconds = gather_seconds = 0.0
        batches, self._ahead = self._ahead, []
        batches = batches or self._queue.take(timeout_seconds, gather_seconds=gather_seconds)
        try:
            if batches:
                self._gathering.note_write(batches)
                self._write_batches(batches)
            self._sweep_on()
            self._write_periodically()
        except (Lost, BeganAnew):
            # Keys that are queued in Redis would otherwise wait for the resync.
            self._publish_queued()
            raise
        self._publish_queued()

    def confirm(self, *, whole: bool) -> None:
        """Write again what nothing else would restore if somebody deleted it from Redis: the mark that everything is
        synced, and with `whole` the finished jobs whose deletion is overdue. Raises Lost if a worker has asked for
        new lists."""
        if self.synced:
            self._redis(lambda: self._projection.mark_synced(self._token, self._history.cluster, self._form))
        if whole:
            self._queued += self._delays.queue_overdue()

    def _write_batches(self, batches: Sequence[Batch]) -> None:
        # All of them before the first write: none of it belongs into Redis if the cluster has a new history.
        for batch in batches:
            self._history.check(batch)
        changes: list[Change] = []
        nodes: dict[str, bytes | None] = {}
        self._nodes.recall(batches)
        for batch in batches:
            if is_of_resumed_watch(batch) and self._progress.has_list(batch.source):
                # Too late: the list, and the watch that begins there, have shown all of it. The resumed watch has
                # ended, so it would never show the deletion of what this batch adds.
                continue
            self._take_batch(batch, changes, nodes)
            if isinstance(batch, ListEnd | WatchEvents):
                self._requests.update(batch.source, batch.requests)
            if isinstance(batch, ListEnd) and batch.existing is not None:
                # The first list of a term: it alone shows what went away while no watcher ran.
                self.jobs.keep(batch.source, {key for key, _ in batch.existing})
                self._sweeps.append(self._make_sweep(batch))
            self._note_progress(batch)
        # News of a named object is its progress, which must be there before the jobs that it wakes.
        if changes or self._news:
            self._apply_changes(changes)
        self._delays.write_noted()
        if nodes:
            self._redis(lambda: self._projection.apply_nodes(self._token, nodes))
        self._mark_complete()

    def _take_batch(self, batch: Batch, changes: list[Change], nodes: dict[str, bytes | None]) -> None:
        """Add what the batch changes to what is to be written."""
        if RESOURCES[resource_of(batch.source)].is_named:
            self._news |= {(one.change.resource, one.change.name) for one in batch.changes}
            return
        self._overlap.begin(batch)
        for projected in batch.changes:
            if self._overlap.is_stale(batch, projected.change):
                continue
            if projected.change.resource == NODES:
                nodes.update(self._nodes.take_node(projected))
            elif self._take_change(projected):
                changes.append(projected.change)
        self._overlap.end(batch)

    def _note_progress(self, batch: Batch) -> None:
        before = self._progress.unserved
        self._progress.note(batch)
        for namespace in self._progress.unserved - before:
            log.warning("a namespace is not served: bind the operator's Role there", namespace=namespace)
        for namespace in before - self._progress.unserved:
            log.info("a namespace may be listed now and is served", namespace=namespace)

    def _take_change(self, projected: Projected) -> bool:
        """Note one change. False for a child of a finished job, which is not written."""
        if projected.change.is_job:
            self._finished.take(projected)
            self.jobs.take(projected)
            self._delays.note(projected)
            return True
        wanted = not self._finished.has_child(projected)
        if projected.change.resource == PODS:
            self._nodes.take_pod(projected, counts=wanted)
        return wanted

    def _mark_complete(self) -> None:
        """Mark the projection synced once every list has been projected and swept. From then on changes of nodes and
        of named objects wake jobs."""
        # The children of jobs are marked before. Lists of jobs may be long, and no decision about a job needs the other
        # jobs.
        if not self._has_children and self._progress.has_children:
            self._redis(lambda: self._projection.mark_children(self._token))
            self._has_children = True
            log.info("all child resources are listed; jobs can be reconciled")
        if not self.synced and self._progress.complete:
            requests = self._requests.take_all()
            self._redis(lambda: self._projection.apply_node_requests(self._token, requests, whole=True))
            self._redis(lambda: self._projection.mark_synced(self._token, self._history.cluster, self._form))
            self.synced = True
            log.info("synced: every list is in the projection", finished_jobs=len(self._finished), **self._nodes.counts)
        if self.synced:
            news, self._news = self._news, set()
            if jobs := [*self._nodes.take_jobs(), *self.jobs.waiting_for(news)]:
                self._queued += self._redis(lambda: self._work_queue.add(jobs))

    def _make_sweep(self, listed: ListEnd) -> Sweep:
        return Sweep(self._projection, self._redis, self._token, listed, self._nodes, self._scope.serves)

    def _sweep_on(self) -> None:
        """Make one short read of the sweep that is under way, or end it."""
        if not self._sweeps or not self._sweeps[0].step():
            return
        sweep = self._sweeps.popleft()
        self._queued += sweep.keys
        self._nodes.touch(sweep.gone_nodes)
        self._progress.note_sweep(sweep.source)
        self._apply_changes(())
        self._mark_complete()

    def _write_periodically(self) -> None:
        now = self._now()
        if now < self.due_at:
            return
        self.due_at = now + DUE_SECONDS
        self._queued += self._delays.drain()
        if now >= self._progress_at:
            self._progress_at = now + PROGRESS_SECONDS
            # Even without progress: `apply` raises Lost if Redis was emptied.
            self._apply_changes(())
        if self.synced and now >= self._requests_at:
            # Not before every pod has been listed: half a list would look like an empty cluster.
            self._requests_at = now + REQUESTS_SECONDS
            if requests := self._requests.take_changed():
                self._redis(lambda: self._projection.apply_node_requests(self._token, requests))

    def _apply_changes(self, changes: Sequence[Change]) -> None:
        """Write changes, and the progress with them."""
        # While the call waits for a full Redis, `make_room` writes the deletions among them.
        # Progress that is taken and not written is lost only with the term: `_redis` repeats the call until it works.
        progress, self._refused = self._progress.take_unwritten(), changes
        self._queued += self._redis(partial(self._projection.apply, self._token, changes, progress=progress))
        self._refused = ()
        self.written |= {source: max(rv, self.written.get(source, 0)) for source, rv in progress.items()}

    def make_room(self) -> None:
        """Redis is full and refuses the call that this writer makes: write what frees memory. That is part of the
        refused changes, the deletions behind them in the queue, and the sweeps of lists that are complete. The batches
        are written again in their turn."""
        batches: list[Batch] = []
        if sum(len(batch.changes) for batch in self._ahead) < AHEAD_CHANGES:
            batches = self._queue.take(0)
            self._ahead += batches
        every = [one.change for batch in batches for one in batch.changes if one.change.key]
        self._queued += self._projection.free(
            self._token, [*self._refused, *(change for change in every if change.record is None)]
        )
        ahead = [self._make_sweep(one) for one in batches if isinstance(one, ListEnd) and one.existing is not None]
        for sweep in (*self._sweeps, *ahead):
            # A sweep that ends here has nothing left to do in its turn. Not for nodes: they take little memory.
            while sweep.source != NODES and not sweep.step():
                pass
        self._queued += [key for sweep in ahead for key in sweep.keys]

    def _publish_queued(self) -> None:
        """Publish the keys of this step. If that fails, the store has them queued."""
        if self._queued:
            keys, self._queued = list(dict.fromkeys(self._queued)), []
            self._redis(lambda: self._publish(keys))
