"""List and watch of one resource, for ever: every change passed on in order, each once, none left out.

A list in pages, then a watch from its resourceVersion. A watch that ends, breaks, goes silent or reports an error is
opened again where it stopped; only 410 (history gone) or a loss of the projection makes a new list, whose difference
becomes the changes. It decides nothing and keeps no object. `step` does one list and one watch and says how long to wait:
with a scripted API and a virtual clock it runs without threads or sockets. Running two of them does no harm: the store
drops old news.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
import structlog

from tjworker.api.podload import PodLoad
from tjworker.base import Conflict, OperatorError, Terminal, Transient
from tjworker.kube.errors import EXPIRED, NO_PERMISSION, NOT_INSTALLED, from_status
from tjworker.kube.port import KubeApi, Stream
from tjworker.kube.resources import RESOURCES
from watcher.history import ClusterId
from watcher.inbox import Batch, Closed, Inbox
from watcher.loads import LoadBook
from watcher.outage import Outage
from watcher.pace import Answer, Pace
from watcher.projection import Projected, Unprojectable, project, project_node
from watcher.tracker import Tracker

log = structlog.get_logger(__name__)

MISSING_POLL_SECONDS = 60.0
"""The longest wait for a kind that is not installed. Waits double up to it, so a CRD that comes soon is found soon."""
FORBIDDEN_POLL_SECONDS = 30.0
SHORT_WATCH_SECONDS = 1.0
STUCK_SESSIONS = 3
"""Sessions in a row that bring nothing but an error event or garbage, after which a new list is made."""


class Garbled(Exception):
    """A line of a watch that is no watch event."""


@dataclass(slots=True)
class Vitals:
    """How the informer does, for health and logs. Written by its own thread only."""

    synced: bool = False
    state: str = "starting"
    """starting, listing, watching, missing, forbidden, waiting"""
    last_sign_at: float = 0.0
    """When the server last gave a sign: an answer, an event, a bookmark."""
    last_step_at: float = 0.0
    """When the informer itself last did anything."""
    lists: int = 0
    events: int = 0
    problem: str = ""


class Informer:
    """One resource, in one namespace or in all. Not thread-safe but for `stop` and `relist`."""

    ahead = False
    """Runs ahead of another informer's list (`watcher.forerunner`)."""

    def __init__(
        self,
        resource: str,
        api: KubeApi,
        inbox: Inbox,
        *,
        now: Callable[[], float],
        namespace: str = "",
        page_size: int = 500,
        watch_timeout_seconds: float = 60,
        rng: random.Random | None = None,
    ) -> None:
        self.resource = resource
        self.namespace = namespace
        self.source = f"{resource}/{namespace}" if namespace else resource
        self.vitals = Vitals(last_sign_at=now(), last_step_at=now())
        self._api = api
        self._inbox = inbox
        self._now = now
        self._page_size = page_size
        self._watch_timeout_seconds = watch_timeout_seconds
        self._rng = rng or random.Random()
        self._pace = Pace(self._rng)
        self.outage = Outage(now)
        """Shared by all informers of a term, so that an API server that is away is told of once."""
        self.cluster: ClusterId | None = None
        """Likewise shared; None: lists do not say of which cluster they are."""
        self.forerunner: Informer | None = None
        """Follows the watch until this one has listed."""
        self._cluster_id = ""
        self._loads = LoadBook() if resource == "pods" else None
        self._tracker = Tracker(self._project, self._loads)
        self._needs_list = True
        self._epoch = self._wanted_epoch = 0
        self._swept = False
        self._stuck = 0
        self._said_absent = ""
        self._stream: Stream | None = None
        self.settled = threading.Event()
        """A watch has been opened, or it was stopped before."""
        self._stopped = threading.Event()

    # -- from other threads ------------------------------------------------------------------------------------------

    def stop(self) -> None:
        self._stopped.set()
        self.settled.set()
        self._break_off()

    @property
    def stopped(self) -> bool:
        return self._stopped.is_set()

    def relist(self, epoch: int) -> None:
        """Give everything again, marked with this epoch (a number that grows): the projection was lost."""
        self._wanted_epoch = epoch
        self._break_off()

    @property
    def _list_again(self) -> bool:
        return self._wanted_epoch != self._epoch

    def _break_off(self) -> None:
        stream = self._stream
        if stream is not None:
            stream.close()

    # -- its own thread ----------------------------------------------------------------------------------------------

    def run(self) -> None:
        while not self._stopped.is_set():
            try:
                wait_seconds = self.step()
            except Closed:
                return
            if wait_seconds > 0:
                self.vitals.state = "waiting" if self.vitals.state in ("listing", "watching") else self.vitals.state
                self._wait(wait_seconds)

    def _wait(self, seconds: float) -> None:
        end = self._now() + seconds
        while not self._stopped.is_set() and not self._list_again and (left := end - self._now()) > 0:
            self._stopped.wait(min(left, 1.0))

    def step(self) -> float:
        """A list where one is due, then one watch to its end. Gives the seconds to wait before the next step. Raises
        Closed when the inbox is."""
        self.vitals.last_step_at = self._now()
        if self._list_again:
            self._epoch = self._wanted_epoch
            self._tracker.forget()
            self._needs_list, self._swept = True, False
            self.vitals.synced = False
            self._pace.lists_freely()
        try:
            if self._needs_list:
                wait_seconds = self._may_list()
                if wait_seconds > 0:
                    return wait_seconds
                self._list()
            return self._watch()
        except Garbled as error:
            return self._session_failed(Transient(str(error), status=200))
        except OperatorError as error:
            return self._session_failed(error)
        finally:
            self._stream = None

    def _may_list(self) -> float:
        now = self._now()
        lives = self._pace.wants_probe(now) and self._api.alive()
        return self._pace.before_list(self._now(), lives=lives)

    def _list(self) -> None:
        self.vitals.state = "listing"
        self._pace.list_starts(self._now())
        self.vitals.lists += 1
        try:
            rv = self._list_pages()
        except OperatorError as error:
            self._pace.list_failed(Answer(error.status, error.retry_after_seconds))
            raise
        gone = self._tracker.end_list(rv)
        existing = None if self._swept else frozenset((c.key, c.name) for c in self._tracker.known())
        self._needs_list, self._swept, self._stuck = False, True, 0
        self._said_absent = ""
        self._pace.works()
        self._inbox.put(
            Batch(
                self.source,
                gone,
                rv,
                listed=True,
                existing=existing,
                list_version=rv,
                cluster=self._cluster_id,
                rewound=self._tracker.rewound,
                epoch=self._epoch,
                loads=self._new_loads(),
            )
        )
        self._is_synced()

    def _is_synced(self) -> None:
        """Its list is in; its watch begins there."""
        self.vitals.synced = True
        if self.forerunner is not None:
            self.forerunner.stop()

    def _new_loads(self) -> Mapping[str, PodLoad]:
        return self._loads.touched() if self._loads is not None else {}

    def _list_pages(self) -> int:
        """Every page, passed on as it comes. A 410 on the way (the token's history is gone) starts again, in one piece."""
        limit, token = self._page_size, ""
        self._tracker.begin_list()
        while True:
            try:
                page = self._api.list_page(self.resource, self.namespace, limit=limit, token=token)
            except Conflict as error:
                if error.reason != EXPIRED or not token:
                    raise
                log.info("list expired between pages, listing again in one piece", resource=self.source)
                limit, token = 0, ""
                self._tracker.begin_list()
                continue
            self._sign()
            if page.resource_version <= 0:
                raise Terminal(f"list {self.source}: the answer has no resourceVersion")
            if not token and self.cluster is not None:
                self._cluster_id = self.cluster.read()
            if changes := self._tracker.page(page.items):
                self._inbox.put(
                    Batch(
                        self.source,
                        changes,
                        list_version=page.resource_version,
                        cluster=self._cluster_id,
                        rewound=self._tracker.rewound,
                        epoch=self._epoch,
                    )
                )
            if self._stopped.is_set():
                raise Closed
            token = page.next_token
            if not token:
                return page.resource_version

    def _watch(self) -> float:
        """One session. Gives the seconds to wait after a normal end."""
        started, before = self._now(), self._tracker.position
        # Some of the time-out before which the server ends the watch by itself; a silence beyond is a dead connection.
        timeout_seconds = max(1, int(self._watch_timeout_seconds * self._rng.uniform(0.6, 0.8)))
        self._stream = stream = self._api.watch(
            self.resource, self.namespace, resource_version=before, timeout_seconds=timeout_seconds
        )
        if self._stopped.is_set() or self._list_again:
            # Asked between the opening and the line above, when there was no stream to close yet.
            stream.close()
            return 0.0
        self.vitals.state, self.vitals.problem = "watching", ""
        self.settled.set()
        self.outage.works(self.source)
        self._sign()
        productive = False
        try:
            for lines in stream.lines():
                if self._stopped.is_set() or self._list_again:
                    return 0.0
                self._sign()
                self._take(lines)
                if self._tracker.position > before and not productive:
                    productive = True
                    self._stuck = 0
                    self._pace.works()
        finally:
            stream.close()
        if not productive and self._now() - started < SHORT_WATCH_SECONDS:
            return self._pace.backoff()
        self._pace.works()
        if not productive:
            self._needs_list = self._went_back()
        return 0.0

    def _went_back(self) -> bool:
        """After a session that showed nothing new, not even by a bookmark. A kube-apiserver that was restored from a backup
        takes a watch from a version that it has not reached yet and is silent until it has: maybe for weeks."""
        page = self._api.list_page(self.resource, self.namespace, limit=1)
        self._sign()
        if page.resource_version >= self._tracker.position:
            return False
        log.warning(
            "the API server is behind what it has shown, listing again",
            resource=self.source,
            position=self._tracker.position,
            server=page.resource_version,
        )
        return True

    def _take(self, lines: list[bytes]) -> None:
        """Pass on the events of these lines. What was whole before an error is passed on all the same."""
        changes: list[Projected] = []
        try:
            for line in lines:
                self._event(line, changes)
        finally:
            self.vitals.events += len(changes)
            self._inbox.put(
                Batch(
                    self.source,
                    changes,
                    self._tracker.position,
                    epoch=self._epoch,
                    loads=self._new_loads(),
                    ahead=self.ahead,
                )
            )

    def _event(self, line: bytes, changes: list[Projected]) -> None:
        try:
            event: dict[str, Any] = orjson.loads(line)
            kind, obj = event["type"], event["object"]
            if kind in ("ADDED", "MODIFIED", "DELETED"):
                changes.extend(self._tracker.event(kind, obj))
                return
            if kind == "BOOKMARK":
                self._tracker.bookmark(int(obj["metadata"].get("resourceVersion") or 0))
                return
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError) as error:
            raise Garbled(f"watch {self.source}: a line that is no event: {error!r} in {line[:120]!r}") from error
        if kind == "ERROR":
            raise from_status(obj, f"watch {self.source}")
        raise Garbled(f"watch {self.source}: event of type {kind!r}")

    def _session_failed(self, error: OperatorError) -> float:
        """Where to go on after a failure, and when."""
        self.vitals.problem = error.message
        if error.status:
            self._sign()
        if isinstance(error, Conflict) and error.reason == EXPIRED:
            log.info("history is gone, listing again", resource=self.source, position=self._tracker.position)
            self._needs_list = True
            return 0.0
        if error.reason == NOT_INSTALLED:
            why = f"{self.resource} is not installed in the cluster; waiting for its CRD"
            return self._absent("missing", why, MISSING_POLL_SECONDS)
        if isinstance(error, Terminal) and error.status in NO_PERMISSION:
            return self._absent("forbidden", error.message, FORBIDDEN_POLL_SECONDS)
        if not self._needs_list:
            self._stuck += 1
            if self._stuck >= STUCK_SESSIONS and error.status != 0:
                # The server answers, but this position only ever ends in an error.
                self._needs_list, self._stuck = True, 0
        self.outage.fails(self.source, error.message)
        if error.retry_after_seconds is not None:
            return self._pace.told(error.retry_after_seconds, self._now())
        return self._pace.backoff()

    def _absent(self, state: str, why: str, poll_seconds: float) -> float:
        """The kind cannot be listed. Nothing of it exists for us then: the others must not wait for it, unless it is one
        that the operator cannot do without and that is merely forbidden."""
        row = RESOURCES[self.resource]
        self.outage.works(self.source)
        if self._said_absent != state:
            self._said_absent = state
            (log.info if row.optional else log.warning)(why, resource=self.source)
        self.vitals.state = state
        if not self.vitals.synced and (state == "missing" or row.optional):
            self._inbox.put(Batch(self.source, listed=True, epoch=self._epoch))
            self._is_synced()
        self._needs_list = self._needs_list or state == "missing"
        self._pace.lists_freely()
        return self._pace.backoff(longest_seconds=poll_seconds)

    def _sign(self) -> None:
        self.vitals.last_sign_at = self.vitals.last_step_at = self._now()

    def _project(self, obj: Any) -> Projected | None:
        try:
            return project_node(obj) if self.resource == "nodes" else project(self.resource, obj)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            name = obj["metadata"].get("name")
            log.error("object cannot be projected", resource=self.source, name=name, error=repr(error))
            raise Unprojectable from error
