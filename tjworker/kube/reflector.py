"""A reflector: lists and watches one resource for ever and passes every change to its handler, in order.

Like client-go's: a list in pages, then a watch from the list's resourceVersion. A watch that ends, breaks, falls silent
or reports an error is opened again where it stopped. A 410 (the history is gone) leads to a new list, which the handler
compares with what it knows. With a start version the reflector watches from there and never lists.

It keeps no object and decides nothing. `step` makes one list and one watch and returns how long to wait, so tests run
it with a scripted API and a virtual clock, without threads or sockets.
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
from tjworker.kube.client import PAGE_SIZE, KubeClient
from tjworker.kube.decode import loads
from tjworker.kube.errors import EXPIRED, NO_PERMISSION, NOT_INSTALLED, from_status
from tjworker.kube.list_backoff import LONGEST_SECONDS, ListBackoff
from tjworker.kube.port import Stream
from tjworker.kube.resources import RESOURCES
from tjworker.scope import Selection

SHORT_WATCH_SECONDS = 1.0
"""A watch that ends sooner without an event counts as a failure: a server that closes each watch at once would be asked
in a busy loop."""
HELD_SECONDS = 0.25
"""Between two calls of `may_list`."""
STUCK_SESSIONS = 3
"""After so many sessions in a row that bring only an error event or garbage, the reflector lists again."""

Event = tuple[str, JsonDict]
"""ADDED, MODIFIED or DELETED, and the object."""


class Closed(Exception):
    """The handler takes nothing more, or the reflector has ended."""


class Garbled(Exception):
    """A line of a watch is not a watch event."""


class Handler(Protocol):
    """The reflector calls it on its own thread only. Each method may raise Closed, which ends the reflector."""

    def list_begins(self) -> None:
        """A list begins, or begins again: the pages of an unfinished one do not count."""
        ...

    def page(self, objects: Sequence[JsonDict], version: int) -> None:
        """One page of the list at this resourceVersion. An OperatorError fails the list, which is tried again."""
        ...

    def list_ends(self, version: int) -> None:
        """The list is complete: an object that no page has shown does not exist."""
        ...

    def absent(self) -> None:
        """Instead of a first list: the kind is not installed, or it is optional and may not be listed."""
        ...

    def refused(self) -> None:
        """The permission for a first list of a needed kind is missing. The list is tried again for ever."""
        ...

    def watch_begins(self) -> None:
        """A watch is about to be opened. An OperatorError fails the session, which is tried again."""
        ...

    def events(self, events: Sequence[Event], version: int) -> None:
        """Events of the watch, in order, each once. With them the watch has shown everything up to this version."""
        ...

    def api_fails(self, error: OperatorError) -> None:
        """A list or watch failed and will be tried again."""
        ...

    def api_works(self) -> None:
        """The API server has answered."""
        ...


@dataclass(slots=True)
class Vitals:
    """The state of the reflector, for health and logs. Written by its own thread only."""

    synced: bool = False
    state: str = "starting"
    """starting, listing, watching, missing, forbidden, waiting, over"""
    last_sign_at: float = 0.0
    """When the server last sent an answer, an event or a bookmark."""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class RequestSettings:
    """How reflectors ask the API server."""

    page_size: int = PAGE_SIZE
    watch_timeout_seconds: float = 60
    longest_wait_seconds: float = LONGEST_SECONDS
    """Between two tries, and between two lists."""


class Reflector:
    """Reflects the selected objects of one resource. Not thread-safe, except `stop`."""

    def __init__(  # noqa: PLR0913
        self,
        api: KubeClient,
        resource: GroupResource,
        handler: Handler,
        selection: Selection = Selection(),  # noqa: B008  frozen
        *,  # noqa: PLR0913, RUF100
        now: Callable[[], float],
        requests: RequestSettings = RequestSettings(),
        rng: random.Random | None = None,
        source: str = "",
        optional: bool | None = None,
        start_version: int = 0,
        may_list: Callable[[], bool] = lambda: True,
        log: Any = None,
    ) -> None:
        """`source`: the name of this reflector, if its resource and namespace have another one. `optional`: the
        operator works without these objects; the default is that of the resource. `may_list`: the first list waits
        until it returns True. `start_version`: resume a watch from there. The reflector ends when it would need a list
        (410, the kind is not installed, the server is behind that version)."""
        self.resource = resource
        self.namespace = selection.namespace
        self.source = source or (f"{resource}/{self.namespace}" if self.namespace else resource)
        self.vitals = Vitals(last_sign_at=now())
        self._api = api
        self._handler = handler
        self._selectors = {"label_selector": selection.labels, "field_selector": selection.fields}
        self._optional = RESOURCES[resource].optional if optional is None else optional
        self._now = now
        self._requests = requests
        self._rng = rng or random.Random()
        self._backoff = ListBackoff(self._rng, longest_seconds=requests.longest_wait_seconds)
        self._may_begin = may_list
        self._log = log or structlog.get_logger(__name__)
        self._resumes = start_version > 0
        self.position = start_version
        """resourceVersion up to which everything has been passed on; 0 before the first whole list."""
        self.needs_list = not self._resumes
        self._stuck = 0
        self._logged_absence = ""
        self._stream: Stream | None = None
        self.settled = threading.Event()
        """Set once a watch has been opened, or the reflector was stopped before."""
        self._stopped = threading.Event()

    # -- from other threads ------------------------------------------------------------------------

    def stop(self) -> None:
        self._stopped.set()
        self.settled.set()
        # The thread may wait in a read for as long as the watch's time-out. Closing the stream wakes it up.
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
        """Make a list if one is due, then one watch to its end. Returns the seconds to wait before the next step.
        Raises Closed when the reflector has ended."""
        try:
            if self.needs_list:
                # An ordinary reflector of the same resource makes the list.
                if self._resumes:
                    raise self._end("its history is gone")
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

    def _end(self, why: str) -> Closed:
        self._log.info("cannot resume the watch, waiting for the list", resource=self.source, reason=why)
        self.vitals.state = "over"
        self.stop()
        return Closed()

    # -- lists -------------------------------------------------------------------------------------

    def _may_list(self) -> float:
        if not self.vitals.synced and not self._may_begin():
            return HELD_SECONDS
        answers = self._backoff.wants_probe(self._now()) and self._api.alive()
        # The time again: a probe may wait for seconds.
        return self._backoff.before_list(self._now(), answers=answers)

    def _list(self) -> None:
        self.vitals.state = "listing"
        self._backoff.list_starts(self._now())
        try:
            version = self._list_pages()
        except OperatorError as error:
            self._backoff.list_failed(error.status, error.retry_after_seconds)
            raise
        self.position = version
        self.needs_list, self._stuck, self._logged_absence = False, 0, ""
        self._backoff.reset()
        self.vitals.synced = True
        self._handler.list_ends(version)

    def _list_pages(self) -> int:
        """Pass on each page as it comes. Returns the list's version."""
        limit, token = self._requests.page_size, ""
        self._handler.list_begins()
        while True:
            try:
                page = self._api.list_page(self.resource, self.namespace, **self._selectors, limit=limit, token=token)
            except Conflict as error:
                if error.reason != EXPIRED or not token:
                    raise
                # etcd has compacted the version of this list since its first page (every 5 minutes by default). In
                # pages it would expire again; in one piece it cannot, as client-go's pager has it.
                self._log.info("list expired between pages, listing again in one piece", resource=self.source)
                limit, token = 0, ""
                self._handler.list_begins()
                continue
            self._note_sign()
            if page.resource_version <= 0:
                # Without it no watch can begin where the list ends.
                raise Terminal(f"list {self.source}: the answer has no resourceVersion")
            self._handler.page(page.items, page.resource_version)
            if self._stopped.is_set():
                raise Closed
            token = page.next_token
            if not token:
                return page.resource_version

    # -- watches -----------------------------------------------------------------------------------

    def _watch(self) -> float:
        """Watch until the session ends. Returns the seconds to wait after a normal end."""
        self._handler.watch_begins()
        started, before = self._now(), self.position
        # The server ends the watch by itself before the read time-out. So a read that times out shows a dead
        # connection. The random share keeps all watches from ending at the same time.
        timeout_seconds = max(1, int(self._requests.watch_timeout_seconds * self._rng.uniform(0.6, 0.8)))
        self._stream = stream = self._api.watch(
            self.resource, self.namespace, resource_version=before, timeout_seconds=timeout_seconds, **self._selectors
        )
        if self._stopped.is_set():
            # `stop` was called while the watch was being opened, and found no stream to close.
            stream.close()
            return 0.0
        self.vitals.state, self.vitals.problem = "watching", ""
        self.settled.set()
        self._handler.api_works()
        self._note_sign()
        productive = False
        try:
            for lines in stream.lines():
                if self._stopped.is_set():
                    return 0.0
                self._note_sign()
                self._pass_on(lines)
                # Only progress resets the backoff: a watch that is accepted and then fails is no success.
                if self.position > before and not productive:
                    productive = True
                    self._stuck = 0
                    self._backoff.reset()
        finally:
            stream.close()
        if not productive and self._now() - started < SHORT_WATCH_SECONDS:
            return self._backoff.backoff()
        self._backoff.reset()
        if not productive:
            # Not even a bookmark came. A kube-apiserver that was restored from a backup accepts a watch from a version
            # that it has not reached yet, and is silent until it has: maybe for weeks.
            self.needs_list = self._server_is_behind()
        return 0.0

    def _server_is_behind(self) -> bool:
        """True if the server's present version is older than what the watch has shown. One list of one object."""
        page = self._api.list_page(self.resource, self.namespace, **self._selectors, limit=1)
        self._note_sign()
        if page.resource_version >= self.position:
            return False
        self._log.warning(
            "the API server is behind what it has shown, listing again",
            resource=self.source,
            position=self.position,
            server=page.resource_version,
        )
        return True

    def _pass_on(self, lines: list[bytes]) -> None:
        """Pass on the events of these lines."""
        events: list[Event] = []
        try:
            for line in lines:
                self._parse_event(line, events)
        finally:
            # Also after an erroneous line: the position has moved with the events before it, and the next watch begins
            # behind them.
            self._handler.events(events, self.position)

    def _parse_event(self, line: bytes, events: list[Event]) -> None:
        try:
            event: dict[str, Any] = loads(line)
            kind, obj = event["type"], event["object"]
            if kind in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK"):
                meta = obj["metadata"]
                # A bookmark may lack a version.
                version = int(meta.get("resourceVersion") or 0) if kind == "BOOKMARK" else int(meta["resourceVersion"])
                # Otherwise the server repeats an event after a reconnect.
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
        """Decide where to go on after a failure. Returns the seconds to wait."""
        self.vitals.problem = error.message
        # An error with a status is an answer: the server is there.
        if error.status:
            self._note_sign()
        if isinstance(error, Conflict) and error.reason == EXPIRED:
            if not self._resumes:
                self._log.info("history is gone, listing again", resource=self.source, position=self.position)
            self.needs_list = True
            return 0.0
        if error.reason == NOT_INSTALLED:
            why = f"{self.resource} is not installed in the cluster; waiting for its CRD"
            return self._wait_for_kind("missing", why)
        if isinstance(error, Terminal) and error.status in NO_PERMISSION:
            return self._wait_for_kind("forbidden", error.message)
        if not self.needs_list:
            self._stuck += 1
            if self._stuck >= STUCK_SESSIONS and error.status != 0:
                # The server answers, but a watch from this position always ends in an error.
                self.needs_list, self._stuck = True, 0
        self._handler.api_fails(error)
        if error.retry_after_seconds is not None:
            return self._backoff.wait_as_asked(error.retry_after_seconds, self._now())
        return self._backoff.backoff()

    def _wait_for_kind(self, state: str, why: str) -> float:
        """Wait for a kind that is "missing" (its CRD is not installed) or "forbidden". Returns the seconds to wait."""
        if self._resumes:
            raise self._end(why)
        self._handler.api_works()
        if self._logged_absence != state:
            self._logged_absence = state
            (self._log.info if self._optional else self._log.warning)(why, resource=self.source)
        self.vitals.state = state
        if not self.vitals.synced:
            # A missing kind has no objects, so the projection is complete without it. A forbidden one may have some:
            # if the operator needs them, nothing may be decided before the list.
            if state == "missing" or self._optional:
                self.vitals.synced = True
                self._handler.absent()
            else:
                self._handler.refused()
        # While a CRD is missing no watch is open. Once it is installed again, only a list shows what exists. A
        # permission that is granted again leaves the position good.
        self.needs_list = self.needs_list or state == "missing"
        self._backoff.allow_list()
        return self._backoff.backoff(missing=state == "missing")

    def _note_sign(self) -> None:
        self.vitals.last_sign_at = self._now()
