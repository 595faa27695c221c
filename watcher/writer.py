"""The one writer of the projection: takes what the informers give, writes it to the store, has the queued keys published.

One a term of leadership, on one thread, so the order of an object's changes is kept. Decides nothing about jobs. When
Redis is away it waits and says so once; nothing is lost, since a batch is written again until it has been (the store drops
what it has already). When the projection has vanished it asks for everything again; likewise when the cluster's history
began anew, after it has dropped what was of the old one. Raises Fenced when somebody newer leads.
"""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TypeVar

import structlog

from tjworker.api.observed import NodeRecord
from tjworker.api.podload import encode_load
from tjworker.api.records_json import decode
from tjworker.base import JobKey, Terminal, Transient
from tjworker.kube.resources import RESOURCES
from tjworker.store.port import Change, Lost, Store
from watcher.inbox import Batch, Inbox
from watcher.loads import ClusterLoads
from watcher.projection import Projected, node_signal
from watcher.resume import Start, start_from, this_form

log = structlog.get_logger(__name__)
T = TypeVar("T")

DUE_SECONDS = 0.25
DUE_LIMIT = 1_000
PROGRESS_SECONDS = 2.0
"""Progress without changes (bookmarks, other people's pods) is worth a write only so often. The write goes out even when
there is none: it is how an emptied Redis is noticed while the cluster is quiet."""
LOADS_SECONDS = 1.0
"""The autoscaler looks every few seconds, and every pod of a big job changes its node's load."""
GATHER_SECONDS = 0.01
BUSY_SECONDS = 0.02
SWEEP_KEYS = 1_000
"""Read at a time; 1,000 finished jobs take Redis about 2 ms."""
_SWEPT = object()
FIRST_WAIT_SECONDS = 0.2
LONGEST_WAIT_SECONDS = 5.0


class Stopped(Exception):
    """The term ended while the writer waited for Redis."""


class BeganAnew(Exception):
    """Lists are of another history than the projection: another cluster, or the same one restored from a backup."""


class Writer:
    """`publish` sends one task for each key; `relist` makes every informer give everything again under that epoch."""

    def __init__(
        self,
        store: Store,
        publish: Callable[[Sequence[JobKey]], object],
        inbox: Inbox,
        *,  # noqa: PLR0913  two clocks
        token: int,
        sources: Iterable[str],
        relist: Callable[[int], None],
        now: Callable[[], float],
        stopped: threading.Event,
        wall_clock: Callable[[], float] = time.time,
        begin: Callable[[Start], None] = lambda start: None,
        rng: random.Random | None = None,
    ) -> None:
        self._store = store
        self._publish_tasks = publish
        self._inbox = inbox
        self._token = token
        self._sources = frozenset(sources)
        self._relist = relist
        self._begin = begin
        self._now = now
        self._wall_clock = wall_clock
        self._stopped = stopped
        self._rng = rng or random.Random()
        self._epoch = 0
        self._listed: set[str] = set()
        self.synced = False
        self.store_away = False
        self._finished: dict[JobKey, str] = {}
        self._expiring: dict[JobKey, float] = {}
        self._pod_nodes: dict[tuple[JobKey, str], str] = {}
        self._nodes: dict[str, NodeRecord] = {}
        self._touched: set[str] = set()
        self._loads = ClusterLoads()
        self._loads_at = 0.0
        self._progress: dict[str, int] = {}
        self._sweeps: deque[tuple[Batch, Iterator[None]]] = deque()
        self._unswept: dict[str, int] = {}
        """Source -> its progress, until its sweep is over."""
        self._ahead: dict[str, dict[tuple[JobKey, str], int]] = {}
        """Source -> object -> the newest version that its forerunner has shown, until the informer has come as far."""
        self._cluster = ""
        self._shown: dict[str, int] = {}
        """How far each watch has got in this history, what an earlier writer left included."""
        self._discard_before = 0
        """Batches of an earlier epoch are of a history that is over."""
        self._progress_at = 0.0
        self._due_at = 0.0
        self._unpublished: dict[JobKey, None] = {}
        self._wrote_at = -BUSY_SECONDS
        self.last_step_at = now()

    def run(self) -> None:
        """Until stopped. Raises Fenced."""
        try:
            self._begin(self.take_over())
            while not self._stopped.is_set():
                self.step()
        except Stopped:
            return

    def take_over(self) -> Start:
        """`lead`, and give tasks to the keys that the last watcher queued and did not come to publish: their events are in the
        projection, so that neither watch nor list will queue them again."""
        start = self.lead()
        self._queued(self._until_it_works(lambda: self._store.resync(lost_after_seconds=0, everything=False)))
        return start

    def lead(self) -> Start:
        """Become the writer. Gives where informers may begin; no earlier writer moves that on any more."""
        self._until_it_works(lambda: self._store.lead(self._token, this_form() or "unknown"))
        history = self._until_it_works(self._store.history)
        self._cluster, self._shown = history.cluster, dict(history.progress)
        return start_from(history, self._sources, this_form())

    def step(self, timeout_seconds: float = DUE_SECONDS) -> None:
        """Write what has come (waiting for it at most so long), then queue the keys whose time has come."""
        self.last_step_at = self._now()
        if self.sweeping:
            timeout_seconds = 0
        batches = self._inbox.take(timeout_seconds, gather_seconds=self._gather_seconds() if timeout_seconds else 0.0)
        if batches:
            self._wrote_at = self._now()
        try:
            if batches:
                self._write(batches)
            self._sweep_on()
            now = self._now()
            if now >= self._due_at:
                self._due_at = now + DUE_SECONDS
                self._queued(self._until_it_works(lambda: self._store.take_due(DUE_LIMIT)))
                self._write_progress(now)
                self._write_loads(now)
        except (Lost, BeganAnew) as error:
            self._start_again(error)
        self._publish()

    def _gather_seconds(self) -> float:
        """A busy cluster's changes are written some at a time: a call of Redis costs as much as ten changes in it. After a
        quiet moment the first one is written at once."""
        return GATHER_SECONDS if self._now() - self._wrote_at < BUSY_SECONDS else 0.0

    # -- batches -----------------------------------------------------------------------------------------------------

    def _write(self, batches: Sequence[Batch]) -> None:
        batches = [batch for batch in batches if batch.epoch >= self._discard_before]
        for batch in batches:
            self._check_history(batch)
        changes: list[Change] = []
        nodes: dict[str, bytes | None] = {}
        self._recall_nodes(batches)
        for batch in batches:
            if batch.ahead:
                if self._is_late(batch):
                    continue
                self._run_ahead(batch)
            for projected in batch.changes:
                if self._is_outrun(batch, projected.change):
                    continue
                if projected.change.resource == "nodes":
                    self._node(projected, nodes)
                elif self._matters(projected):
                    changes.append(projected.change)
            self._loads.update(batch.source, batch.loads)
            if batch.existing is not None and batch.epoch == self._epoch:
                self._sweeps.append((batch, self._sweep(batch)))
                self._unswept[batch.source] = 0
            self._note(batch)
            self._catch_up(batch)
        if changes:
            progress = self._take_progress()
            self._queued(self._until_it_works(lambda: self._store.apply(self._token, changes, progress=progress)))
        self._remember_expiry()
        if nodes:
            self._until_it_works(lambda: self._store.apply_nodes(self._token, nodes))
        self._complete()

    def _complete(self) -> None:
        """Say so once everything has been listed and swept; from then on nodes wake jobs."""
        if not self.synced and self._listed >= self._sources:
            loads = {node: encode_load(load) for node, load in self._loads.everything().items()}
            self._until_it_works(lambda: self._store.apply_loads(self._token, loads, whole=True))
            self._until_it_works(lambda: self._store.mark_synced(self._token, self._cluster, this_form()))
            self.synced = True
            log.info(
                "synced: every list is in the projection",
                finished_jobs=len(self._finished),
                placed_pods=len(self._pod_nodes),
                nodes=len(self._nodes),
            )
        if self.synced and self._touched:
            self._wake_jobs()

    def _check_history(self, batch: Batch) -> None:
        """Raises BeganAnew. A list is the latest state: in one history none is behind an earlier one or a watch."""
        if batch.cluster and self._cluster and batch.cluster != self._cluster:
            raise BeganAnew(f"this is cluster {batch.cluster}, and the projection is of {self._cluster}")
        shown = self._shown.get(batch.source, 0)
        if batch.rewound or 0 < batch.list_version < shown:
            raise BeganAnew(
                f"the list of {batch.source}, at {batch.list_version}, is older than the one before, at {shown}"
            )
        self._cluster = self._cluster or batch.cluster
        if not batch.ahead:  # its list is under way, and may have been begun before
            self._shown[batch.source] = max(shown, batch.position)

    def _is_late(self, batch: Batch) -> bool:
        """What a forerunner gives after the list, or of an earlier epoch. The list and the watch that begins there tell all of
        it, and what is gone by then nobody would take away again."""
        return batch.epoch != self._epoch or batch.source in self._listed or batch.source in self._unswept

    def _run_ahead(self, batch: Batch) -> None:
        shown = self._ahead.setdefault(batch.source, {})
        for change in (projected.change for projected in batch.changes):
            which = (change.key, change.name)
            shown[which] = max(change.rv, shown.get(which, 0))

    def _is_outrun(self, batch: Batch, change: Change) -> bool:
        """A page of the list, or the watch that repeats what came after it, shows an older state than the forerunner has shown:
        no news to the store, and wrong in the books."""
        return not batch.ahead and change.rv < self._ahead.get(batch.source, {}).get((change.key, change.name), 0)

    def _catch_up(self, batch: Batch) -> None:
        shown = self._ahead.get(batch.source)
        if shown is not None and not batch.ahead and all(rv <= batch.position for rv in shown.values()):
            del self._ahead[batch.source]

    def _note(self, batch: Batch) -> None:
        if batch.position and batch.epoch == self._epoch:
            # Not of an earlier epoch: what it stands on was lost with Redis.
            # Before its sweep there may be more in Redis than there is: progress would say that it is all known.
            table = self._unswept if batch.source in self._unswept else self._progress
            table[batch.source] = max(batch.position, table.get(batch.source, 0))
        if batch.listed and batch.epoch == self._epoch and batch.source not in self._unswept:
            self._listed.add(batch.source)

    def _wake_jobs(self) -> None:
        """Those that have pods on a node to which something happened that their fate depends on. Only once synced: before,
        it is not known which pods are where."""
        touched, self._touched = self._touched, set()
        jobs = sorted(
            {key for (key, _), node in self._pod_nodes.items() if node in touched and key not in self._finished}
        )
        if jobs:
            self._queued(self._until_it_works(lambda: self._store.add(jobs)))

    def _recall_nodes(self, batches: Sequence[Batch]) -> None:
        """A node seen for the first time in this term is compared with what the last writer left: a watcher that starts is
        no reason to wake every job."""
        names = {
            p.change.name for batch in batches for p in batch.changes if p.node_record is not None
        } - self._nodes.keys()
        if not names:
            return
        for name, data in self._until_it_works(lambda: self._store.nodes(sorted(names))).items():
            record = decode("nodes", data)
            if isinstance(record, NodeRecord):
                self._nodes[name] = replace(record, rv=0)

    def _matters(self, projected: Projected) -> bool:
        """Keep the books about one change; False when nobody will ever want it (a child of a finished job)."""
        change = projected.change
        if change.is_job:
            if change.finished:
                self._finished[change.key] = projected.job_uid
                if projected.expires_at is not None:
                    self._expiring[change.key] = projected.expires_at
            else:
                self._finished.pop(change.key, None)
            return True
        finished = self._finished.get(change.key)
        # A child of another UID belongs to a job that was made again under the finished one's name.
        unwanted = finished is not None and (change.record is None or projected.job_uid in ("", finished))
        if change.resource == "pods":
            if projected.node and not unwanted:
                self._pod_nodes[change.key, change.name] = projected.node
            else:
                self._pod_nodes.pop((change.key, change.name), None)
        return not unwanted

    def _remember_expiry(self) -> None:
        """A finished job is in no resync: when its TTL has passed, only the queue of later looks knows. That is lost with
        Redis, so it is said again at every sight of the job."""
        expiring, self._expiring = self._expiring, {}
        for key, at in expiring.items():
            self._until_it_works(partial(self._store.add_after, key, max(0.0, at - self._wall_clock())))

    def _node(self, projected: Projected, nodes: dict[str, bytes | None]) -> None:
        """A heartbeat changes nothing but the resourceVersion and is not written; what changes a pod's fate wakes its job."""
        name, record = projected.change.name, projected.node_record
        known = self._nodes.get(name)
        if record is None:
            self._nodes.pop(name, None)
            nodes[name] = None
            self._touched.add(name)
            return
        timeless = replace(record, rv=0)
        if timeless == known:
            return
        self._nodes[name] = timeless
        nodes[name] = projected.change.record
        if known is None or node_signal(known) != node_signal(timeless):
            self._touched.add(name)

    def _sweep_on(self) -> None:
        """One short read of the sweep that is under way, or its end: what is new need not wait for all of it."""
        if not self.sweeping:
            return
        batch, sweep = self._sweeps[0]
        if next(sweep, _SWEPT) is _SWEPT:
            self._sweeps.popleft()
            self._progress[batch.source] = max(self._unswept.pop(batch.source), self._progress.get(batch.source, 0))
            self._listed.add(batch.source)
            self._apply_progress()
            self._complete()

    @property
    def sweeping(self) -> bool:
        return bool(self._sweeps)

    def _sweep(self, batch: Batch) -> Iterator[None]:
        """What Redis holds of this resource and the list did not show went away while nobody watched. Pauses between reads."""
        existing = batch.existing or frozenset()
        resource, _, namespace = batch.source.partition("/")
        if resource == "nodes":
            shown = {name for _, name in existing}
            gone = {
                name: None
                for name in self._until_it_works(lambda: list(self._store.known_nodes()))
                if name not in shown
            }
            if gone:
                self._until_it_works(lambda: self._store.apply_nodes(self._token, gone))
                self._touched.update(gone)
            return
        is_job = RESOURCES[resource].is_job
        keys = self._until_it_works(lambda: list(self._store.known_keys()))
        held = [(key, key.rsplit("/", 1)[1]) for key in keys if is_job and key.startswith(f"{resource}/")]
        for start in range(0, 0 if is_job else len(keys), SWEEP_KEYS):
            yield
            part = keys[start : start + SWEEP_KEYS]
            held += self._until_it_works(partial(self._store.known_children, part, resource))
        stale = [
            Change(key, resource, name, batch.position, None, is_job=is_job)
            for key, name in held
            if (not namespace or key.split("/")[1] == namespace) and (key, name) not in existing
        ]
        if stale:
            log.info(
                "what the list does not show is swept, but for what is newer", resource=batch.source, count=len(stale)
            )
            self._queued(self._until_it_works(lambda: self._store.apply(self._token, stale)))

    def _write_progress(self, now: float) -> None:
        if now >= self._progress_at:
            self._progress_at = now + PROGRESS_SECONDS
            self._apply_progress()

    def _apply_progress(self) -> None:
        progress = self._take_progress()
        self._queued(self._until_it_works(lambda: self._store.apply(self._token, (), progress=progress)))

    def _take_progress(self) -> dict[str, int]:
        progress, self._progress = self._progress, {}
        return progress

    def _write_loads(self, now: float) -> None:
        """What the pods of each node ask for, where it has changed. Not before everything has been seen: half a list would
        look like an empty cluster."""
        if self.synced and now >= self._loads_at:
            self._loads_at = now + LOADS_SECONDS
            loads = {node: encode_load(load) if load.pods else None for node, load in self._loads.touched().items()}
            if loads:
                self._until_it_works(lambda: self._store.apply_loads(self._token, loads))

    # -- keys to publish ---------------------------------------------------------------------------------------------

    def _queued(self, keys: Sequence[JobKey]) -> None:
        self._unpublished.update(dict.fromkeys(keys))

    def _publish(self) -> None:
        """One task a key. A key stays here until its task is out; the store has it queued in any case."""
        if not self._unpublished:
            return
        keys = list(self._unpublished)
        self._until_it_works(lambda: self._publish_tasks(keys))
        self._unpublished.clear()

    # -- a store that is away, or empty; a history that began anew -----------------------------------------------------

    def _start_again(self, why: Lost | BeganAnew) -> None:
        what = (
            "the cluster's history began anew"
            if isinstance(why, BeganAnew)
            else "the projection has vanished from Redis"
        )
        log.warning(f"{what}, everything is listed again", reason=str(why))
        self.lead()
        self._epoch += 1
        if isinstance(why, BeganAnew):
            self._discard_before = self._epoch
            with suppress(Lost):  # then there is nothing left to forget
                self._until_it_works(lambda: self._store.forget_history(self._token))
            self._cluster, self._shown = "", {}
        self._listed.clear()
        self.synced = False
        self._finished.clear()
        self._pod_nodes.clear()
        self._nodes.clear()
        self._touched.clear()
        self._loads.clear()
        self._progress.clear()
        self._sweeps.clear()
        self._unswept.clear()
        self._ahead.clear()
        self._relist(self._epoch)

    def _until_it_works(self, call: Callable[[], T]) -> T:
        """Call until the store answers. Raises Stopped, Lost, Fenced."""
        wait_seconds, since = FIRST_WAIT_SECONDS, None
        while True:
            try:
                answer = call()
            except (Transient, Terminal) as error:
                if since is None:
                    since = self._now()
                    self.store_away = True
                    log.warning("Redis cannot be used, waiting; nothing is lost", error=error.message)
                if self._stopped.wait(wait_seconds * self._rng.uniform(0.5, 1.0)):
                    raise Stopped from error
                wait_seconds = min(LONGEST_WAIT_SECONDS, wait_seconds * 2)
                self.last_step_at = self._now()
                continue
            if since is not None:
                self.store_away = False
                log.info("Redis answers again", away_seconds=round(self._now() - since, 1))
            return answer
