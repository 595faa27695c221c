"""A reflector: lists and watches one resource for ever and passes every change to its handler, in order.

As client-go's: a list in pages, then a watch from the list's resourceVersion. A watch that ends, breaks, falls silent
or reports an error is opened again where it stopped. Only 410 (the history is gone) leads to a new list; the handler
compares that list with what it knows. With a start version the reflector watches from there and never lists.

It keeps no object and decides nothing. `step` does one list and one watch and returns how long to wait: with a scripted
API and a virtual clock it runs without threads or sockets.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import orjson
import structlog

from tjworker.base import Conflict, GroupResource, JsonDict, OperatorError, Terminal, Transient
from tjworker.kube.client import KubeClient
from tjworker.kube.decode import loads
from tjworker.kube.errors import EXPIRED, NO_PERMISSION, NOT_INSTALLED, from_status
from tjworker.kube.list_backoff import ListBackoff
from tjworker.kube.port import Stream
from tjworker.kube.resources import RESOURCES

SHORT_WATCH_SECONDS = 1.0
HELD_SECONDS = 0.25
"""Between two looks at whether a list may begin (`may_list`)."""
STUCK_SESSIONS = 3
"""Sessions in a row that bring nothing but an error event or garbage, after which the reflector lists again."""

Event = tuple[str, JsonDict]
"""ADDED, MODIFIED or DELETED, and the object."""


class Closed(Exception):
    """The handler takes nothing more, or the reflector has ended."""


class Garbled(Exception):
    """A line of a watch that is no watch event."""


class Handler(Protocol):
    """What a reflector calls, on its own thread only. Each method may raise Closed, which ends the reflector."""

    def list_begins(self) -> None:
        """A list begins, or begins again: the pages of an unfinished one do not count."""
        ...

    def page(self, objects: Sequence[JsonDict], version: int) -> None:
        """One page of the list at this resourceVersion. An OperatorError fails the list, which is tried again."""
        ...

    def list_ends(self, version: int) -> None:
        """What no page of this list has shown does not exist."""
        ...

    def absent(self) -> None:
        """Instead of a first list: the kind is not installed, or may not be listed and is optional."""
        ...

    def refused(self) -> None:
        """A first list is refused for want of permission, and the kind is needed. It is tried again for ever."""
        ...

    def watch_begins(self) -> None:
        """A watch is about to be opened. An OperatorError fails the session, which is tried again."""
        ...

    def events(self, events: Sequence[Event], version: int) -> None:
        """What the watch has brought, in order, each event once; with them the watch has come to this version."""
        ...

    def api_fails(self, error: OperatorError) -> None:
        """A list or watch failed and will be tried again."""
        ...

    def api_works(self) -> None:
        """The API server has answered."""
        ...


@dataclass(slots=True)
class Vitals:
    """How the reflector does, for health and logs. Written by its own thread only."""

    synced: bool = False
    state: str = "starting"
    """starting, listing, watching, missing, forbidden, waiting, over"""
    last_sign_at: float = 0.0
    """When the server last gave a sign: an answer, an event, a bookmark."""
    problem: str = ""


class Reflector:
    """One resource, in one namespace or in all. Not thread-safe but for `stop`."""

    def __init__(  # noqa: PLR0913
        self,
        api: KubeClient,
        resource: GroupResource,
        handler: Handler,
        *,  # noqa: PLR0913, RUF100
        now: Callable[[], float],
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        source: str = "",
        optional: bool | None = None,
        start_version: int = 0,
        page_size: int = 500,
        watch_timeout_seconds: float = 60,
        rng: random.Random | None = None,
        backoff: ListBackoff | None = None,
        may_list: Callable[[], bool] = lambda: True,
        log: Any = None,
    ) -> None:
        """`source`: how this reflector is called where there is another one of its resource and namespace. `optional`:
        whether the operator does its work without these objects; by default as its resource says. `may_list`: the
        first list waits until it says so. `start_version`: resume a watch from there, for as long
        as that goes without a list. Where it does not (410, the kind is not there, the server is behind), the reflector
        ends."""
        self.resource = resource
        self.namespace = namespace
        self.source = source or (f"{resource}/{namespace}" if namespace else resource)
        self.vitals = Vitals(last_sign_at=now())
        self._api = api
        self._handler = handler
        self._selectors = {"label_selector": label_selector, "field_selector": field_selector}
        self._optional = RESOURCES[resource].optional if optional is None else optional
        self._now = now
        self._page_size = page_size
        self._watch_timeout_seconds = watch_timeout_seconds
        self._rng = rng or random.Random()
        self._backoff = backoff or ListBackoff(self._rng)
        self._may_begin = may_list
        self._log = log or structlog.get_logger(__name__)
        self._resumes = start_version > 0
        self.position = start_version
        """resourceVersion up to which everything has been passed on; 0 before the first whole list."""
        self.needs_list = not self._resumes
        self._stuck = 0
        self._said_absent = ""
        self._stream: Stream | None = None
        self.settled = threading.Event()
        """A watch has been opened, or the reflector was stopped before."""
        self._stopped = threading.Event()

    # -- from other threads ------------------------------------------------------------------------

    def stop(self) -> None:
        self._stopped.set()
        self.settled.set()
        stream = self._stream
        if stream is not None:
            stream.close()

    @property
    def stopped(self) -> bool:
        return self._stopped.is_set()

    # -- its own thread ----------------------------------------------------------------------------

    def run(self) -> None:
        while not self._stopped.is_set():
            try:
                wait_seconds = self.step()
            except Closed:
                return
            if wait_seconds > 0:
                if self.vitals.state in ("listing", "watching"):
                    self.vitals.state = "waiting"
                self._stopped.wait(wait_seconds)

    def step(self) -> float:
        """A list where one is due, then one watch to its end. Returns the seconds to wait before the next step. Raises
        Closed when the reflector has ended."""
        try:
            if self.needs_list:
                if self._resumes:
                    raise self._ends("its history is gone")
                wait_seconds = self._may_list()
                if wait_seconds > 0:
                    return wait_seconds
                self._list()
            return self._watch()
        except Garbled as error:
            return self._session_failed(Transient(str(error), status=200))
        except OperatorError as error:
            return self._session_failed(error)
        except Closed:
            self.stop()
            raise
        finally:
            self._stream = None

    def _ends(self, why: str) -> Closed:
        self._log.info("cannot resume the watch, the list is waited for", resource=self.source, reason=why)
        self.vitals.state = "over"
        self.stop()
        return Closed()

    # -- lists -------------------------------------------------------------------------------------

    def _may_list(self) -> float:
        if not self.vitals.synced and not self._may_begin():
            return HELD_SECONDS
        lives = self._backoff.wants_probe(self._now()) and self._api.alive()
        return self._backoff.before_list(self._now(), lives=lives)

    def _list(self) -> None:
        self.vitals.state = "listing"
        self._backoff.list_starts(self._now())
        try:
            version = self._list_pages()
        except OperatorError as error:
            self._backoff.list_failed(error.status, error.retry_after_seconds)
            raise
        self.position = version
        self.needs_list, self._stuck, self._said_absent = False, 0, ""
        self._backoff.works()
        self.vitals.synced = True
        self._handler.list_ends(version)

    def _list_pages(self) -> int:
        """Pass on every page as it comes. Returns the list's version. 410 on the way (the token's history is gone)
        starts again, in one piece."""
        limit, token = self._page_size, ""
        self._handler.list_begins()
        while True:
            try:
                page = self._api.list_page(self.resource, self.namespace, **self._selectors, limit=limit, token=token)
            except Conflict as error:
                if error.reason != EXPIRED or not token:
                    raise
                self._log.info("list expired between pages, listing again in one piece", resource=self.source)
                limit, token = 0, ""
                self._handler.list_begins()
                continue
            self._sign()
            if page.resource_version <= 0:
                raise Terminal(f"list {self.source}: the answer has no resourceVersion")
            self._handler.page(page.items, page.resource_version)
            if self._stopped.is_set():
                raise Closed
            token = page.next_token
            if not token:
                return page.resource_version

    # -- watches -----------------------------------------------------------------------------------

    def _watch(self) -> float:
        """One session. Returns the seconds to wait after a normal end."""
        self._handler.watch_begins()
        started, before = self._now(), self.position
        # Some of the time-out before which the server ends the watch by itself; a silence beyond is a dead connection.
        timeout_seconds = max(1, int(self._watch_timeout_seconds * self._rng.uniform(0.6, 0.8)))
        self._stream = stream = self._api.watch(
            self.resource, self.namespace, resource_version=before, timeout_seconds=timeout_seconds, **self._selectors
        )
        if self._stopped.is_set():
            # Asked between the opening and the line above, when there was no stream to close yet.
            stream.close()
            return 0.0
        self.vitals.state, self.vitals.problem = "watching", ""
        self.settled.set()
        self._handler.api_works()
        self._sign()
        productive = False
        try:
            for lines in stream.lines():
                if self._stopped.is_set():
                    return 0.0
                self._sign()
                self._take(lines)
                if self.position > before and not productive:
                    productive = True
                    self._stuck = 0
                    self._backoff.works()
        finally:
            stream.close()
        if not productive and self._now() - started < SHORT_WATCH_SECONDS:
            return self._backoff.backoff()
        self._backoff.works()
        if not productive:
            self.needs_list = self._went_back()
        return 0.0

    def _went_back(self) -> bool:
        """After a session that showed nothing new, not even by a bookmark. A kube-apiserver that was restored from a
        backup takes a watch from a version that it has not reached yet and is silent until it has: maybe for weeks."""
        page = self._api.list_page(self.resource, self.namespace, **self._selectors, limit=1)
        self._sign()
        if page.resource_version >= self.position:
            return False
        self._log.warning(
            "the API server is behind what it has shown, listing again",
            resource=self.source,
            position=self.position,
            server=page.resource_version,
        )
        return True

    def _take(self, lines: list[bytes]) -> None:
        """Pass on the events of these lines, those before an erroneous line too."""
        events: list[Event] = []
        try:
            for line in lines:
                self._parse(line, events)
        finally:
            self._handler.events(events, self.position)

    def _parse(self, line: bytes, events: list[Event]) -> None:
        try:
            event: dict[str, Any] = loads(line)
            kind, obj = event["type"], event["object"]
            if kind in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK"):
                meta = obj["metadata"]
                # A bookmark may name no version. A server may repeat itself after a reconnect.
                version = int(meta.get("resourceVersion") or 0) if kind == "BOOKMARK" else int(meta["resourceVersion"])
                if version > self.position:
                    self.position = version
                    if kind != "BOOKMARK":
                        events.append((kind, obj))
                return
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError) as error:
            raise Garbled(f"watch {self.source}: a line that is no event: {error!r} in {line[:120]!r}") from error
        if kind == "ERROR":
            raise from_status(obj, f"watch {self.source}")
        raise Garbled(f"watch {self.source}: event of type {kind!r}")

    # -- failures ----------------------------------------------------------------------------------

    def _session_failed(self, error: OperatorError) -> float:
        """Where to go on after a failure, and when."""
        self.vitals.problem = error.message
        if error.status:
            self._sign()
        if isinstance(error, Conflict) and error.reason == EXPIRED:
            if not self._resumes:
                self._log.info("history is gone, listing again", resource=self.source, position=self.position)
            self.needs_list = True
            return 0.0
        if error.reason == NOT_INSTALLED:
            return self._absent("missing", f"{self.resource} is not installed in the cluster; waiting for its CRD")
        if isinstance(error, Terminal) and error.status in NO_PERMISSION:
            return self._absent("forbidden", error.message)
        if not self.needs_list:
            self._stuck += 1
            if self._stuck >= STUCK_SESSIONS and error.status != 0:
                # The server answers, but this position only ever ends in an error.
                self.needs_list, self._stuck = True, 0
        self._handler.api_fails(error)
        if error.retry_after_seconds is not None:
            return self._backoff.told(error.retry_after_seconds, self._now())
        return self._backoff.backoff()

    def _absent(self, state: str, why: str) -> float:
        """The kind cannot be listed, so there are no objects of it for the handler. A kind that the operator needs and
        that is merely forbidden is waited for instead."""
        if self._resumes:
            raise self._ends(why)
        self._handler.api_works()
        if self._said_absent != state:
            self._said_absent = state
            (self._log.info if self._optional else self._log.warning)(why, resource=self.source)
        self.vitals.state = state
        if not self.vitals.synced:
            if state == "missing" or self._optional:
                self.vitals.synced = True
                self._handler.absent()
            else:
                self._handler.refused()
        self.needs_list = self.needs_list or state == "missing"
        self._backoff.lists_freely()
        return self._backoff.backoff(missing=state == "missing")

    def _sign(self) -> None:
        self.vitals.last_sign_at = self._now()
