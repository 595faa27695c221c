"""Projector: the handler of a reflector. Turns the objects of one resource into changes and puts them into the event
queue.

An object that cannot be read is skipped, without harm to the others (`watcher.isolation`). Decides nothing about jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import structlog

from tjworker.api.resources import PODS
from tjworker.base import JsonDict, OperatorError
from tjworker.kube.reflector import Closed, Event
from tjworker.kube.resources import RESOURCES
from watcher.event_queue import EventQueue, Forbidden, ListEnd, NotInstalled, ProjectedPage, WatchEvents
from watcher.historian import Historian
from watcher.isolation import Skipped
from watcher.known_objects import KnownObjects
from watcher.node_requests import RequestBook
from watcher.outage import Outage
from watcher.progress import resource_of

log = structlog.get_logger(__name__)


class Projector:
    """Called on the reflector's thread. `source` names the reflector: `pods` or `pods/<namespace>`."""

    def __init__(  # noqa: PLR0913
        self,
        source: str,
        queue: EventQueue,
        cluster_id: Callable[[], str],
        outage: Outage,
        *,  # noqa: PLR0913, RUF100
        on_listed: Callable[[], None] = lambda: None,
        on_second_page: Callable[[int, str], None] = lambda version, cluster: None,
        resumes: str = "",
        serves: Callable[[str], bool] = lambda namespace: True,
        historian: Historian | None = None,
    ) -> None:
        """`on_second_page` gets the version and cluster of a list that has more than one page. `serves`: whether the
        operator serves a namespace; for pods of other namespaces only the requests are counted. `resumes`: id of the
        cluster if this is the handler of a resumed watch. Such a watch sees only objects that change, so it counts no
        requests: sums need every pod."""
        self._source = source
        self._resource = resource_of(source)
        self._queue = queue
        self._read_cluster_id = cluster_id
        self._outage = outage
        self._on_listed = on_listed
        self._on_second_page = on_second_page
        self._resumes = resumes
        self._requests = RequestBook() if self._resource == PODS and not resumes else None
        self.skipped = Skipped(source)
        self._historian = historian if RESOURCES[self._resource].is_job or self._resource == PODS else None
        self._known = KnownObjects(self._resource, self.skipped, self._requests, serves=serves)
        self._cluster = ""
        self._pages = 0
        """Pages of the list that is under way."""
        self._swept = RESOURCES[self._resource].is_named
        """Nothing is to be swept of what Redis does not keep."""

    # -- lists -------------------------------------------------------------------------------------

    def list_begins(self) -> None:
        self._known.begin_list()
        if self._historian is not None:
            self._historian.list_begins(self._source)
        self._pages = 0

    def page(self, objects: Sequence[JsonDict], version: int) -> None:
        if not self._pages:
            self._cluster = self._read_cluster_id()
        self._pages += 1
        if self._pages == 2:
            self._on_second_page(version, self._cluster)
        if self._historian is not None:
            self._historian.list_page(self._source, objects)
        if changes := self._known.page(objects):
            self._queue.put(ProjectedPage(self._source, changes, version, self._cluster, self._known.rewound))

    def list_ends(self, version: int) -> None:
        gone = self._known.end_list(version)
        if self._historian is not None:
            self._historian.list_ends(self._source)
        # Redis may hold objects that were deleted before this term, so the first list of a term is compared with Redis.
        # Later lists are compared with what this term has shown.
        existing = None if self._swept else self._known.existing()
        self._swept = True
        self._queue.put(
            ListEnd(
                self._source,
                version,
                gone,
                existing=existing,
                cluster=self._cluster,
                rewound=self._known.rewound,
                requests=self._changed_requests(),
            )
        )
        self._on_listed()

    def absent(self) -> None:
        self._queue.put(NotInstalled(self._source))
        self._on_listed()

    def refused(self) -> None:
        self._queue.put(Forbidden(self._source))

    # -- watches -----------------------------------------------------------------------------------

    def watch_begins(self) -> None:
        if self._resumes and not self._cluster:
            self._cluster = self._read_cluster_id()
            if self._cluster != self._resumes:
                log.info("cannot resume, the projection is of another cluster", resource=self._source)
                raise Closed

    def events(self, events: Sequence[Event], version: int) -> None:
        changes = [change for kind, obj in events for change in self._known.event(kind, obj)]
        if self._historian is not None:
            for kind, obj in events:
                self._historian.see(self._resource, kind, obj)
        requests = self._changed_requests()
        self._queue.put(WatchEvents(self._source, changes, version, resumed=bool(self._resumes), requests=requests))

    @property
    def objects(self) -> int:
        """How many objects of jobs this source has shown."""
        return len(self._known)

    # -- the API server ----------------------------------------------------------------------------

    def api_fails(self, error: OperatorError) -> None:
        self._outage.fails(self._source, error.message)

    def api_works(self) -> None:
        self._outage.works(self._source)

    def _changed_requests(self) -> Mapping[str, Any]:
        return self._requests.touched() if self._requests is not None else {}
